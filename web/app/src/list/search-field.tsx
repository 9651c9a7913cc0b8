import { type KeyboardEvent, type ReactElement, type RefObject, useEffect, useRef, useState } from "react";
import { useEscape } from "../design/escape";
import { HAS_KEYBOARD } from "../design/has-keyboard";
import { useStrings } from "../strings";

const EDITABLE = "input, textarea, select, [contenteditable]";
const OPEN_LAYER = "[role=dialog], [role=alertdialog], [role=menu], [role=listbox]";
const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Return whether a key asks for the search: Ctrl+K or Cmd+K anywhere, or `/` where it would not be written. */
function asksForSearch({ key, ctrlKey, metaKey, altKey, shiftKey, isComposing, target }: globalThis.KeyboardEvent): boolean {
  if (isComposing || altKey || document.querySelector(OPEN_LAYER)) return false;
  if (ctrlKey || metaKey) return !shiftKey && key.toLowerCase() === "k";
  return key === "/" && !(target instanceof Element && target.closest(EDITABLE));
}

function useSearchKey(box: RefObject<HTMLInputElement | null>): void {
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent): void => {
      if (!asksForSearch(event) || !box.current?.checkVisibility({ visibilityProperty: true })) return;
      event.preventDefault();
      box.current.select();
      box.current.focus();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [box]);
}

interface SearchFieldProps {
  query: string;
  onChange: (query: string) => void;
  /** Called to go on to the chats that were found. */
  onDown: () => void;
  /** Called to open the first chat that was found. */
  onEnter: () => void;
}

/** The search in the titles of the list. */
export function SearchField({ query, onChange, onDown, onEnter }: SearchFieldProps): ReactElement {
  const t = useStrings().list;
  const box = useRef<HTMLInputElement>(null);
  const [focused, setFocused] = useState(false);
  useSearchKey(box);
  useEscape(focused, () => {
    if (query) onChange("");
    else document.getElementById("composer")?.focus();
  });
  const onKey = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return;
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    if (event.key === "ArrowDown") onDown();
    else onEnter();
  };
  return (
    <div className="search">
      <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12zM15.5 15.5L20 20" /></svg>
      <input ref={box} type="search" value={query} aria-label={t.search} placeholder={t.search} autoComplete="off" spellCheck={false}
        aria-keyshortcuts="Control+K Meta+K /" onChange={(event) => onChange(event.target.value)} onKeyDown={onKey}
        onFocus={() => setFocused(true)} onBlur={() => setFocused(false)} />
      {HAS_KEYBOARD && !focused && !query && <kbd aria-hidden="true">{IS_MAC ? "⌘K" : "Ctrl K"}</kbd>}
    </div>
  );
}
