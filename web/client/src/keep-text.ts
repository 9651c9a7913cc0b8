/** Shortens the last text among parts to what is kept of it, in place. */
export function keepText(parts: readonly { type: string }[], kept: string): void {
  const last = parts.findLast((part): part is { type: "text"; text: string } => part.type === "text");
  if (last?.text.startsWith(kept)) last.text = kept;
}
