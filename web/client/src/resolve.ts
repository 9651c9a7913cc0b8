import type { Resolvable } from "./resolvable.js";

/** What a resolvable value is now. */
export async function resolve<T extends object | string | undefined>(value: Resolvable<T>): Promise<T> {
  return typeof value === "function" ? value() : value;
}
