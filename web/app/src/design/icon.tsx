import type { ReactElement } from "react";

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.2v.1",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7.5 7.5h9v9h-9z",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  close: "M6 6l12 12M18 6L6 18",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  ask: "M12 3.5l7 2.6v5.4c0 4.3-2.9 7.4-7 9-4.1-1.6-7-4.7-7-9V6.1zM9.6 9.6a2.4 2.4 0 1 1 3.3 2.2c-.6.3-.9.7-.9 1.4M12 16v.1",
  note: "M9 18V6l10-2v11.5M9 18a2.4 2.4 0 1 1-4.8 0A2.4 2.4 0 0 1 9 18zM19 15.5a2.4 2.4 0 1 1-4.8 0 2.4 2.4 0 0 1 4.8 0z",
  tool: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z",
} as const;

/** A line drawing beside a label; it says nothing to a screen reader. */
export function Icon({ name }: { name: keyof typeof PATHS }): ReactElement {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
