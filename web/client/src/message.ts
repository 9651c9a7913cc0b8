/** What is read of a message; those of AI SDK 6 and 7 both fit, with whatever tools, data and metadata they have. */
export interface Message {
  id: string;
  role: string;
  parts: readonly { type: string }[];
}
