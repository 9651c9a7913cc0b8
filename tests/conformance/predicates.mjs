// The ways a page may set `sendAutomaticallyWhen`. Each is asked about a state of the chat and changes nothing.

/** Whether the page has answered a call of its last message and no request has carried that answer yet. */
function holdsNews({ answers, wire }, { messages }) {
  const last = messages.at(-1);
  const sent = wire.requests.flatMap((request) => request.sent.filter(({ id }) => id === last?.id));
  const isNews = ({ toolCallId: call }) => answers.has(call) && !sent.some(({ calls }) => calls[call] === answers.get(call));
  return last?.role === "assistant" && last.parts.some(isNews);
}

export const predicates = {
  /** The setting that loops most easily: re-send when approvals are answered or when every tool has its output. */
  eager: ({ ai }, state) =>
    ai.lastAssistantMessageIsCompleteWithApprovalResponses(state) || ai.lastAssistantMessageIsCompleteWithToolCalls(state),

  approvals: ({ ai }, state) => ai.lastAssistantMessageIsCompleteWithApprovalResponses(state),

  /** Every answer at once, whether or not others are still awaited. */
  "one by one": holdsNews,

  always: () => true,
  never: () => false,
};
