"""What is wrong with a record, in words: the rules that hold for every scenario and every client version."""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

from tests.conformance.cases import Case
from tests.conformance.records import Chunk, Message, Page, Record, text_of

SCHEMAS = Path(__file__).parents[1] / "schemas"
STRICT = ("v6.0.0-strict", "v7.0.0-strict")
UNFINISHED = {"streaming", "input-streaming", "input-available", "approval-responded"}
ANNOUNCING = {"tool-input-start", "tool-input-available", "tool-input-error"}
SETTLING = {"tool-output-available", "tool-output-error", "tool-output-denied"}
GUARD = 8


def complaints(case: Case, record: Record) -> list[str]:
    """Everything that breaks a general rule in this record; empty when all is well."""
    if record.failure:
        return [f"the driver failed: {record.failure}"]
    return [f"{name}: {text}" for name, page in record.pages.items() for text in _of_page(case, name, page, record)]


def _of_page(case: Case, name: str, page: Page, record: Record) -> Iterator[str]:
    yield from _of_outcome(case, name, page)
    yield from _of_callbacks(page)
    for request in page.requests:
        yield from _of_request(request, case.refused if request is page.requests[-1] else None)
    for index, message in enumerate(page.messages):
        if not (name in case.cut and index == 1):
            yield from _of_parts(message)
    yield from _of_ids(page.messages)
    yield from _of_reload(case, name, page, record)


def _of_outcome(case: Case, name: str, page: Page) -> Iterator[str]:
    expected = case.requests.get(name, 1)
    if len(page.requests) > GUARD:
        yield f"the client loops: stopped after {GUARD} requests"
    elif len(page.requests) != expected:
        yield f"{len(page.requests)} requests instead of {expected}"
    final = "error" if case.error and not case.recovers else "ready"
    if page.status != final:
        yield f"status {page.status} instead of {final}: {page.error}"
    if case.error and not (page.errors and all(case.error in error for error in page.errors)):
        yield f"errors {page.errors} do not say {case.error!r}"
    if not case.error and (page.errors or "error" in page.statuses):
        yield f"an error on the way: {page.errors} {page.statuses}"


def _of_callbacks(page: Page) -> Iterator[str]:
    called = [call["toolCallId"] for call in page.tool_calls]
    if len(set(called)) != len(called):
        yield f"onToolCall fired more than once for a call: {called}"
    if any(finish.get("isDisconnect") for finish in page.finishes):
        yield "the client took the end of a stream for a lost connection"


def _of_request(request: dict[str, Any], refused: int | None) -> Iterator[str]:
    stream, status = request["stream"], request["status"]
    if refused and status != refused:
        yield f"{request['method']} {request['path']} was answered with {status} instead of {refused}"
    if stream is None:
        if status not in (204, refused):
            yield f"{request['method']} {request['path']} was answered with {status}"
        return
    yield from _of_headers(request["headers"])
    yield from _of_framing(request["headers"].get("x-adkwire-run", ""), stream)
    for chunk in stream["chunks"]:
        yield from _of_chunk(chunk)
    yield from Grammar(request, stream).complaints()


def _of_headers(headers: dict[str, str]) -> Iterator[str]:
    if not headers.get("content-type", "").startswith("text/event-stream"):
        yield f"content-type {headers.get('content-type')!r}"
    if headers.get("x-vercel-ai-ui-message-stream") != "v1":
        yield "no header x-vercel-ai-ui-message-stream: v1"
    if not headers.get("x-adkwire-run"):
        yield "no header x-adkwire-run"


def _of_framing(run: str, stream: dict[str, Any]) -> Iterator[str]:
    if stream["malformed"]:
        yield f"not JSON: {stream['malformed']}"
    if stream["ended"] == "closed" and not stream["done"]:
        yield "no [DONE] at the end"
    if stream["afterDone"]:
        yield f"{stream['afterDone']} events after [DONE]"
    if stream["ended"] not in ("closed", "aborted"):
        yield f"the stream ended {stream['ended']}"
    yield from _of_event_ids(run, stream["ids"])


def _of_event_ids(run: str, ids: list[str | None]) -> Iterator[str]:
    """`<run>:<n>`, counting up. A number may be left out: its chunk is not for this client."""
    numbered = [text for text in ids if text is not None]
    if not numbered:
        yield "no event has an id"
        return
    split = [text.rpartition(":") for text in numbered]
    if any(owner != run for owner, _, _ in split):
        yield f"event ids {numbered[:3]} do not name the run {run!r}"
    numbers = [int(number) if number.isdigit() else -1 for _, _, number in split]
    if numbers != sorted(set(numbers)):
        yield f"event ids do not count up: {numbered}"


@functools.cache
def _validators(schema: str) -> dict[str, Draft7Validator]:
    document = json.loads((SCHEMAS / f"uichunk-{schema}.schema.json").read_text())
    shared = {"definitions": document["definitions"]}
    return {_type_of(variant): Draft7Validator({**variant, **shared}) for variant in document["anyOf"]}


def _type_of(variant: dict[str, Any]) -> str:
    return variant["properties"]["type"].get("const", "data-")


def _of_chunk(chunk: Chunk) -> Iterator[str]:
    kind = "data-" if str(chunk.get("type")).startswith("data-") else chunk.get("type", "")
    for schema in STRICT:
        validator = _validators(schema).get(kind)
        if validator is None:
            yield f"{schema} knows no chunk {chunk}"
            continue
        for error in validator.iter_errors(chunk):  # pyright: ignore[reportUnknownMemberType]
            yield f"{schema}: {error.message[:300]} in a {kind} chunk"


class Grammar:
    """The order of one response: what is opened is closed, what is answered was asked."""

    def __init__(self, request: dict[str, Any], stream: dict[str, Any]) -> None:
        self.chunks: list[Chunk] = stream["chunks"]
        self.complete = stream["ended"] == "closed"
        sent = request["sent"]
        self.continued: str | None = sent[-1]["id"] if sent and sent[-1]["role"] == "assistant" else None
        self.found: list[str] = []
        self.open: dict[str, str] = {}
        self.calls: dict[str, str] = {}
        self.in_step = False
        self.ended = ""

    def complaints(self) -> list[str]:
        if not self.chunks:
            return ["the stream is empty"]
        self._start(self.chunks[0])
        for chunk in self.chunks[1:]:
            self._take(chunk)
        if self.complete:
            self._end()
        return self.found

    def _start(self, chunk: Chunk) -> None:
        if chunk["type"] != "start" or not chunk.get("messageId"):
            self.found.append(f"begins with {chunk} instead of start with a messageId")
        elif self.continued and chunk["messageId"] != self.continued:
            self.found.append(f"continues {self.continued} under the new id {chunk['messageId']}")

    def _take(self, chunk: Chunk) -> None:
        kind: str = chunk["type"]
        if self.ended in ("finish", "error"):
            self.found.append(f"{kind} after {self.ended}")
        rules: dict[str, Callable[[Chunk], None]] = {
            "start": lambda _: self.found.append("a second start"),
            "start-step": self._start_step,
            "finish-step": self._finish_step,
            "finish": self._close,
            "error": self._close,
            "abort": self._close,
        }
        rules.get(kind, self._content)(chunk)

    def _start_step(self, chunk: Chunk) -> None:
        if self.in_step:
            self.found.append("start-step inside a step")
        self.in_step = True

    def _finish_step(self, chunk: Chunk) -> None:
        if not self.in_step:
            self.found.append("finish-step without a step")
        self._nothing_open("finish-step")
        self.in_step = False

    def _close(self, chunk: Chunk) -> None:
        self._nothing_open(chunk["type"])
        if self.in_step:
            self.found.append(f"{chunk['type']} inside a step")
        self.ended = chunk["type"]

    def _nothing_open(self, where: str) -> None:
        self.found.extend(f"{kind} {name} is still open at {where}" for name, kind in self.open.items())

    def _content(self, chunk: Chunk) -> None:
        kind: str = chunk["type"]
        family, _, phase = kind.rpartition("-")
        if family in ("text", "reasoning"):
            self._span(family, phase, chunk["id"])
        elif kind.startswith("tool-"):
            self._tool(kind, chunk)

    def _span(self, family: str, phase: str, name: str) -> None:
        if not self.in_step:
            self.found.append(f"{family}-{phase} {name} outside a step")
        if phase == "start":
            if name in self.open:
                self.found.append(f"{family}-start {name} twice")
            self.open[name] = family
        elif self.open.get(name) != family:
            self.found.append(f"{family}-{phase} for {name}, which is not open")
        if phase == "end":
            self.open.pop(name, None)

    def _tool(self, kind: str, chunk: Chunk) -> None:
        call: str = chunk["toolCallId"]
        state = self.calls.get(call, "")
        if kind in ANNOUNCING:
            if state not in ("", "tool-input-start") or kind == state:
                self.found.append(f"{kind} announces {call} again")
        elif not state and not self.continued:
            self.found.append(f"{kind} for {call}, which was never announced")
        elif state in SETTLING:
            self.found.append(f"{kind} for {call}, which is settled")
        if kind != "tool-input-delta" and not chunk.get("preliminary"):
            self.calls[call] = kind

    def _end(self) -> None:
        if self.ended not in ("finish", "error"):
            self.found.append(f"ends with {self.chunks[-1]['type']} instead of finish or error")
        self._nothing_open("the end")
        unsettled = [c for c, kind in self.calls.items() if kind in ("tool-input-start", "tool-input-available")]
        self.found.extend(f"call {call} is never settled" for call in unsettled)


def _of_parts(message: Message) -> Iterator[str]:
    for part in message["parts"]:
        if part.get("state") in UNFINISHED or part.get("preliminary"):
            yield f"message {message['id']}: a part is left unfinished: {json.dumps(part)[:300]}"


def _of_ids(messages: list[Message]) -> Iterator[str]:
    ids = [message["id"] for message in messages]
    if len(set(ids)) != len(ids):
        yield f"message ids repeat: {ids}"
    roles = [message["role"] for message in messages]
    if "assistant assistant" in " ".join(roles):
        yield f"one answer became two messages: {roles}"


def _of_reload(case: Case, name: str, page: Page, record: Record) -> Iterator[str]:
    if "messages" not in record.history:
        if not case.refused:
            yield f"no history: {record.history}"
        return
    shown = [_normal(message) for message in page.messages]
    stored = [_normal(message) for message in record.history["messages"]]
    if name in case.behind:
        known = {message["id"] for message in shown}
        stored = [message for message in stored if message["id"] in known]
    if name in case.cut:
        shown, stored = _without_cut(shown, stored)
    if shown != stored:
        yield f"reload differs from stream:\n  shown  {_lines(shown)}\n  stored {_lines(stored)}"
    if record.history.get("active"):
        yield f"history says a run is active: {record.history['active']}"


def _normal(message: Message) -> Message:
    """A message without what may differ: newer versions keep the id of a reasoning part, older ones do not; and the
    empty text that a page sends along with a picture is not worth keeping.
    """
    parts = [{k: v for k, v in part.items() if (part["type"], k) != ("reasoning", "id")} for part in message["parts"]]
    if message["role"] == "user":
        parts = [part for part in parts if part.get("text") != ""]
    return {**message, "parts": parts}


def _without_cut(shown: list[Message], stored: list[Message]) -> tuple[list[Message], list[Message]]:
    """Compare a message whose reader left only by its id and by what the reader had got of its text."""
    if len(shown) < 2 or len(stored) < 2 or not text_of(stored[1]).startswith(text_of(shown[1])):
        return shown, stored
    return [shown[0], {"id": shown[1]["id"]}, *shown[2:]], [stored[0], {"id": stored[1]["id"]}, *stored[2:]]


def _lines(messages: list[Message]) -> str:
    return "\n         ".join(json.dumps(message, ensure_ascii=False, sort_keys=True)[:3000] for message in messages)
