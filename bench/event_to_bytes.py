"""ADK events to SSE bytes, in process: adkwire, two peers and the hand-written converter, fed with prebuilt events."""

import base64
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import orjson
from ag_ui.encoder import EventEncoder
from ag_ui_adk.event_translator import EventTranslator  # pyright: ignore[reportMissingTypeStubs]
from google.adk.events.event import Event
from pydantic_ai.ui.vercel_ai import VercelAIEventStream

from adkwire.server.chat import frame
from adkwire.stores.base import Batch
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.profiles import Profile, encode_chunks
from adkwire.wire.socket.live_frames_out import LiveChunkFrames, pcm_chunk
from bench.event_mixes import Mix, sound_mix, text_mix, tool_mix
from bench.hand_written import HandWritten
from bench.measure import Effort, Goal, Line, at_least, at_most, cpu_of, in_turn, ratios, spread

T = TypeVar("T")
Converter: TypeAlias = Callable[[Mix], Coroutine[None, None, list[bytes]]]

_EVENT = b"id: run:%d\ndata: %b\n\n"
_PROFILE = Profile.declared(None)


async def adkwire(mix: Mix) -> list[bytes]:
    """Convert as `Run` and the chat route do, without the stream log between them."""
    written: list[bytes] = []
    for turn in mix.adk:
        encoder = Encoder("message")
        number = _write([encoder.start()], 0, written)
        for event in turn:
            if chunks := encoder.feed(event):
                number = _write(chunks, number, written)
        _write(encoder.end(), number, written)
        written.append(b"data: [DONE]\n\n")
    return written


def _write(chunks: Sequence[Chunk], number: int, written: list[bytes]) -> int:
    encoded = encode_chunks(chunks)
    written.append(frame(Batch(number, encoded, closed=False), _EVENT, _PROFILE))
    return number + len(encoded)


async def ag_ui_adk(mix: Mix) -> list[bytes]:
    """Convert with ag-ui-adk's translator and encoder, one translator per run as its agent does."""
    written: list[bytes] = []
    encoder = EventEncoder()
    for turn in mix.adk:
        translator = EventTranslator()
        for event in turn:
            written += [encoder.encode(out).encode() async for out in translator.translate(event, "thread", "run")]
        written += [encoder.encode(out).encode() async for out in translator.force_close_streaming_message()]
    return written


async def pydantic_ai(mix: Mix) -> list[bytes]:
    """Convert with pydantic-ai's Vercel stream, fed with its own events for the same content."""
    written: list[bytes] = []
    for turn in mix.pydantic_ai:
        stream = VercelAIEventStream[Any, Any](sdk_version=6, server_message_id="message")
        encoded = stream.encode_stream(stream.transform_stream(source(turn)))
        written += [text.encode() async for text in encoded]
    return written


async def hand_written(mix: Mix) -> list[bytes]:
    """Convert with the hand-written converter."""
    written: list[bytes] = []
    for turn in mix.adk:
        written += HandWritten("message", "run").convert(turn)
    return written


CONVERTERS: dict[str, Converter] = {
    "adkwire": adkwire,
    "ag-ui-adk": ag_ui_adk,
    "pydantic-ai": pydantic_ai,
    "orjson by hand": hand_written,
}


def lines(effort: Effort) -> list[Line]:
    """Compare both mixes with all converters, and the sound mix with base64."""
    rounds = effort.rounds(41, 9)
    return [*(line for mix in (text_mix(), tool_mix()) for line in _mix_lines(mix, rounds)), _sound_line(rounds)]


def _sound_line(rounds: int) -> Line:
    events = sound_mix()
    if [base64.b64decode(orjson.loads(frame)["chunk"]["data"]["chunk"]) for frame in _as_chunks(events)] != [
        *map(_pcm, events)
    ]:
        raise RuntimeError("adkwire does not convert sound faithfully")
    costs = in_turn(
        {
            "adkwire": lambda: cpu_of(lambda: _as_chunks(events)),
            "base64": lambda: cpu_of(lambda: [base64.b64encode(_pcm(event)) for event in events]),
        },
        rounds,
        warm_up=2,
    )
    own, other = (spread(cost).median / len(events) * 1e6 for cost in costs.values())
    detail = f"{own:.1f} / {other:.1f} us per event"
    return Line("event to bytes, sound as data-pcm", "base64", ratios(*costs.values()), at_most(1.5), detail)


def _as_chunks(events: Sequence[Event]) -> list[bytes]:
    """Return the frames of a live socket for a client without binary frames."""
    frames = LiveChunkFrames("request", _PROFILE)
    return [frames.encode_unlogged(pcm_chunk(_pcm(event)))[0].encode() for event in events]


def _pcm(event: Event) -> bytes:
    parts = (event.content.parts if event.content else None) or []
    return b"".join(part.inline_data.data for part in parts if part.inline_data and part.inline_data.data)


def _mix_lines(mix: Mix, rounds: int) -> list[Line]:
    for name, converter in CONVERTERS.items():
        check(name, mix, completed(converter(mix)))
    costs = in_turn({name: _timed(converter, mix) for name, converter in CONVERTERS.items()}, rounds, warm_up=2)
    ours = costs["adkwire"]

    def line(peer: str, goal: Goal, *, cheaper: bool) -> Line:
        measured = ratios(costs[peer], ours) if cheaper else ratios(ours, costs[peer])
        own, other = (spread(cost).median / mix.events * 1e6 for cost in (ours, costs[peer]))
        return Line(f"event to bytes, {mix.name}", peer, measured, goal, f"{own:.1f} / {other:.1f} us per event")

    return [
        line("ag-ui-adk", at_least(10), cheaper=True),
        line("pydantic-ai", at_least(4), cheaper=True),
        line("orjson by hand", at_most(1.6), cheaper=False),
    ]


def check(name: str, mix: Mix, written: Iterable[bytes]) -> None:
    """Raise if a converter has lost text or a tool result."""
    chunks = payloads(written)
    text = "".join(str(c["delta"]) for c in chunks if c["type"] in ("text-delta", "TEXT_MESSAGE_CONTENT"))
    results = sum(c["type"] in ("tool-output-available", "TOOL_CALL_RESULT") for c in chunks)
    if text != mix.text or results != mix.calls:
        raise RuntimeError(
            f"{name} does not convert the {mix.name} faithfully: {len(text)} characters, {results} calls"
        )


def payloads(written: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON of every server-sent event."""
    rows = b"".join(written).split(b"\n")
    return [orjson.loads(row[6:]) for row in rows if row.startswith(b"data: {")]


async def source(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield prebuilt events as a run yields them."""
    for item in items:
        yield item


def completed(work: Coroutine[None, None, T]) -> T:
    """Run a coroutine that never waits, without an event loop, whose cost would be measured too."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a converter waits for something")


def _timed(converter: Converter, mix: Mix) -> Callable[[], float]:
    return lambda: cpu_of(lambda: completed(converter(mix)))
