import { Dialog } from "radix-ui";
import { type ReactElement, type ReactNode, useRef } from "react";
import { useStrings } from "../strings";
import { IconButton } from "./icon-button";

interface ModalProps {
  title: string;
  /** The button that opens it, for a modal that keeps its own state. */
  trigger?: ReactElement;
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
  className?: string;
  children: ReactNode;
}

/** A dialog over the page, closed by Escape, a click beside it, or its button. Focus starts on the dialog itself. */
export function Modal({ title, trigger, className = "", children, ...state }: ModalProps): ReactElement {
  const t = useStrings().common;
  const content = useRef<HTMLDivElement>(null);
  const focusContent = (event: Event): void => {
    event.preventDefault();
    content.current?.focus();
  };
  return (
    <Dialog.Root {...state}>
      {trigger && <Dialog.Trigger asChild>{trigger}</Dialog.Trigger>}
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content ref={content} className={`modal ${className}`} aria-describedby={undefined} onOpenAutoFocus={focusContent}>
          <div className="modal-head">
            <Dialog.Title>{title}</Dialog.Title>
            <Dialog.Close asChild><IconButton className="quiet" icon="close" label={t.close} /></Dialog.Close>
          </div>
          {children}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
