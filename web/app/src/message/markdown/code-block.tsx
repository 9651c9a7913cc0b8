import { memo, type ReactElement, type ReactNode, useEffect, useState } from "react";
import { CopyButton } from "../../design/copy-button";
import { useStrings } from "../../strings";

interface CodeBlockProps {
  code: string;
  /** What stands behind the fence; empty where nothing does. */
  language: string;
}

/** Longer code stays plain: to colour it would hold up the page. */
const LONGEST_COLOURED = 50_000;

/** Code that still grows is coloured when it has not changed for so long. */
const SETTLED_MS = 150;

/** Return the code with its syntax coloured, once the highlighter is loaded; plain until then. */
function useHighlighted(code: string, language: string): ReactNode {
  const [coloured, setColoured] = useState<{ code: string; content: ReactNode } | null>(null);
  useEffect(() => {
    if (!language || code.length > LONGEST_COLOURED) return;
    let wanted = true;
    const timeout = setTimeout(() => {
      import("./highlight").then(({ highlight }) => {
        const content = highlight(code, language);
        if (wanted && content) setColoured({ code, content });
        // Without the highlighter, plain code is what there is.
      }, () => undefined);
    }, SETTLED_MS);
    return () => {
      wanted = false;
      clearTimeout(timeout);
    };
  }, [code, language]);
  return coloured?.code === code ? coloured.content : code;
}

/** Code with the name of its language and a button that copies it. */
export const CodeBlock = memo(function CodeBlock({ code, language }: CodeBlockProps): ReactElement {
  const t = useStrings().message;
  const [name = ""] = language.split(/\s/);
  return (
    <figure className="code" dir="ltr">
      <figcaption>
        <span>{name}</span>
        <CopyButton label={t.copyCode} text={() => code} />
      </figcaption>
      <pre tabIndex={0} aria-label={name || t.code}><code>{useHighlighted(code, name)}</code></pre>
    </figure>
  );
});
