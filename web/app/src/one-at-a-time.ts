/** Runs `work` now, or once more after the run that is under way: however often it is asked for meanwhile. */
export function oneAtATime(work: () => Promise<void>): () => void {
  let running = false;
  let again = false;
  return async function ask(): Promise<void> {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      await work();
    }
    running = false;
  };
}
