const SIZE = 0x1_0000;

/** The generation behind this one: 16 bits, then from the start again. */
export function nextGeneration(generation: number): number {
  return (generation + 1) % SIZE;
}

/** Whether a generation came before another, of those that can be alive together. */
export function isOlder(generation: number, other: number): boolean {
  return (generation - other + SIZE) % SIZE >= SIZE / 2;
}
