import type { FileUIPart } from "ai";
import type { ReactElement } from "react";
import { Icon } from "../design/icon";
import { Modal } from "../design/modal";
import { useStrings } from "../strings";
import { ExternalLink } from "./external-link";

/** An image that opens in full size. */
function Picture({ file }: { file: FileUIPart }): ReactElement {
  const t = useStrings().message;
  const name = file.filename ?? t.picture;
  const image = <img className="picture" src={file.url} alt={name} />;
  return (
    <Modal title={name} className="enlarged" trigger={
      <button type="button" className="picture-button" aria-label={t.enlarge(name)}>{image}</button>
    }>
      <img src={file.url} alt={name} />
      <div className="modal-actions">
        <a className="button" href={file.url} download={file.filename ?? t.pictureFile(file.mediaType)}><Icon name="down" />{t.savePicture}</a>
      </div>
    </Modal>
  );
}

/** A file. An image that the page already holds is shown; anything else is a link, so that no request is made unasked. */
export function FileView({ file }: { file: FileUIPart }): ReactElement {
  const t = useStrings().message;
  const name = file.filename ?? file.mediaType;
  const local = /^(data|blob):/.test(file.url);
  if (local && file.mediaType.startsWith("image/")) return <Picture file={file} />;
  if (local) return <a className="file" href={file.url} download={name}>{t.save(name)}</a>;
  return <ExternalLink className="file" url={file.url}>{name}</ExternalLink>;
}
