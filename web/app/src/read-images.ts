import type { FileUIPart } from "ai";

const ACCEPTED = ["image/png", "image/jpeg", "image/webp", "image/gif"];

function readImage(file: File): Promise<FileUIPart> {
  return new Promise((resolve, reject) => {
    if (!ACCEPTED.includes(file.type)) return reject(new Error(`${file.name} is no image we can send.`));
    const reader = new FileReader();
    reader.onload = () =>
      resolve({ type: "file", mediaType: file.type, filename: file.name, url: String(reader.result) });
    reader.onerror = () => reject(reader.error ?? new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

/** Reads images as data URLs and names the files that are none we can send. */
export async function readImages(files: Iterable<File>): Promise<{ images: FileUIPart[]; refused: string[] }> {
  const all = [...files];
  const read = await Promise.all(all.map((file) => readImage(file).catch(() => null)));
  return {
    images: read.filter((image) => image !== null),
    refused: all.filter((_, index) => read[index] === null).map((file) => file.name),
  };
}
