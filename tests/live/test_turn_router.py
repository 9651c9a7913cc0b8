"""Who has the floor: every row of the table in `live_turns`, and long conversations against a simple reference."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import pytest
from google.adk.events.event import Event
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.live.turn_router import RoutedTurn, TurnRouter
from adkwire.wire.encode.event_parts import stamp_of

AGENT = "teller"


def content(*parts: types.Part, role: str = "model") -> types.Content:
    return types.Content(role=role, parts=list(parts))


def piece(text: str = "word ") -> Event:
    return Event(author=AGENT, content=content(types.Part(text=text)), partial=True)


def whole(text: str = "words") -> Event:
    return Event(author=AGENT, content=content(types.Part(text=text)))


def aloud(text: str = "words", *, finished: bool = True) -> Event:
    said = types.Transcription(text=text, finished=finished)
    return Event(author=AGENT, output_transcription=said, partial=None if finished else True)


def sound() -> Event:
    blob = types.Blob(mime_type="audio/pcm;rate=24000", data=b"\0\0")
    return Event(author=AGENT, content=content(types.Part(inline_data=blob)))


def call(name: str) -> Event:
    return Event(author=AGENT, content=content(types.Part(function_call=types.FunctionCall(id=name, name="pay"))))


def response(name: str) -> Event:
    given = types.FunctionResponse(id=name, name="pay", response={})
    return Event(author=AGENT, content=content(types.Part(function_response=given), role="user"))


def heard(text: str = "hello", *, finished: bool = True) -> Event:
    said = types.Transcription(text=text, finished=finished)
    return Event(author="user", input_transcription=said, partial=None if finished else True)


def typed() -> Event:
    return Event(author="user", content=content(types.Part(text="hi"), role="user"))


def complete() -> Event:
    return Event(author=AGENT, turn_complete=True)


def interrupted(*, ends: bool = False) -> Event:
    return Event(author=AGENT, interrupted=True, turn_complete=ends or None)


class Floor:
    """A live run as ADK makes it: what is complete is stored, then all of it is shown, some time later."""

    def __init__(self) -> None:
        self.turns = TurnRouter()

    def ask(self, name: str) -> RoutedTurn:
        """Somebody types, which is stored, and ADK would store it again."""
        turn = self.turns.add(RoutedTurn(name, f"user-{name}", "typed", began=True))
        assert self.store(typed()) is None
        return turn

    def store(self, event: Event) -> str | None:
        """The turn an event is stored in; None when it is left out."""
        return stamp_of(event)["message"] if self.turns.stamp(event) else None

    def show(self, event: Event) -> str | None:
        """The turn an event is shown in."""
        turn = self.turns.of_shown(event)
        if turn is None:
            return None
        self.turns.shown(turn, event)
        return turn.message

    def both(self, *events: Event) -> list[str | None]:
        """Where events are shown that are stored at once; each is stored in the same turn, or not at all."""
        return [self._both(event) for event in events]

    def _both(self, event: Event) -> str | None:
        stored = self.store(event) if _is_stored(event) else None
        shown = self.show(event)
        assert shown == stored or not _is_stored(event)
        return shown


def _is_stored(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or []
    return not event.partial and not any(part.inline_data is not None for part in parts)


@pytest.fixture
def floor() -> Floor:
    return Floor()


class TestTheTable:
    def test_a_turn_is_over_at_turn_complete_after_words(self, floor: Floor) -> None:
        turn = floor.ask("a")
        assert floor.both(piece(), whole(), complete()) == ["a"] * 3
        assert (turn.over, turn.ended) == (True, True)
        assert floor.turns.current is None

    def test_a_turn_without_words_goes_on(self, floor: Floor) -> None:
        turn = floor.ask("a")
        assert floor.both(complete()) == ["a"]
        assert not turn.over
        assert floor.both(piece(), whole(), complete()) == ["a"] * 3
        assert turn.ended

    def test_a_turn_with_an_unanswered_call_goes_on(self, floor: Floor) -> None:
        turn = floor.ask("a")
        assert floor.both(whole(), call("c"), complete()) == ["a"] * 3
        assert (turn.over, turn.calls) == (False, {"c"})
        assert floor.both(response("c")) == ["a"]
        assert not turn.calls

    def test_a_turn_goes_on_until_the_model_speaks_after_a_response(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(whole(), call("c"), response("c"))
        assert floor.both(complete()) == ["a"]
        assert not turn.over
        floor.both(whole(), complete())
        assert turn.ended

    def test_words_shown_after_a_response_was_stored_came_before_it(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"))
        told = [whole(), response("c"), complete()]
        assert [floor.store(event) for event in told] == ["a"] * 3
        assert [floor.show(event) for event in (piece(), *told)] == ["a"] * 4
        assert (turn.said, turn.over) == (False, False)

    def test_a_response_belongs_to_the_turn_of_its_call(self, floor: Floor) -> None:
        floor.ask("a")
        floor.both(call("c"), complete())
        floor.ask("b")
        assert floor.both(response("c")) == ["a"]
        assert floor.turns.of_call("c") is not None

    def test_a_response_to_an_unknown_call_is_left_out(self, floor: Floor) -> None:
        floor.ask("a")
        assert floor.both(response("unknown")) == [None]

    def test_every_turn_is_an_invocation_of_its_own(self, floor: Floor) -> None:
        events: list[Event] = []
        for name in ("a", "b"):
            floor.ask(name)
            events.append(whole())
            floor.both(piece(), events[-1], complete())
        assert len({event.invocation_id for event in events}) == 2
        assert all(event.invocation_id for event in events)

    def test_words_of_a_cut_turn_are_left_out(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(piece())
        floor.turns.cut(turn)
        assert floor.both(piece(), sound(), aloud(), whole()) == [None] * 4
        assert not turn.over
        assert floor.both(complete()) == [None]
        assert (turn.over, turn.ended) == (True, True)

    def test_words_after_an_interruption_belong_to_the_next_turn(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(piece())
        floor.turns.cut(turn)
        floor.ask("b")
        assert floor.both(piece(), interrupted()) == [None] * 2
        assert floor.both(piece(), whole(), complete()) == ["b"] * 3
        assert turn.over

    def test_an_interruption_that_ends_its_turn(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(piece())
        floor.turns.cut(turn)
        floor.ask("b")
        assert floor.both(whole(), interrupted(), interrupted(ends=True)) == [None] * 3
        assert floor.both(piece(), whole(), complete()) == ["b"] * 3

    def test_a_call_of_a_cut_turn_is_left_out(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(piece())
        floor.turns.cut(turn)
        assert floor.both(call("c")) == [None]
        assert floor.turns.of_call("c") is None
        assert floor.both(response("c")) == [None]

    def test_a_response_reaches_a_cut_turn_that_is_still_shown(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), piece())
        floor.turns.cut(turn)
        assert floor.both(response("c")) == ["a"]

    def test_words_of_a_muted_turn_are_left_out(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), piece())
        assert floor.turns.mute(turn)
        assert floor.both(piece(), sound(), whole(), aloud()) == [None] * 4
        assert floor.both(call("d"), heard()) == ["a", "a"]
        assert turn.calls == {"c", "d"}

    @pytest.mark.parametrize("end", [complete, interrupted])
    def test_a_turn_is_muted_until_the_model_has_ended(self, floor: Floor, end: Callable[[], Event]) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), piece())
        assert floor.turns.mute(turn)
        floor.both(end())
        assert floor.both(piece(), whole()) == ["a"] * 2

    def test_a_response_before_the_model_has_ended_leaves_the_turn_muted(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), complete(), piece())
        assert floor.turns.mute(turn)
        assert floor.both(response("c"), aloud(), interrupted()) == ["a", None, None]
        assert floor.both(complete(), piece(), whole(), complete()) == ["a"] * 4
        assert turn.ended

    def test_words_that_are_shown_after_a_stored_end_are_left_out(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), piece())
        assert floor.turns.mute(turn)
        end = interrupted()
        assert floor.store(end) is None
        assert floor.show(piece()) is None
        assert floor.show(end) is None
        assert floor.both(piece(), whole()) == ["a"] * 2

    def test_a_turn_whose_end_is_stored_is_muted_for_what_is_shown_only(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), piece())
        copy, end, answer = whole(), complete(), whole()
        assert [floor.store(event) for event in (copy, end)] == ["a"] * 2
        assert floor.turns.mute(turn)
        assert floor.store(answer) == "a"
        assert [floor.show(event) for event in (piece(), copy, end, piece(), answer)] == [None, *["a"] * 4]

    def test_a_lost_connection_unmutes(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(call("c"), piece())
        assert floor.turns.mute(turn)
        floor.turns.unmute()
        assert floor.both(response("c"), piece(), whole(), complete()) == ["a"] * 4
        assert turn.ended

    @pytest.mark.parametrize("first", [piece, whole, aloud, sound], ids=["partial", "whole", "aloud", "sound"])
    def test_words_without_a_turn_begin_one(self, floor: Floor, first: object) -> None:
        makers = {piece: piece, whole: whole, aloud: aloud, sound: sound}
        (begun,) = floor.both(makers[first]())  # pyright: ignore[reportArgumentType]
        current = floor.turns.current
        assert current is not None
        assert (begun, current.origin) == (current.message, "server")
        assert floor.both(whole(), complete()) == [begun] * 2
        assert floor.turns.current is None

    def test_an_end_without_a_turn_begins_none(self, floor: Floor) -> None:
        assert floor.both(complete(), interrupted()) == [None] * 2
        assert floor.turns.current is None


class TestSpeech:
    def test_speech_belongs_to_the_turn_it_begins(self, floor: Floor) -> None:
        turn = floor.turns.begin_speech()
        assert (turn.origin, turn.stamp["spoken"]) == ("voice", True)
        said = [heard(finished=False), heard(), piece(), whole(), complete()]
        assert floor.both(*said) == [turn.message] * 5
        assert turn.ended

    @pytest.mark.parametrize("behind", [1, 2, 3])
    def test_a_transcript_that_comes_late(self, floor: Floor, behind: int) -> None:
        turn = floor.turns.begin_speech()
        said = [piece(), whole(), complete()]
        said.insert(behind, heard())
        assert floor.both(*said) == [turn.message] * 4

    def test_a_transcript_that_comes_when_the_next_turn_has_begun(self, floor: Floor) -> None:
        turn = floor.turns.begin_speech()
        floor.both(piece(), whole(), complete())
        floor.ask("b")
        floor.both(piece())
        assert floor.both(heard()) == [turn.message]

    def test_speech_after_a_cut_turn_begins_another(self, floor: Floor) -> None:
        old = floor.ask("a")
        floor.both(piece())
        floor.turns.cut(old)
        turn = floor.turns.begin_speech()
        assert floor.both(piece(), whole(), interrupted()) == [None] * 3
        assert floor.both(heard(), interrupted(ends=True)) == [turn.message, None]
        assert floor.both(piece(), whole(), complete()) == [turn.message] * 3

    def test_speech_while_calls_are_held_belongs_to_their_turn(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(whole(), call("c"))
        assert floor.turns.begin_speech() is turn
        assert floor.both(heard(), piece(), whole(), complete()) == ["a"] * 4
        assert not turn.over

    def test_speech_before_the_answer_belongs_to_the_same_turn(self, floor: Floor) -> None:
        turn = floor.ask("a")
        assert floor.turns.begin_speech() is turn

    def test_a_transcript_without_a_turn_begins_one(self, floor: Floor) -> None:
        (begun,) = floor.both(heard())
        assert floor.both(piece(), whole(), complete()) == [begun] * 3

    def test_a_typed_turn_replaces_a_spoken_one_without_events(self, floor: Floor) -> None:
        floor.turns.begin_speech()
        floor.ask("b")
        assert floor.both(piece(), whole(), complete()) == ["b"] * 3


class TestStoredAheadOfShown:
    """ADK stores an event long before it is shown."""

    def test_two_turns_are_stored_before_the_first_is_shown(self, floor: Floor) -> None:
        floor.ask("a")
        first = [piece(), whole(), complete()]
        assert [floor.store(event) for event in first[1:]] == ["a"] * 2
        floor.ask("b")
        second = [piece(), whole(), complete()]
        assert [floor.store(event) for event in second[1:]] == ["b"] * 2
        assert [floor.show(event) for event in first + second] == ["a"] * 3 + ["b"] * 3

    def test_partials_in_flight_when_a_turn_is_cut(self, floor: Floor) -> None:
        turn = floor.ask("a")
        flight = [piece(), piece(), whole(), interrupted(), interrupted(ends=True)]
        floor.show(flight[0])
        floor.turns.cut(turn)
        floor.ask("b")
        assert [floor.store(event) for event in flight[2:]] == [None] * 3
        answer = [piece(), whole(), complete()]
        assert [floor.store(event) for event in answer[1:]] == ["b"] * 2
        assert [floor.show(event) for event in flight[1:]] == [None] * 4
        assert [floor.show(event) for event in answer] == ["b"] * 3

    def test_words_of_the_next_turn_wait_for_the_interruption_to_be_shown(self, floor: Floor) -> None:
        turn = floor.ask("a")
        floor.both(piece())
        floor.turns.cut(turn)
        floor.ask("b")
        late, cut, answer = piece("late"), interrupted(), piece("answer")
        assert floor.store(cut) is None
        assert [floor.show(event) for event in (late, cut, answer)] == [None, None, "b"]

    def test_a_turn_that_was_over_in_the_store_when_it_was_cut(self, floor: Floor) -> None:
        turn = floor.ask("a")
        flight = [piece(), piece(), whole(), complete()]
        assert [floor.store(event) for event in flight[2:]] == ["a"] * 2
        floor.show(flight[0])
        floor.turns.cut(turn)
        floor.ask("b")
        answer = [piece(), whole(), complete()]
        assert [floor.store(event) for event in answer[1:]] == ["b"] * 2
        assert floor.show(flight[1]) is None
        for event in flight[2:]:
            floor.show(event)
        assert turn.ended
        assert [floor.show(event) for event in answer] == ["b"] * 3


def test_the_output_stamp_is_added_to_the_response(floor: Floor) -> None:
    floor.ask("a")
    floor.both(call("c"))
    floor.turns.outputs["c"] = {"bare": True}
    given = response("c")
    assert floor.both(given) == ["a"]
    assert stamp_of(given)["outputs"] == {"c": {"bare": True}}


def test_the_amount_of_sound_is_stamped_on_the_last_event(floor: Floor) -> None:
    def sounded(turn: RoutedTurn) -> dict[str, int]:
        return {"chunks": 2, "ms": len(turn.message) * 80}

    floor.turns = TurnRouter(sounded)
    floor.ask("a")
    before, end = aloud(), complete()
    floor.both(before, end)
    assert "audio" not in stamp_of(before)
    assert stamp_of(end)["audio"] == {"chunks": 2, "ms": 80}


def test_a_resumption_update_is_not_stored(floor: Floor) -> None:
    floor.ask("a")
    handle = types.LiveServerSessionResumptionUpdate(new_handle="h", resumable=True)
    assert floor.store(Event(author=AGENT, live_session_resumption_update=handle)) is None


def test_old_turns_of_a_long_conversation_are_dropped(floor: Floor) -> None:
    for name in range(200):
        floor.ask(str(name))
        floor.both(call(f"c{name}"), response(f"c{name}"), piece(), whole(), complete())
    assert floor.turns.of_call("c1") is None
    assert floor.turns.of_call("c199") is not None


End = Literal["complete", "interrupted", "both", "complete anyway"]


class Scene(NamedTuple):
    """One turn as a generator says it, so that it is known to whom each event belongs."""

    origin: Literal["typed", "voice"]
    words: int
    calls: int
    transcript: int
    """Behind how many of its events what the user has said comes."""
    cut: int | None
    """After how many of its events somebody has enough, if anybody has."""
    more: int
    """What the model says before it hears of that."""
    end: End
    """How it ends what it was cut in."""
    early: bool
    """Whether the next turn begins before that."""


scenes = st.builds(
    Scene,
    origin=st.sampled_from(["typed", "voice"]),
    words=st.integers(1, 4),
    calls=st.integers(0, 2),
    transcript=st.integers(0, 6),
    cut=st.none() | st.integers(1, 4),
    more=st.integers(0, 3),
    end=st.sampled_from(["complete", "interrupted", "both", "complete anyway"]),
    early=st.booleans(),
)


class Reference:
    """Plays scenes and checks every event by who it was made for."""

    def __init__(self, lags: Iterator[int]) -> None:
        self.floor = Floor()
        self._lags = lags
        self._flight: deque[tuple[Event, RoutedTurn, bool]] = deque()

    def play(self, told: list[Scene]) -> None:
        for at, scene in enumerate(told):
            turn = self._begin(str(at), scene)
            if not self._say(turn, scene):
                continue
            self._cut(turn)
            ends = self._endings(turn, scene)
            if scene.early and at + 1 < len(told) and told[at + 1].origin == "typed":
                self._held = ends
            else:
                self._emit(turn, *ends)
        self._drain(0)

    _held: list[Event] | None = None

    def _begin(self, name: str, scene: Scene) -> RoutedTurn:
        turn = self.floor.turns.begin_speech() if scene.origin == "voice" else self.floor.ask(name)
        if self._held is not None:
            self._emit(self._last, *self._held)
            self._held = None
        self._last = turn
        return turn

    def _say(self, turn: RoutedTurn, scene: Scene) -> bool:
        """Say a turn to its end, or until it is cut: says whether it was."""
        events = [
            event
            for n in range(scene.calls)
            for event in (call(f"{turn.message}-{n}"), response(f"{turn.message}-{n}"))
        ]
        events += [piece() for _ in range(scene.words)]
        if scene.origin == "voice":
            events.insert(min(scene.transcript, len(events)), heard())
        if scene.cut is not None and 2 * scene.calls < scene.cut < len(events):
            self._emit(turn, *events[: scene.cut])
            self._drain(0)
            if turn.said:
                return True
            events = events[scene.cut :]
        self._emit(turn, *events, whole(), complete())
        return False

    def _cut(self, turn: RoutedTurn) -> None:
        assert self.floor.turns.current is turn
        self.floor.turns.cut(turn)

    def _endings(self, turn: RoutedTurn, scene: Scene) -> list[Event]:
        del turn
        ends = {
            "complete": [complete()],
            "interrupted": [interrupted()],
            "both": [whole(), interrupted(), interrupted(ends=True)],
            "complete anyway": [whole(), complete()],
        }
        return [piece() for _ in range(scene.more)] + ends[scene.end]

    def _emit(self, turn: RoutedTurn, *events: Event) -> None:
        for event in events:
            wanted = turn.message if not turn.cut or event.input_transcription is not None else None
            if _is_stored(event):
                assert self.floor.store(event) == wanted
            self._flight.append((event, turn, wanted is not None))
            self._drain(next(self._lags))

    def _drain(self, left: int) -> None:
        while len(self._flight) > left:
            event, turn, wanted = self._flight.popleft()
            assert self.floor.show(event) == (turn.message if wanted else None)


@given(st.lists(scenes, min_size=1, max_size=8), st.lists(st.integers(0, 6), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_every_event_goes_to_the_turn_it_was_made_for(told: list[Scene], lags: list[int]) -> None:
    def again() -> Iterator[int]:
        while True:
            yield from lags

    Reference(again()).play(told)
