import { vi } from "vitest";

/** The members of a browser's window and document that a socket uses. */
export class FakeWindow extends EventTarget {
  visibilityState = "visible";
  /** Listeners that were added and not removed. */
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
