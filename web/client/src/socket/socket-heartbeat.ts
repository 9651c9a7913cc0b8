import { isHidden } from "./page-visibility.js";

/** A timer that pings the server and reports when nothing came back for too long. */
export class SocketHeartbeat {
  private timer: ReturnType<typeof setInterval> | undefined;
  /** When the oldest ping was sent that nothing has followed yet. */
  private pingedAt: number | undefined;

  /** `interval` and `silence` are milliseconds. */
  constructor(
    private readonly interval: number,
    private readonly silence: number,
    private readonly sendPing: () => void,
    private readonly lost: () => void,
  ) {}

  start(): void {
    this.stop();
    this.timer = setInterval(() => this.ping(), this.interval);
    this.ping();
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.pingedAt = undefined;
  }

  /** Something came from the server. */
  received(): void {
    this.pingedAt = undefined;
  }

  /** Ping now, also between two intervals. */
  ping(): void {
    if (this.timer === undefined) return;
    // Browsers suspend hidden pages, so silence there does not mean a lost connection.
    if (isHidden()) return this.received();
    if (this.pingedAt !== undefined && Date.now() - this.pingedAt >= this.silence) return this.lost();
    this.pingedAt ??= Date.now();
    this.sendPing();
  }
}
