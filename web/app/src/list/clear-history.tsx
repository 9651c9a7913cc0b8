import { type ReactElement, useState } from "react";
import { Icon } from "../design/icon";
import { Modal } from "../design/modal";
import { useStrings } from "../strings";
import { deleteOtherChats } from "./chat-actions";
import type { ChatSummary } from "./use-chat-list";

interface ClearHistoryProps {
  /** The chat that is shown, if it is in the list. */
  shown: ChatSummary | undefined;
  /** Called when all chats are deleted but the one that is shown, which its owner deletes and leaves. */
  onCleared: () => void;
}

/** A button that deletes all chats, after a question. */
export function ClearHistory({ shown, onCleared }: ClearHistoryProps): ReactElement {
  const t = useStrings();
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const clear = async (): Promise<void> => {
    setBusy(true);
    setFailure("");
    try {
      await deleteOtherChats(shown?.id);
      setOpen(false);
      onCleared();
    } catch (error) {
      setFailure(t.list.notCleared((error as Error).message));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal title={t.list.clearTitle} open={open} onOpenChange={setOpen} trigger={
      <button type="button" className="quiet clear-history"><Icon name="trash" />{t.list.clear}</button>
    }>
      <p>{t.list.clearText}</p>
      {failure && <p className="failure" role="alert">{failure}</p>}
      <div className="modal-actions">
        <button type="button" onClick={() => setOpen(false)}>{t.common.cancel}</button>
        <button type="button" className="danger" disabled={busy} onClick={clear}>{busy ? t.list.clearing : t.list.clearAll}</button>
      </div>
    </Modal>
  );
}
