import { PATIENCE } from "../patience.mjs";

/** Wakes who waits for a state, at every change of it; the deadline only turns a hang into a failure. */
export class Signal {
  constructor() {
    this.waiters = new Set();
  }

  changed() {
    for (const wake of this.waiters) wake();
  }

  until(what, condition) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => finish(() => reject(new Error(`waited in vain for ${what}`))), PATIENCE);
      const finish = (act) => {
        clearTimeout(late);
        this.waiters.delete(wake);
        act();
      };
      const wake = () => condition() && finish(resolve);
      this.waiters.add(wake);
      wake();
    });
  }
}
