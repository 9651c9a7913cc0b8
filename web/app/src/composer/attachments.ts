import type { FileUIPart } from "ai";
import { strings } from "../strings";
import type { Limits } from "../transport/server-info";

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

/** Return the image, or a sentence that says why it cannot be sent. */
async function readImage(file: File, limits: Limits): Promise<FileUIPart | string> {
  const { common, composer: t } = strings();
  if (!ACCEPTED.includes(file.type)) return t.noImage(file.name);
  if (file.size > limits.partBytes) return t.tooLarge(file.name, common.megabytes(limits.partBytes));
  try {
    const url = await readDataUrl(file);
    const tooLarge = (await countPixels(url)) > limits.imagePixels;
    if (tooLarge) return t.tooManyPixels(file.name, limits.imagePixels);
    return { type: "file", mediaType: file.type, filename: file.name, url };
  } catch {
    return t.unreadable(file.name);
  }
}

/** Read images as data URLs. `refused` says of each file that cannot be sent why. */
export async function readImages(
  files: Iterable<File>, limits: Limits,
): Promise<{ images: FileUIPart[]; refused: string[] }> {
  const read = await Promise.all([...files].map((file) => readImage(file, limits)));
  return {
    images: read.filter((one) => typeof one !== "string"),
    refused: read.filter((one) => typeof one === "string"),
  };
}

/** An upper bound of what JSON adds around a part. */
const WRAPPING_BYTES = 500;

/** Return why a message exceeds the server's limits; empty when it does not. */
export function describeExcess(text: string, images: FileUIPart[], limits: Limits): string {
  const { common, composer: t } = strings();
  const textBytes = new Blob([text]).size;
  // The text is a part of its own, even when it is empty.
  if (images.length > limits.parts - 1) return t.tooManyImages(limits.parts - 1);
  if (textBytes > limits.partBytes) return t.textTooLong(common.megabytes(limits.partBytes));
  const bytes = images.reduce((sum, image) => sum + image.url.length + WRAPPING_BYTES, textBytes);
  if (images.length > 0 && bytes > limits.bodyBytes) {
    return t.tooMuch(common.megabytes(limits.bodyBytes));
  }
  return "";
}
