import { HAS_KEYBOARD } from "./has-keyboard";

/** Puts the keyboard on the next card that waits, not on its button: an Enter held too long must not answer that too. */
export function focusNextQuestion(answered: HTMLElement): void {
  const others = [...document.querySelectorAll<HTMLElement>(".approval")].filter((card) => card !== answered);
  const after = others.find((card) => answered.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING);
  const next = after ?? others[0];
  if (next) next.focus();
  else if (HAS_KEYBOARD) document.getElementById("composer")?.focus();
}
