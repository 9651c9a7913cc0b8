import type { ReactElement } from "react";
import { Modal } from "../design/modal";
import { useStrings } from "../strings";

interface TakeOverDialogProps {
  open: boolean;
  /** Send the message here, in the live conversation. */
  onTakeOver: () => void;
  /** Leave the conversation to the other window. */
  onCancel: () => void;
}

/** Asks what to do with a message to a chat that is live in another window. */
export function TakeOverDialog({ open, onTakeOver, onCancel }: TakeOverDialogProps): ReactElement {
  const t = useStrings();
  return (
    <Modal title={t.chat.liveElsewhere} open={open} onOpenChange={(stays) => { if (!stays) onCancel(); }}>
      <p>{t.chat.liveElsewhereText}</p>
      <div className="modal-actions">
        <button type="button" onClick={onCancel}>{t.common.cancel}</button>
        <button type="button" className="primary" onClick={onTakeOver}>{t.chat.takeOver}</button>
      </div>
    </Modal>
  );
}
