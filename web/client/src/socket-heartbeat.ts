import { isHidden } from "./socket-wake.js";

/** Asks now and then whether the other side is there, and tells when it has not been for too long. */
export class SocketHeartbeat {
  private timer: ReturnType<typeof setInterval> | undefined;
  /** When the oldest question was asked that nothing has come after. */
  private asked: number | undefined;

  constructor(
    private readonly every: number,
    private readonly silence: number,
    private readonly ask: () => void,
    private readonly dead: () => void,
  ) {}

  start(): void {
    this.stop();
    this.timer = setInterval(() => this.beat(), this.every);
    this.beat();
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.asked = undefined;
  }

  heard(): void {
    this.asked = undefined;
  }

  /** Ask now, out of turn. */
  beat(): void {
    if (this.timer === undefined) return;
    // A hidden page sleeps: its silence says nothing.
    if (isHidden()) return this.heard();
    if (this.asked !== undefined && Date.now() - this.asked >= this.silence) return this.dead();
    this.asked ??= Date.now();
    this.ask();
  }
}
