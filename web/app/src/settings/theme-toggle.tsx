import { type ReactElement, useEffect, useState, useSyncExternalStore } from "react";
import { Icon } from "../design/icon";

type Theme = "light" | "dark";
const KEY = "adkwire-theme";
const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");

function readChoice(): Theme | null {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : null;
}

function watchSystem(onChange: () => void): () => void {
  SYSTEM_DARK.addEventListener("change", onChange);
  return () => SYSTEM_DARK.removeEventListener("change", onChange);
}

/** Dark or light: the system's, as it changes, until the person chooses the other one; choosing the system's goes back. */
export function ThemeToggle(): ReactElement {
  const system = useSyncExternalStore(watchSystem, (): Theme => (SYSTEM_DARK.matches ? "dark" : "light"));
  const [choice, setChoice] = useState(readChoice);
  const theme = choice ?? system;
  const other = theme === "dark" ? "light" : "dark";
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  const choose = (): void => {
    if (other === system) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, other);
    setChoice(other === system ? null : other);
  };
  return (
    <button type="button" className="quiet square" onClick={choose} aria-label={`Switch to ${other} theme`}>
      <Icon name="theme" />
    </button>
  );
}
