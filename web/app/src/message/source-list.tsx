import type { SourceDocumentUIPart, SourceUrlUIPart, UIMessage } from "ai";
import type { ReactElement } from "react";
import { useStrings } from "../strings";
import { ExternalLink } from "./external-link";

type Source = SourceUrlUIPart | SourceDocumentUIPart;

function isSource(part: UIMessage["parts"][number]): part is Source {
  return part.type === "source-url" || part.type === "source-document";
}

function SourceLink({ source }: { source: Source }): ReactElement {
  if (source.type === "source-document") return <span>{source.title}</span>;
  return <ExternalLink url={source.url}>{source.title ?? source.url}</ExternalLink>;
}

/** The sources of an answer. */
export function SourceList({ parts }: { parts: UIMessage["parts"] }): ReactElement | null {
  const t = useStrings().message;
  const sources = parts.filter(isSource);
  if (sources.length === 0) return null;
  return (
    <section className="sources" aria-label={t.sources}>
      <h2>{t.sources}</h2>
      <ol>{sources.map((source) => <li key={source.sourceId}><SourceLink source={source} /></li>)}</ol>
    </section>
  );
}
