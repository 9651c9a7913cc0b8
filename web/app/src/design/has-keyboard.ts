/** Where a finger points, a focused text box would cover half the screen with keys. */
export const HAS_KEYBOARD = matchMedia("(pointer: fine)").matches;
