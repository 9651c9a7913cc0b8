/** How much one message may carry. */
export interface Limits {
  bodyBytes: number;
  partBytes: number;
  parts: number;
  imagePixels: number;
}
