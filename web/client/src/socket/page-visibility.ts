/** Return true while the page is hidden. In a process without a page nothing is ever hidden. */
export function isHidden(): boolean {
  return typeof document !== "undefined" && document.visibilityState === "hidden";
}

/** Call back when the browser is online again or the page becomes visible. Return a function that ends this. */
export function onWake(callback: () => void): () => void {
  if (typeof addEventListener !== "function") return () => {};
  const visibilityChanged = (): void => {
    if (!isHidden()) callback();
  };
  const page = typeof document === "undefined" ? undefined : document;
  addEventListener("online", callback);
  page?.addEventListener("visibilitychange", visibilityChanged);
  return () => {
    removeEventListener("online", callback);
    page?.removeEventListener("visibilitychange", visibilityChanged);
  };
}
