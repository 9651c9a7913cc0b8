/** A value, or a function that gives it, at once or later. It is asked anew for every request. */
export type Resolvable<T> = T | PromiseLike<T> | (() => T | PromiseLike<T>);
