import "./no-eval";
import "./design/tokens.css";
import "./design/base.css";
import { createRoot } from "react-dom/client";
import { App } from "./shell/app";
import { token } from "./transport/token";

/** Refuse files that are dropped beside the message box: the browser would open them in place of the page. */
function refuseStrayFiles(): void {
  const refuse = (event: DragEvent): void => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  };
  window.addEventListener("dragover", refuse);
  window.addEventListener("drop", refuse);
}

token.takeFromAddress();
refuseStrayFiles();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
