import type { SourceDocumentUIPart, SourceUrlUIPart, UIMessage } from "ai";
import type { ReactElement } from "react";

type Source = SourceUrlUIPart | SourceDocumentUIPart;

function isSource(part: UIMessage["parts"][number]): part is Source {
  return part.type === "source-url" || part.type === "source-document";
}

function SourceLink({ source }: { source: Source }): ReactElement {
  if (source.type === "source-document") return <span>{source.title}</span>;
  const name = source.title ?? source.url;
  return /^https?:/.test(source.url)
    ? <a href={source.url} target="_blank" rel="noreferrer">{name}</a>
    : <span>{name}</span>;
}

/** What the answer rests on. Only web addresses become links. */
export function SourceList({ parts }: { parts: UIMessage["parts"] }): ReactElement | null {
  const sources = parts.filter(isSource);
  if (sources.length === 0) return null;
  return (
    <section className="sources" aria-label="Sources">
      <h3>Sources</h3>
      <ol>{sources.map((source) => <li key={source.sourceId}><SourceLink source={source} /></li>)}</ol>
    </section>
  );
}
