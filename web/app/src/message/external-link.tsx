import { type MouseEvent, type ReactElement, type ReactNode, useSyncExternalStore } from "react";
import { CopyButton } from "../design/copy-button";
import { Icon } from "../design/icon";
import { Modal } from "../design/modal";
import { useStrings } from "../strings";

const PROTOCOLS = ["http:", "https:", "mailto:"];

/** The address that the dialog asks about; null while it is closed. */
let asked: URL | null = null;
const listeners = new Set<() => void>();

function ask(address: URL | null): void {
  asked = address;
  for (const listener of [...listeners]) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Return an address that may be opened: absolute, and of a protocol that runs nothing. */
function safeAddress(url: string): URL | null {
  const address = URL.parse(url);
  return address && PROTOCOLS.includes(address.protocol) ? address : null;
}

interface ExternalLinkProps {
  url: string;
  className?: string;
  children: ReactNode;
}

/** A link that asks before it leaves the page. An address that must not be opened is shown as text. */
export function ExternalLink({ url, className = "", children }: ExternalLinkProps): ReactElement {
  const address = safeAddress(url);
  if (!address) return <span className={className}>{children}</span>;
  const onClick = (event: MouseEvent): void => {
    event.preventDefault();
    ask(address);
  };
  return (
    <a className={className} href={address.href} target="_blank" rel="noreferrer" onClick={onClick} onAuxClick={onClick}>
      {children}
    </a>
  );
}

/** The question of the links. The page has one of it. */
export function LeaveDialog(): ReactElement {
  const t = useStrings();
  const address = useSyncExternalStore(subscribe, () => asked);
  const close = (): void => ask(null);
  // The link must outlive the click that it follows.
  const closeAfterClick = (): void => void setTimeout(close);
  return (
    <Modal title={t.message.leaveTitle} className="leave" open={address !== null} onOpenChange={close}>
      <p>{t.message.leaveText}</p>
      <p className="address" dir="ltr"><strong>{address?.host}</strong><span>{address?.href}</span></p>
      <div className="modal-actions">
        <CopyButton label={t.message.copyAddress} text={() => address?.href ?? ""} />
        <button type="button" onClick={close}>{t.common.cancel}</button>
        <a className="button primary" href={address?.href} target="_blank" rel="noreferrer" onClick={closeAfterClick}>
          <Icon name="link" />{t.message.open}
        </a>
      </div>
    </Modal>
  );
}
