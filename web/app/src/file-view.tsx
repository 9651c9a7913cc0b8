import type { FileUIPart } from "ai";
import type { ReactElement } from "react";

/** An image the page already holds is shown; anything else is a link, so that nothing is fetched unasked. */
export function FileView({ file }: { file: FileUIPart }): ReactElement {
  const name = file.filename ?? file.mediaType;
  const local = /^(data|blob):/.test(file.url);
  if (local && file.mediaType.startsWith("image/")) {
    return <img className="picture" src={file.url} alt={file.filename ?? "Image from the conversation"} />;
  }
  if (local) return <a className="file" href={file.url} download={name}>Save {name}</a>;
  return /^https?:/.test(file.url)
    ? <a className="file" href={file.url} target="_blank" rel="noreferrer">{name}</a>
    : <span className="file">{name}</span>;
}
