import {
  lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls, type UIMessage,
} from "ai";
import { lastStepCalls } from "./last-step-calls";

/**
 * Whether the answers to an agent's calls are complete and leave now. The same answers leave once: a server that has
 * nothing to say to them must not be asked for ever. `forget` allows them again, after a failure.
 */
export function createAutoSend(): { when: (chat: { messages: UIMessage[] }) => boolean; forget: () => void } {
  let sent = "";
  return {
    when: ({ messages }) => {
      const complete = lastAssistantMessageIsCompleteWithApprovalResponses({ messages }) ||
        lastAssistantMessageIsCompleteWithToolCalls({ messages });
      const message = messages.at(-1);
      const calls = lastStepCalls(message).map(({ toolCallId, state }) => [toolCallId, state]);
      const answers = JSON.stringify([message?.id, calls]);
      if (!complete || answers === sent) return false;
      sent = answers;
      return true;
    },
    forget: () => {
      sent = "";
    },
  };
}
