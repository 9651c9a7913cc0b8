import { type ReactElement, useEffect, useState } from "react";
import { Icon } from "./icon";

type Theme = "light" | "dark";
const KEY = "adkwire-theme";

function initialTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  if (kept === "light" || kept === "dark") return kept;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Dark or light: the system's choice until the person makes one. */
export function ThemeToggle(): ReactElement {
  const [theme, setTheme] = useState(initialTheme);
  const other = theme === "dark" ? "light" : "dark";
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  const choose = (): void => {
    localStorage.setItem(KEY, other);
    setTheme(other);
  };
  return (
    <button type="button" className="quiet square" onClick={choose} aria-label={`Switch to ${other} theme`}>
      <Icon name="theme" />
    </button>
  );
}
