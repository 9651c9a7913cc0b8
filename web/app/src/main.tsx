import "./no-eval";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { refuseStrayFiles } from "./refuse-stray-files";
import { token } from "./token";
import "./style.css";

token.takeFromAddress();
refuseStrayFiles();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
