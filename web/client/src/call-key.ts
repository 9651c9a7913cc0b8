/** Names a call: some models number theirs anew in each answer, so it is one of its message. */
export function callKey(messageId: string, toolCallId: string): string {
  return JSON.stringify([messageId, toolCallId]);
}
