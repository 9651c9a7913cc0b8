import { type ReactElement, useEffect, useState } from "react";
import { useStrings } from "../strings";
import { IconButton } from "./icon-button";

const SHOW_COPIED_MS = 2000;

/** Copy a text. Over plain HTTP browsers offer the old command only. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

interface CopyButtonProps {
  label: string;
  text: () => string;
}

/** A button that copies a text, and shows for a while that it has. */
export function CopyButton({ label, text }: CopyButtonProps): ReactElement {
  const t = useStrings();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timeout = setTimeout(() => setCopied(false), SHOW_COPIED_MS);
    return () => clearTimeout(timeout);
  }, [copied]);
  return (
    <IconButton className="quiet" icon={copied ? "check" : "copy"} label={copied ? t.common.copied : label}
      onClick={() => void copyText(text()).then(() => setCopied(true), () => undefined)} />
  );
}
