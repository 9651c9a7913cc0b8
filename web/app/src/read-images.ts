import type { FileUIPart } from "ai";

const ACCEPTED = ["image/png", "image/jpeg", "image/webp", "image/gif"];

function readImage(file: File): Promise<FileUIPart> {
  return new Promise((resolve, reject) => {
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
  const usable = all.filter((file) => ACCEPTED.includes(file.type));
  const refused = all.filter((file) => !ACCEPTED.includes(file.type)).map((file) => file.name);
  return { images: await Promise.all(usable.map(readImage)), refused };
}
