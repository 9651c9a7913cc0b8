import type { FileUIPart } from "ai";
import { formatBytes } from "./format-bytes";
import type { Limits } from "./limits";

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
