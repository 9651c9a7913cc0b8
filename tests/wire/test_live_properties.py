"""Properties of every turn of a live model: a reload shows the streamed message, and all clients can read it."""

import msgspec
from google.adk.events.event import Event
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adkwire.adk.events import partial_event, response_event
from adkwire.testing import assert_valid_stream
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.event_parts import shown_at
from adkwire.wire.encode.tool_calls import UNFINISHED
from adkwire.wire.folding import fold
from adkwire.wire.messages import StepStartPart, ToolPart, UIMessage
from adkwire.wire.profiles import Profile
from tests.wire.adk_events import MESSAGE, aborted, fed
from tests.wire.live_events import Act, LiveTurn, live_turns

thorough = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENDINGS = st.sampled_from(["done", "done", "interrupted", "stop"])


class Shown:
    """A turn as it was streamed: to one reader that stays, and to a stock one that leaves at every break."""

    def __init__(self, turn: LiveTurn, ending: str) -> None:
        self.encoder = Encoder(MESSAGE)
        self.stored = list(turn.stored)
        self.responses: list[list[Chunk]] = [[self.encoder.start()]]
        self.waiting: list[list[str]] = []
        self.break_ends: list[list[Chunk]] = []
        for act in turn.acts:
            self._take(act)
        self._clock = turn.clock
        self._end(ending)

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for chunks in self.responses for chunk in chunks]

    def _take(self, act: Act) -> None:
        self.responses[-1] += self.encoder.offer(act) if isinstance(act, str) else self.encoder.feed(act)
        if self.encoder.is_waiting:
            self.waiting.append([call.id for call in self.encoder.pending_calls()])
            self.break_ends.append(self.encoder.break_chunks())
            self.responses.append([])

    def stock(self) -> list[list[Chunk]]:
        """The responses of a client that has to leave at every break."""
        first, *more = self.responses
        begun = [first, *([c.Start(message_id=MESSAGE), *chunks] for chunks in more)]
        return [[*chunks, *end] for chunks, end in zip(begun, [*self.break_ends, []], strict=True)]

    def _end(self, ending: str) -> None:
        for unsaved in self.encoder.unsaved():
            self._own(partial_event(unsaved, "i1", unsaved.stamp))
        if ending == "interrupted":
            self._own(Event(author="agent", interrupted=True))
        calls = self.encoder.unsettled_calls() if ending == "stop" else self.encoder.running_calls()
        if calls:
            self._own(response_event([(one, name, {"error": UNFINISHED}) for one, name in calls], "agent", "i1", {}))
        if ending == "stop":
            self._own(aborted())
        self.responses[-1] += self.encoder.end()

    def _own(self, event: Event) -> None:
        self._clock += 1
        event.timestamp = self._clock
        self.stored.append(event)
        self.responses[-1] += self.encoder.feed(event)


def reloaded(stored: list[Event]) -> UIMessage:
    encoder = Encoder(MESSAGE)
    return fold([encoder.start(), *fed(encoder, sorted(stored, key=shown_at)), *encoder.end()])


@thorough
@given(live_turns(), ENDINGS)
def test_a_reloaded_page_shows_what_was_streamed(turn: LiveTurn, ending: str) -> None:
    streamed = Shown(turn, ending)

    assert msgspec.to_builtins(reloaded(streamed.stored)) == msgspec.to_builtins(fold(streamed.chunks))


@thorough
@given(live_turns(), ENDINGS, st.sampled_from(["ai/6.0.0", "ai/7.0.0"]))
def test_every_client_can_read_the_response_in_any_number_of_pieces(turn: LiveTurn, ending: str, client: str) -> None:
    streamed, profile = Shown(turn, ending), Profile.declared(client)
    whole = assert_valid_stream(
        [one for chunk in streamed.chunks if (one := profile.fit(chunk)) is not None], client=client
    )

    message: UIMessage | None = None
    for index, chunks in enumerate(streamed.stock()):
        fitted = [one for chunk in chunks if (one := profile.fit(chunk)) is not None]
        message = assert_valid_stream(fitted, client=client, into=message)
        if index < len(streamed.waiting):
            assert set(streamed.waiting[index]) <= _calls_of_the_last_step(message)
    assert msgspec.to_builtins(message) == msgspec.to_builtins(whole)


@thorough
@given(live_turns())
def test_finished_content_is_not_unsaved(turn: LiveTurn) -> None:
    encoder, before = Encoder(MESSAGE), len(turn.acts)
    fed(encoder, [act for act in turn.acts if isinstance(act, Event)])
    assert len(encoder.unsaved()) == bool(turn.transcript) + bool(turn.written)

    turn.act("finish")
    turn.act("flush")
    fed(encoder, [act for act in turn.acts[before:] if isinstance(act, Event)])

    assert encoder.unsaved() == []


def _calls_of_the_last_step(message: UIMessage) -> set[str]:
    calls: set[str] = set()
    for part in message.parts:
        if isinstance(part, StepStartPart):
            calls.clear()
        elif isinstance(part, ToolPart):
            calls.add(part.tool_call_id)
    return calls
