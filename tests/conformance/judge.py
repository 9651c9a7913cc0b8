"""The rules that hold for every scenario and every client version, and what a record breaks of them."""

import functools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

from tests.conformance.cases import Case
from tests.conformance.grammar import Grammar
from tests.conformance.records import Chunk, Message, Page, Record, text_of

SCHEMAS = Path(__file__).parents[1] / "schemas"
STRICT = ("v6.0.0-strict", "v7.0.0-strict")
WAITING = {"approval-requested", "input-available"}
UNFINISHED = {"streaming", "input-streaming", "approval-responded", *WAITING}
GUARD = 8


def judge(case: Case, record: Record) -> None:
    """Fail if a record breaks a general rule or an expectation of its case."""
    found = complaints(case, record)
    assert not found, "\n".join(found)
    case.check(record)


def complaints(case: Case, record: Record) -> list[str]:
    """Everything that breaks a general rule in this record; empty when all is well."""
    if record.failure:
        return [f"the driver failed: {record.failure}"]
    pages = [f"{name}: {text}" for name, page in record.pages.items() for text in _of_page(case, name, page, record)]
    return [*pages, *_of_deeds(case, record), *_of_history(case, record.history)]


def _of_page(case: Case, name: str, page: Page, record: Record) -> Iterator[str]:
    yield from _of_outcome(case, name, page)
    yield from _of_callbacks(page, name in case.lost)
    yield from (f"a frame that no request owns: {frame}" for frame in page.strange)
    for request in page.requests:
        yield from _of_request(request, case.refused if request is page.requests[-1] else None)
    for index, message in enumerate(page.messages):
        if not (name in case.cut and index == case.cut_at):
            yield from _of_parts(message, case.left)
    yield from _of_ids(page.messages)
    yield from _of_reload(case, name, page, record)


def _of_outcome(case: Case, name: str, page: Page) -> Iterator[str]:
    expected = case.requests.get(name, 1)
    if len(page.requests) > GUARD:
        yield f"the client loops: stopped after {GUARD} requests"
    elif len(page.requests) != expected:
        yield f"{len(page.requests)} requests instead of {expected}"
    error = case.error_of(name)
    final = "error" if error and not case.recovers else "ready"
    if page.status != final:
        yield f"status {page.status} instead of {final}: {page.error}"
    if error and not (page.errors and all(error in message_text for message_text in page.errors)):
        yield f"errors {page.errors} do not say {error!r}"
    if not error and (page.errors or "error" in page.statuses):
        yield f"an error on the way: {page.errors} {page.statuses}"


def _of_callbacks(page: Page, lost: bool) -> Iterator[str]:
    called = [call["toolCallId"] for call in page.tool_calls]
    # A page that resumes is told all of its message anew.
    if not lost and len(set(called)) != len(called):
        yield f"onToolCall fired more than once for a call: {called}"
    if not lost and any(finish.get("isDisconnect") for finish in page.finishes):
        yield "the client took the end of a stream for a lost connection"


def _of_request(request: dict[str, Any], refusal: int | None) -> Iterator[str]:
    stream, status, over_socket = request["stream"], request["status"], request["over"] == "socket"
    refused = "error" if refusal and over_socket else refusal
    if refused and status != refused:
        yield f"{request['method']} {request['path']} was answered with {status} instead of {refused}"
    if stream is None:
        if status not in (204, refused):
            yield f"{request['method']} {request['path']} was answered with {status}"
        return
    yield from _of_frames(request, stream) if over_socket else _of_events(request, stream)
    yield from _of_ending(stream)
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


def _of_events(request: dict[str, Any], stream: dict[str, Any]) -> Iterator[str]:
    yield from _of_headers(request["headers"])
    yield from _of_places(request["run"] or "", stream["ids"])
    if stream["ended"] == "closed" and not stream["done"]:
        yield "no [DONE] at the end"


def _of_frames(request: dict[str, Any], stream: dict[str, Any]) -> Iterator[str]:
    """Yield errors of frames: official frames have official fields only; ours also have a position."""
    if request["protocol"]:
        # What goes on in live begins with a word of its own, which is in no log.
        begins = int(request["path"] == "/api/live" and stream["ids"][:1] == [None])
        yield from _of_places(request["run"] or "", stream["ids"][begins:])
    extras = set(request["extras"]) - ({"id"} if request["protocol"] else set[str]())
    if extras:
        yield f"frames with more than they may have: {sorted(extras)}"
    if stream["sequences"] != list(range(len(stream["sequences"]))):
        yield f"sequences do not count up from 0: {stream['sequences']}"


def _of_ending(stream: dict[str, Any]) -> Iterator[str]:
    if stream["malformed"]:
        yield f"not JSON: {stream['malformed']}"
    if stream["afterDone"]:
        yield f"{stream['afterDone']} events after the end"
    if stream["ended"] not in ("closed", "aborted"):
        yield f"the stream ended {stream['ended']}"


def _of_places(run: str, ids: list[str | None]) -> Iterator[str]:
    """`<run>:<n>`, counting up. A number may be left out: its chunk is not for this client."""
    if not ids or None in ids:
        yield "an event has no id" if ids else "no event has an id"
        return
    split = [text.rpartition(":") for text in ids if text]
    if any(owner != run for owner, _, _ in split):
        yield f"event ids {ids[:3]} do not name the run {run!r}"
    numbers = [int(number) for _, _, number in split]
    if numbers != sorted(set(numbers)):
        yield f"event ids do not count up: {ids}"


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


def _of_deeds(case: Case, record: Record) -> Iterator[str]:
    """Yield errors of executions: every expected call was executed once, and no other."""
    done = sorted(line["what"] for line in record.ledger)
    if done != sorted(case.ledger):
        yield f"tools did {done} instead of {sorted(case.ledger)}"
    executions = [execution for page in record.pages.values() for execution in page.executions]
    names = sorted(execution["toolName"] for execution in executions)
    if names != sorted(case.executions):
        yield f"the browser did {names} instead of {sorted(case.executions)}"
    calls = Counter([line["call"] for line in record.ledger] + [one["toolCallId"] for one in executions])
    yield from (f"{call} was executed {count} times" for call, count in calls.items() if count > 1)


def _of_history(case: Case, history: dict[str, Any]) -> Iterator[str]:
    """Yield errors of the history: every call is settled or in `pending`."""
    parts = [part for message in history.get("messages", ()) for part in message["parts"]]
    for message in history.get("messages", ()):
        yield from (f"history: {text}" for text in _of_parts(message, case.left))
    waiting = sorted(part["toolCallId"] for part in parts if part.get("state") in WAITING)
    pending = sorted(call["toolCallId"] for call in history.get("pending", ()))
    if waiting != pending:
        yield f"history: pending is {history['pending']}, but these parts wait: {waiting}"


def _of_parts(message: Message, left: frozenset[str]) -> Iterator[str]:
    for part in message["parts"]:
        meant = f"{part['type'].removeprefix('tool-')} {part.get('state')}" in left
        if (part.get("state") in UNFINISHED and not meant) or part.get("preliminary"):
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
    streamed = [_normal(message) for message in page.messages]
    stored = [_normal(message) for message in record.history["messages"]]
    _leave_out_unsaid(streamed, stored)
    if name in case.behind:
        known = {message["id"] for message in streamed}
        stored = [message for message in stored if message["id"] in known]
    if name in case.cut:
        streamed, stored = _without_cut(streamed, stored, case.cut_at)
    if streamed != stored:
        yield f"reload differs from stream:\n  streamed {_lines(streamed)}\n  stored   {_lines(stored)}"
    if record.history.get("active"):
        yield f"history says a run is active: {record.history['active']}"


UNSTABLE = {("reasoning", "id"), ("tool", "rawInput")}
"""What newer versions keep on a part and older ones do not: kind of part and field."""


def _normal(message: Message) -> Message:
    """A message without what may differ by version, and without the empty text that a page sends with a picture."""
    parts = [
        {key: value for key, value in part.items() if (part["type"].partition("-")[0], key) not in UNSTABLE}
        for part in message["parts"]
    ]
    if message["role"] == "user":
        parts = [part for part in parts if part.get("text") != ""]
    return {**message, "parts": parts}


def _leave_out_unsaid(streamed: list[Message], stored: list[Message]) -> None:
    """Leave out approvals that no chunk can bring to an older client: those of another page, and those by an output."""
    known = {part["toolCallId"]: part for message in streamed for part in message["parts"] if "toolCallId" in part}
    for part in (part for message in stored for part in message["parts"]):
        mine = known.get(part.get("toolCallId", ""), part)
        if mine.get("state", "").startswith("output-") and "approved" not in mine.get("approval", {}):
            mine.pop("approval", None)
            part.pop("approval", None)


def _without_cut(streamed: list[Message], stored: list[Message], at: int) -> tuple[list[Message], list[Message]]:
    """Reduce a message whose reader left to its id, if the text so far is the beginning of the stored text."""
    if min(len(streamed), len(stored)) <= at or not text_of(stored[at]).startswith(text_of(streamed[at])):
        return streamed, stored
    return _only_id(streamed, at), _only_id(stored, at)


def _only_id(messages: list[Message], at: int) -> list[Message]:
    return [*messages[:at], {"id": messages[at]["id"]}, *messages[at + 1 :]]


def _lines(messages: list[Message]) -> str:
    return "\n         ".join(json.dumps(message, ensure_ascii=False, sort_keys=True)[:3000] for message in messages)
