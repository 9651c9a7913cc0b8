import { useSyncExternalStore } from "react";
import { preferences } from "../preferences/preferences";
import { en, type Strings } from "./en";
import { ja } from "./ja";

export type { Strings };

const LANGUAGES: Record<Language, Strings> = { en, ja };

type Language = "en" | "ja";

/** Return the language of the page: the chosen one, or the first of the browser's that there is. */
export function language(): Language {
  const chosen = preferences.get().language;
  if (chosen !== "auto") return chosen;
  const known = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag in LANGUAGES);
  return (known as Language | undefined) ?? "en";
}

/** Return the strings of the page, for code outside of components. */
export function strings(): Strings {
  return LANGUAGES[language()];
}

/** Return the strings of the page, and render again when the language changes. */
export function useStrings(): Strings {
  return LANGUAGES[useSyncExternalStore(preferences.subscribe, language)];
}

function setDocumentLanguage(): void {
  document.documentElement.lang = language();
}

preferences.subscribe(setDocumentLanguage);
window.addEventListener("languagechange", setDocumentLanguage);
setDocumentLanguage();
