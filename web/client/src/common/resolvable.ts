/** A value, a promise of it, or a function that returns either and is called anew for every request. */
export type Resolvable<T> = T | PromiseLike<T> | (() => T | PromiseLike<T>);

/** Return the current value of a resolvable option. */
export async function resolve<T extends object | string | undefined>(value: Resolvable<T>): Promise<T> {
  return typeof value === "function" ? value() : value;
}
