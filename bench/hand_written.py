"""A hand-written converter as a lower bound: one dict per chunk and orjson, nothing else.

It writes byte for byte what adkwire writes for the mixes and supports nothing else: no errors, no approvals, no files,
no sources, no usage, no second author, no older clients.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from google.adk.events.event import Event
from google.genai import types

_DELTAS = {"text": "text-delta", "reasoning": "reasoning-delta"}


class HandWritten:
    """Converts the events of one answer to SSE bytes."""

    def __init__(self, message_id: str, run_id: str) -> None:
        self._message_id = message_id
        self._prefix = b"id: %s:" % run_id.encode()
        self._number = 0
        self._kind = ""
        self._part = ""
        self._parts = 0
        self._in_step = False
        self._answered = False
        self._metadata: dict[str, str] = {}

    def convert(self, events: Iterable[Event]) -> Iterator[bytes]:
        """Yield one piece of the response per event."""
        yield self._written([{"type": "start", "messageId": self._message_id}])
        for event in events:
            if chunks := self._chunks(event):
                yield self._written(chunks)
        finish = {"type": "finish", "finishReason": "stop", "messageMetadata": self._metadata}
        yield self._written([{"type": "finish-step"}, finish])
        yield b"data: [DONE]\n\n"

    def _written(self, chunks: list[dict[str, Any]]) -> bytes:
        events: list[bytes] = []
        for chunk in chunks:
            events.append(b"%s%d\ndata: %s\n\n" % (self._prefix, self._number, orjson.dumps(chunk)))
            self._number += 1
        return b"".join(events)

    def _chunks(self, event: Event) -> list[dict[str, Any]]:
        chunks: list[dict[str, Any]] = []
        parts = event.content.parts if event.content else None
        for part in parts or ():
            if event.partial and part.text:
                self._say("reasoning" if part.thought else "text", part.text, chunks)
            elif part.function_call:
                self._call(part.function_call, chunks)
            elif part.function_response:
                self._respond(part.function_response, chunks)
        if not event.partial:
            self._close(chunks)
            if event.finish_reason:
                self._metadata = {"author": event.author, "finishReason": event.finish_reason.value}
        return chunks

    def _say(self, kind: str, text: str, chunks: list[dict[str, Any]]) -> None:
        if self._kind != kind:
            self._close(chunks)
            self._step(chunks)
            self._parts += 1
            self._kind, self._part = kind, f"{kind}-{self._parts}"
            chunks.append({"type": f"{kind}-start", "id": self._part})
        chunks.append({"type": _DELTAS[kind], "id": self._part, "delta": text})

    def _close(self, chunks: list[dict[str, Any]]) -> None:
        if self._kind:
            chunks.append({"type": f"{self._kind}-end", "id": self._part})
            self._kind = ""

    def _step(self, chunks: list[dict[str, Any]]) -> None:
        if self._answered:
            chunks.append({"type": "finish-step"})
        if self._answered or not self._in_step:
            chunks.append({"type": "start-step"})
            self._in_step, self._answered = True, False

    def _call(self, call: types.FunctionCall, chunks: list[dict[str, Any]]) -> None:
        self._close(chunks)
        self._step(chunks)
        named = {"toolCallId": call.id, "toolName": call.name}
        chunks.append({"type": "tool-input-available", **named, "input": call.args})

    def _respond(self, response: types.FunctionResponse, chunks: list[dict[str, Any]]) -> None:
        self._answered = True
        chunks.append({"type": "tool-output-available", "toolCallId": response.id, "output": response.response})
