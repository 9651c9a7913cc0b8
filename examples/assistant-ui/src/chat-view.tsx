import { type Chat, useChat } from "@ai-sdk/react";
import { AssistantRuntimeProvider, ComposerPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { type FileMessagePartProps, type ToolCallMessagePartProps, useAuiState } from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import type { UIMessage } from "ai";
import { explain, stopAgent } from "./agent-chat";

export function ChatView({ chat }: { chat: Chat<UIMessage> }) {
  const helpers = useChat({ chat });
  const runtime = useAISDKRuntime(helpers);
  const isBusy = helpers.status === "submitted" || helpers.status === "streaming";
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root render={<main />}>
        <ThreadPrimitive.Viewport role="log" aria-label="Conversation" aria-busy={isBusy}>
          <ThreadPrimitive.Messages components={{ Message }} />
        </ThreadPrimitive.Viewport>
        {helpers.error && <p role="alert">{explain(helpers.error)}</p>}
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" autoFocus />
          {isBusy && <button type="button" onClick={() => stopAgent(chat)}>Stop</button>}
          {!isBusy && <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>}
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

function Message() {
  const role = useAuiState((state) => state.message.role);
  return (
    <MessagePrimitive.Root render={<article aria-label={role} />}>
      <MessagePrimitive.Parts components={{ File: Picture, tools: { Fallback: ToolCall } }} />
    </MessagePrimitive.Root>
  );
}

function Picture({ data, mimeType }: FileMessagePartProps) {
  return mimeType.startsWith("image/") ? <img src={data} alt="" /> : null;
}

function ToolCall({ toolName, args, result, status, approval, respondToApproval }: ToolCallMessagePartProps) {
  const isAsking = approval !== undefined && approval.approved === undefined && result === undefined;
  return (
    <fieldset>
      <legend>{toolName}</legend>
      <code>{JSON.stringify(args)}</code> <em>{status.type}</em>
      {isAsking && (
        <div>
          <button onClick={() => respondToApproval({ approved: true })}>Approve</button>
          <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
        </div>
      )}
      {result !== undefined && <pre>{JSON.stringify(result, null, 2)}</pre>}
    </fieldset>
  );
}
