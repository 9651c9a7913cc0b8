"""`assert_valid_stream`: checks that a stock AI SDK client accepts a stream to its end. For tests of servers."""

import copy
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, decode_chunk, encode_chunk
from adkwire.wire.folding import BrokenStream, fold
from adkwire.wire.messages import ReasoningPart, StepStartPart, TextPart, ToolPart, UIMessage
from adkwire.wire.profiles import Profile

_SETTLED = ("output-available", "output-error", "output-denied")


def assert_valid_stream(
    stream: Iterable[Chunk] | bytes | str, *, client: str = "ai/6.0.0", into: UIMessage | None = None
) -> UIMessage:
    """Check a whole response and return the message that a client holds after it.

    `stream` is the body of an SSE response, or chunks. `client` is the release that must understand it; the default is
    the strictest release. `into` is the message that a continuation continues; it is not changed. An `AssertionError`
    names the chunk, its index and what is wrong with it.

        message = assert_valid_stream(response.text)
        assert message.parts[-1].text == "Sunny."
    """
    chunks = list(_from_sse(stream)) if isinstance(stream, bytes | str) else list(stream)
    checker = _ChunkChecker(Profile.declared(client), client, continues=into is not None)
    try:
        message = fold(checker.read(chunks), into=copy.deepcopy(into))
    except BrokenStream as error:
        raise AssertionError(_at(checker.index, chunks[checker.index], str(error))) from None
    checker.check_end(chunks)
    _check_parts(message)
    if isinstance(last := chunks[-1], c.Finish):
        _check_no_loop(message, last)
    return message


class _Order(NamedTuple):
    """Which chunks the order of chunks allows next."""

    ended: bool = False
    """True after `finish` or `error`."""
    in_step: bool | None = False
    """True while a step is open. None when a continuation may begin in the middle of a step."""


class _ChunkChecker:
    """Checks each chunk before it is folded into the message."""

    def __init__(self, profile: Profile, client: str, *, continues: bool) -> None:
        self.index = -1
        self._profile = profile
        self._client = client
        self._order = _Order(in_step=None if continues else False)

    def read(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        for self.index, chunk in enumerate(chunks):
            problem = self._misplaced(chunk) or self._unknown(chunk)
            if problem:
                raise AssertionError(_at(self.index, chunk, problem))
            yield chunk

    def check_end(self, chunks: list[Chunk]) -> None:
        if not self._order.ended:
            raise AssertionError(f"The stream has {len(chunks)} chunks and ends with neither finish nor error.")

    def _misplaced(self, chunk: Chunk) -> str | None:
        ended, in_step = self._order
        if ended:
            return "nothing may follow finish or error"
        if isinstance(chunk, c.Start) != (self.index == 0):
            return "a stream begins with start, and only there"
        if isinstance(chunk, c.StartStep | c.FinishStep) and in_step is isinstance(chunk, c.StartStep):
            return "the step before is still open" if in_step else "no step is open"
        if isinstance(chunk, c.Finish | c.Error | c.Abort) and in_step:
            return "a step is still open"
        self._order = _Order(
            isinstance(chunk, c.Finish | c.Error),
            isinstance(chunk, c.StartStep) if isinstance(chunk, c.StartStep | c.FinishStep) else in_step,
        )
        return None

    def _unknown(self, chunk: Chunk) -> str | None:
        fitted = self._profile.fit(chunk)
        if fitted == chunk:
            return None
        if fitted is None:
            return f"{self._client} does not know this type and ends the stream"
        fields = [name for name in chunk.__struct_fields__ if getattr(chunk, name) != getattr(fitted, name)]
        return f"{self._client} does not know {', '.join(fields)} (or its value) and ends the stream"


def _check_parts(message: UIMessage) -> None:
    for index, part in enumerate(message.parts):
        if isinstance(part, TextPart | ReasoningPart) and part.state == "streaming":
            raise AssertionError(f"part {index} of the message is never closed: {part}")


def _check_no_loop(message: UIMessage, finish: c.Finish) -> None:
    """Fail for a last step that has only answered calls: `sendAutomaticallyWhen` would post the message for ever."""
    states: list[str] = []
    before: list[str] = []
    last_step_has_parts = True
    for part in message.parts:
        last_step_has_parts = not isinstance(part, StepStartPart)
        if not last_step_has_parts:
            before, states = states, []
        elif isinstance(part, ToolPart) and part.provider_executed is not True:
            states.append("preliminary" if part.preliminary is True else part.state)
    if finish.message_metadata is UNSET and not last_step_has_parts:
        states = before  # Clients update the message for an empty step only when finish has metadata.
    if states and all(state in _SETTLED for state in states):
        raise AssertionError(
            "The last step holds only settled calls: clients would send again for ever. "
            "End with start-step, finish-step, finish{messageMetadata: {}}."
        )


def _from_sse(body: bytes | str) -> Iterator[Chunk]:
    text = body.decode() if isinstance(body, bytes) else body
    for index, data in enumerate(data for data in _events(text) if data != "[DONE]"):
        yield _decoded(index, data)


def _events(text: str) -> Iterator[str]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if lines:
            yield "\n".join(lines)


def _decoded(index: int, data: str) -> Chunk:
    try:
        sent = json.loads(data)
        chunk = decode_chunk(data.encode())
    except (ValueError, msgspec.DecodeError) as error:
        raise AssertionError(_at(index, data, str(error))) from None
    if json.loads(encode_chunk(chunk)) != sent:
        raise AssertionError(_at(index, data, "it has a field that no client knows, or null where nothing should be"))
    return chunk


def _at(index: int, chunk: object, problem: str) -> str:
    return f"chunk {index}: {problem}\n  {chunk}"
