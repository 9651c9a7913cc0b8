import type { ReactElement } from "react";

/** A pencil, drawn as the icons of `design/icon.tsx` are. */
export function EditIcon(): ReactElement {
  return (
    <svg className="icon" data-icon="edit" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d="M4.5 19.5l.9-4L16 4.9a1.9 1.9 0 0 1 2.7 0l.4.4a1.9 1.9 0 0 1 0 2.7L8.5 18.6zM14 7l3 3" />
    </svg>
  );
}
