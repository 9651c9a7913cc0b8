import { type ReactElement, useSyncExternalStore } from "react";
import { IconButton } from "../design/icon-button";
import { preferences } from "../preferences/preferences";
import { useStrings } from "../strings";

const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");

/** Switches between dark and light. To choose what the system has is to follow the system again. */
export function ThemeToggle(): ReactElement {
  const t = useStrings();
  const theme = useSyncExternalStore(preferences.subscribe, preferences.theme);
  const other = theme === "dark" ? "light" : "dark";
  const choose = (): void => {
    const system = SYSTEM_DARK.matches ? "dark" : "light";
    preferences.set("theme", other === system ? "system" : other);
  };
  return <IconButton className="quiet" icon={other} label={t.settings.switchTheme[other]} onClick={choose} />;
}
