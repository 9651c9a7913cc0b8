import type { FileUIPart } from "ai";
import { formatBytes } from "./format-bytes";
import type { Limits } from "./limits";

/** What JSON adds around a part, generously. */
const WRAPPING_BYTES = 500;

/** Why a message is more than the server takes at once, or nothing. */
export function describeExcess(text: string, images: FileUIPart[], limits: Limits): string {
  const textBytes = new Blob([text]).size;
  // The text is a part of its own, even when it is empty.
  if (images.length > limits.parts - 1) return `Too many images: a message takes at most ${limits.parts - 1}. Remove some.`;
  if (textBytes > limits.partBytes) return `The text is too long: at most ${formatBytes(limits.partBytes)} can be sent.`;
  const bytes = images.reduce((sum, image) => sum + image.url.length + WRAPPING_BYTES, textBytes);
  if (images.length > 0 && bytes > limits.bodyBytes) {
    return `Too much for one message: at most ${formatBytes(limits.bodyBytes)} can be sent at once. Remove an image.`;
  }
  return "";
}
