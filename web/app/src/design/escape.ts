import { useEffect, useRef } from "react";

/** Radix closes these by itself. */
const OPEN_LAYER = "[role=dialog], [role=alertdialog], [role=menu], [role=listbox]";

/** The handlers of the active users of Escape; the last one is on top. */
const handlers: (() => void)[] = [];

function onKey(event: KeyboardEvent): void {
  // While a Japanese word is composed, Escape belongs to the input method.
  if (event.key !== "Escape" || event.isComposing || document.querySelector(OPEN_LAYER)) return;
  handlers.at(-1)?.();
}

// Captured: when the event bubbles, Radix may already have removed the layer that it closed.
window.addEventListener("keydown", onKey, true);

/** Call a handler on Escape while `active`, unless a dialog, a menu or a later user of Escape takes the key. */
export function useEscape(active: boolean, handler: () => void): void {
  const latest = useRef(handler);
  latest.current = handler;
  useEffect(() => {
    if (!active) return;
    const call = (): void => latest.current();
    handlers.push(call);
    return () => void handlers.splice(handlers.indexOf(call), 1);
  }, [active]);
}
