import type { FileUIPart } from "ai";
import type { Limits } from "../transport/server-info";

const MEGABYTES = new Intl.NumberFormat("en", { style: "unit", unit: "megabyte", maximumSignificantDigits: 3 });

/** A size as a person reads it. */
function formatBytes(bytes: number): string {
  return MEGABYTES.format(bytes / 1e6);
}

const ACCEPTED = ["image/png", "image/jpeg", "image/webp", "image/gif"];

function readDataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function countPixels(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image.naturalWidth * image.naturalHeight);
    image.onerror = reject;
    image.src = url;
  });
}

/** The image, or a sentence that says why it cannot be sent. */
async function readImage(file: File, limits: Limits): Promise<FileUIPart | string> {
  if (!ACCEPTED.includes(file.type)) return `${file.name} is no PNG, JPEG, WebP or GIF image.`;
  if (file.size > limits.partBytes) return `${file.name} is larger than ${formatBytes(limits.partBytes)}.`;
  try {
    const url = await readDataUrl(file);
    const tooLarge = (await countPixels(url)) > limits.imagePixels;
    if (tooLarge) return `${file.name} has more than ${limits.imagePixels.toLocaleString("en")} pixels.`;
    return { type: "file", mediaType: file.type, filename: file.name, url };
  } catch {
    return `${file.name} cannot be read as an image.`;
  }
}

/** Reads images as data URLs, and says of each file that cannot be sent why. */
export async function readImages(
  files: Iterable<File>, limits: Limits,
): Promise<{ images: FileUIPart[]; refused: string[] }> {
  const read = await Promise.all([...files].map((file) => readImage(file, limits)));
  return {
    images: read.filter((one) => typeof one !== "string"),
    refused: read.filter((one) => typeof one === "string"),
  };
}

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
