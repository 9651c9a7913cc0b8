import "./no-eval";
import { createRoot } from "react-dom/client";
import { App } from "./shell/app";
import { token } from "./transport/token";
import "./design/style.css";

/** A file dropped beside the message box is not taken: without this the browser would open it in place of the page. */
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
