import { common, createLowlight } from "lowlight";
import { Fragment, type ReactNode } from "react";

const lowlight = createLowlight(common);

type Node = ReturnType<typeof lowlight.highlight>["children"][number];

function rendered(node: Node, key: number): ReactNode {
  if (node.type === "text") return <Fragment key={key}>{node.value}</Fragment>;
  if (node.type !== "element") return null;
  const classes = node.properties["className"];
  return (
    <span key={key} className={Array.isArray(classes) ? classes.join(" ") : ""}>
      {(node.children as Node[]).map(rendered)}
    </span>
  );
}

/** Return code as coloured spans, or null for a language that is not known. A large module: import it lazily. */
export function highlight(code: string, language: string): ReactNode {
  if (!lowlight.registered(language)) return null;
  return lowlight.highlight(language, code).children.map(rendered);
}
