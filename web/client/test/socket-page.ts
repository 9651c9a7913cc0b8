import { vi } from "vitest";

/** The window and document of a browser, as far as a socket looks at them. */
export class Page extends EventTarget {
  visibilityState = "visible";
  /** Those that somebody has to take away. */
  listeners = 0;

  constructor() {
    super();
    vi.stubGlobal("document", this);
    vi.stubGlobal("addEventListener", this.addEventListener.bind(this));
    vi.stubGlobal("removeEventListener", this.removeEventListener.bind(this));
  }

  show(visible: boolean): void {
    this.visibilityState = visible ? "visible" : "hidden";
    this.dispatchEvent(new Event("visibilitychange"));
  }

  override addEventListener(type: string, listener: EventListener, options?: AddEventListenerOptions): void {
    if (!options?.signal) this.listeners += 1;
    super.addEventListener(type, listener, options);
  }

  override removeEventListener(type: string, listener: EventListener): void {
    this.listeners -= 1;
    super.removeEventListener(type, listener);
  }
}
