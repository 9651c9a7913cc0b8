import type { ReactElement } from "react";

const PATHS = {
  ask: "M12 3.5l7 2.6v5.4c0 4.3-2.9 7.4-7 9-4.1-1.6-7-4.7-7-9V6.1zM9.6 9.6a2.4 2.4 0 1 1 3.3 2.2c-.6.3-.9.7-.9 1.4M12 16v.1",
  check: "M5 12.5l4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v10H9zM15 9V5H5v10h4",
  dark: "M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7z",
  down: "M12 5v14M6 13l6 6 6-6",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.2v.1",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  link: "M14 5h5v5M19 5l-8 8M17 14v5H5V7h5",
  menu: "M4 7h16M4 12h16M4 17h16",
  note: "M9 18V6l10-2v11.5M9 18a2.4 2.4 0 1 1-4.8 0A2.4 2.4 0 0 1 9 18zM19 15.5a2.4 2.4 0 1 1-4.8 0 2.4 2.4 0 0 1 4.8 0z",
  plus: "M12 5v14M5 12h14",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  send: "M12 19V5M6 11l6-6 6 6",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM9 15a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  stop: "M7.5 7.5h9v9h-9z",
  tool: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7",
} as const;

export type IconName = keyof typeof PATHS;

/** A line drawing beside a label, hidden from screen readers. */
export function Icon({ name }: { name: IconName }): ReactElement {
  return (
    <svg className="icon" data-icon={name} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
