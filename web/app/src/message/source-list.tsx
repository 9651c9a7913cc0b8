import type { SourceDocumentUIPart, SourceUrlUIPart, UIMessage } from "ai";
import type { ReactElement } from "react";
import { useStrings } from "../strings";
import { ExternalLink } from "./external-link";

type Source = SourceUrlUIPart | SourceDocumentUIPart;

function isSource(part: UIMessage["parts"][number]): part is Source {
  return part.type === "source-url" || part.type === "source-document";
}

function SourceLink({ source }: { source: Source }): ReactElement {
  if (source.type === "source-document") return <span className="source"><span>{source.title}</span></span>;
  const host = URL.parse(source.url)?.host;
  return (
    <ExternalLink className="source" url={source.url}>
      <span>{source.title ?? source.url}</span>{source.title && host && <> <span className="host">{host}</span></>}
    </ExternalLink>
  );
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
