/** Whether nobody can see the page. A process without a page is always looked at. */
export function isHidden(): boolean {
  return typeof document !== "undefined" && document.visibilityState === "hidden";
}

/** Call back when the network returns or the page is looked at again. Returns what ends it. */
export function onWake(callback: () => void): () => void {
  if (typeof addEventListener !== "function") return () => {};
  const seen = (): void => {
    if (!isHidden()) callback();
  };
  const page = typeof document === "undefined" ? undefined : document;
  addEventListener("online", callback);
  page?.addEventListener("visibilitychange", seen);
  return () => {
    removeEventListener("online", callback);
    page?.removeEventListener("visibilitychange", seen);
  };
}
