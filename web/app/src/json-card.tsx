import type { ReactElement } from "react";
import { prettyJson } from "./pretty-json";

/** Anything, folded away, as JSON. */
export function JsonCard({ title, value }: { title: string; value: unknown }): ReactElement {
  return (
    <details className="json-card">
      <summary>{title}</summary>
      <pre tabIndex={0}>{prettyJson(value)}</pre>
    </details>
  );
}
