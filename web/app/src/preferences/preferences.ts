import { useSyncExternalStore } from "react";

/** What the user has chosen for this browser. `system` and `auto` follow the browser's own settings. */
export interface Preferences {
  readonly theme: "system" | "light" | "dark";
  readonly density: "comfortable" | "compact";
  readonly language: "auto" | "en" | "ja";
}

type Name = keyof Preferences;

const DEFAULTS: Preferences = { theme: "system", density: "comfortable", language: "auto" };

const OTHERS: { readonly [N in Name]: readonly Preferences[N][] } = {
  theme: ["light", "dark"],
  density: ["compact"],
  language: ["en", "ja"],
};

const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

const keyOf = (name: Name): string => `adkwire-${name}`;

function read<N extends Name>(name: N): Preferences[N] {
  const stored = localStorage.getItem(keyOf(name));
  return OTHERS[name].find((value) => value === stored) ?? DEFAULTS[name];
}

function readAll(): Preferences {
  return { theme: read("theme"), density: read("density"), language: read("language") };
}

let current = readAll();

function update(): void {
  current = readAll();
  document.documentElement.dataset["theme"] = preferences.theme();
  document.documentElement.dataset["density"] = current.density;
  for (const listener of [...listeners]) listener();
}

/** The store of preferences. Other tabs follow a change; `<html>` carries `data-theme` and `data-density`. */
export const preferences = {
  get: (): Preferences => current,
  /** The theme in effect. */
  theme: (): "light" | "dark" => {
    if (current.theme !== "system") return current.theme;
    return SYSTEM_DARK.matches ? "dark" : "light";
  },
  set<N extends Name>(name: N, value: Preferences[N]): void {
    if (value === DEFAULTS[name]) localStorage.removeItem(keyOf(name));
    else localStorage.setItem(keyOf(name), value);
    update();
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** Return the preferences, and render again when one changes. */
export function usePreferences(): Preferences {
  return useSyncExternalStore(preferences.subscribe, preferences.get);
}

window.addEventListener("storage", update);
SYSTEM_DARK.addEventListener("change", update);
update();
