"""The turn of each event: every row of the table in `turn_router`, and conversations against a simple reference."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


def piece() -> Event:
    return Event(author=AGENT, content=content(types.Part(text="word ")), partial=True)


def whole(*, interrupted: bool | None = None) -> Event:
    return Event(author=AGENT, content=content(types.Part(text="words")), interrupted=interrupted)


def spoken() -> Event:
    return Event(author=AGENT, output_transcription=types.Transcription(text="words", finished=True))


def sound() -> Event:
    blob = types.Blob(mime_type="audio/pcm;rate=24000", data=b"\0\0")
    return Event(author=AGENT, content=content(types.Part(inline_data=blob)))


def call(name: str) -> Event:
    return Event(author=AGENT, content=content(types.Part(function_call=types.FunctionCall(id=name, name="pay"))))


def response(name: str) -> Event:
    part = types.Part(function_response=types.FunctionResponse(id=name, name="pay", response={}))
    return Event(author=AGENT, content=content(part, role="user"))


def transcript(*, finished: bool = True) -> Event:
    text = types.Transcription(text="hello", finished=finished)
    return Event(author="user", input_transcription=text, partial=None if finished else True)


def typed() -> Event:
    return Event(author="user", content=content(types.Part(text="hi"), role="user"))


def complete() -> Event:
    return Event(author=AGENT, turn_complete=True)


def interrupted(*, ends: bool = False) -> Event:
    return Event(author=AGENT, interrupted=True, turn_complete=ends or None)


class RouterRun:
    """A router with the events of a live run: complete events are stored, then all are shown, some time later."""

    def __init__(self) -> None:
        self.router = TurnRouter()

    def type(self, name: str) -> RoutedTurn:
        """Add the turn of a typed message; ADK's copy of the message is left out."""
        turn = self.router.add(RoutedTurn(name, f"user-{name}", "typed", began=True))
        assert self.store(typed()) is None
        return turn

    def store(self, event: Event) -> str | None:
        """Store an event; return the message of its turn, None if it is left out."""
        return stamp_of(event)["message"] if self.router.stamp(event) else None

    def show(self, event: Event) -> str | None:
        """Show an event; return the message of its turn, None if it is left out."""
        turn = self.router.route_shown(event)
        if turn is None:
            return None
        self.router.note_shown(turn, event)
        return turn.message

    def play(self, *events: Event) -> list[str | None]:
        """Store and show events one by one; return the messages in which they are shown."""
        return [self._play(event) for event in events]

    def _play(self, event: Event) -> str | None:
        stored = self.store(event) if _is_stored(event) else None
        shown = self.show(event)
        assert shown == stored or not _is_stored(event)
        return shown


def _is_stored(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or []
    return not event.partial and not any(part.inline_data is not None for part in parts)


@pytest.fixture
def run() -> RouterRun:
    return RouterRun()


class TestTheTable:
    def test_a_turn_is_over_at_turn_complete_after_words(self, run: RouterRun) -> None:
        turn = run.type("a")
        assert run.play(piece(), whole(), complete()) == ["a"] * 3
        assert (turn.is_all_stored, turn.is_all_shown) == (True, True)
        assert run.router.current is None

    def test_a_turn_without_words_goes_on(self, run: RouterRun) -> None:
        turn = run.type("a")
        assert run.play(complete()) == ["a"]
        assert not turn.is_all_stored
        assert run.play(piece(), whole(), complete()) == ["a"] * 3
        assert turn.is_all_shown

    def test_a_turn_with_an_unanswered_call_goes_on(self, run: RouterRun) -> None:
        turn = run.type("a")
        assert run.play(whole(), call("c"), complete()) == ["a"] * 3
        assert (turn.is_all_stored, turn.calls) == (False, {"c"})
        assert run.play(response("c")) == ["a"]
        assert not turn.calls

    def test_a_turn_goes_on_until_the_model_speaks_after_a_response(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(whole(), call("c"), response("c"))
        assert run.play(complete()) == ["a"]
        assert not turn.is_all_stored
        run.play(whole(), complete())
        assert turn.is_all_shown

    def test_words_shown_after_a_response_was_stored_came_before_it(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"))
        events = [whole(), response("c"), complete()]
        assert [run.store(event) for event in events] == ["a"] * 3
        assert [run.show(event) for event in (piece(), *events)] == ["a"] * 4
        assert (turn.has_spoken, turn.is_all_stored) == (False, False)

    def test_a_response_belongs_to_the_turn_of_its_call(self, run: RouterRun) -> None:
        run.type("a")
        run.play(call("c"), complete())
        run.type("b")
        assert run.play(response("c")) == ["a"]
        assert run.router.of_call("c") is not None

    def test_a_response_to_an_unknown_call_is_left_out(self, run: RouterRun) -> None:
        run.type("a")
        assert run.play(response("unknown")) == [None]

    def test_every_turn_is_an_invocation_of_its_own(self, run: RouterRun) -> None:
        events: list[Event] = []
        for name in ("a", "b"):
            run.type(name)
            events.append(whole())
            run.play(piece(), events[-1], complete())
        assert len({event.invocation_id for event in events}) == 2
        assert all(event.invocation_id for event in events)

    def test_words_of_a_cut_turn_are_left_out(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(piece())
        run.router.cut(turn)
        assert run.play(piece(), sound(), spoken(), whole()) == [None] * 4
        assert not turn.is_all_stored
        assert run.play(complete()) == [None]
        assert (turn.is_all_stored, turn.is_all_shown) == (True, True)

    def test_words_after_an_interruption_belong_to_the_next_turn(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(piece())
        run.router.cut(turn)
        run.type("b")
        assert run.play(piece(), interrupted()) == [None] * 2
        assert run.play(piece(), whole(), complete()) == ["b"] * 3
        assert turn.is_all_stored

    def test_an_interruption_that_ends_its_turn(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(piece())
        run.router.cut(turn)
        run.type("b")
        assert run.play(whole(), interrupted(), interrupted(ends=True)) == [None] * 3
        assert run.play(piece(), whole(), complete()) == ["b"] * 3

    def test_a_call_of_a_cut_turn_is_left_out(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(piece())
        run.router.cut(turn)
        assert run.play(call("c")) == [None]
        assert run.router.of_call("c") is None
        assert run.play(response("c")) == [None]

    def test_a_response_reaches_a_cut_turn_that_is_still_shown(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        run.router.cut(turn)
        assert run.play(response("c")) == ["a"]

    def test_words_of_a_muted_turn_are_left_out(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        assert run.router.mute(turn)
        assert run.play(piece(), sound(), whole(), spoken()) == [None] * 4
        assert run.play(call("d"), transcript()) == ["a", "a"]
        assert turn.calls == {"c", "d"}

    @pytest.mark.parametrize("end", [complete, interrupted])
    def test_a_turn_is_muted_until_the_model_has_ended(self, run: RouterRun, end: Callable[[], Event]) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        assert run.router.mute(turn)
        assert run.play(end(), piece(), whole()) == ["a"] * 3

    def test_a_call_ends_a_muted_speech(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        assert run.router.mute(turn)
        assert run.play(whole(), call("d"), response("c"), response("d")) == [None, "a", "a", "a"]
        assert run.play(piece(), whole(), complete()) == ["a"] * 3
        assert turn.is_all_shown

    def test_a_model_that_waits_for_a_call_is_not_muted(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(piece(), whole(), call("c"))
        assert not run.router.mute(turn)

    def test_words_sent_before_a_response_and_shown_after_it_do_not_end_the_turn(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"))
        words, answer, end = whole(), response("c"), complete()
        assert [run.store(event) for event in (words, answer)] == ["a"] * 2
        assert [run.show(event) for event in (piece(), words)] == ["a"] * 2
        assert run.store(end) == "a"
        assert not turn.is_all_stored
        assert [run.show(event) for event in (answer, end)] == ["a"] * 2
        run.play(piece(), whole(), complete())
        assert turn.is_all_shown

    def test_an_end_that_is_shown_after_the_next_words_were_stored_does_not_keep_the_turn_open(
        self, run: RouterRun
    ) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        events = [whole(), complete(), response("c"), whole()]
        assert [run.store(event) for event in events] == ["a"] * 4
        assert [run.show(event) for event in events[:2]] == ["a"] * 2
        end = complete()
        assert run.store(end) == "a"
        assert turn.is_all_stored

    def test_a_response_before_the_model_has_ended_leaves_the_turn_muted(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), complete(), piece())
        assert run.router.mute(turn)
        assert run.play(response("c"), spoken(), interrupted()) == ["a", None, "a"]
        assert run.play(complete(), piece(), whole(), complete()) == ["a"] * 4
        assert turn.is_all_shown

    def test_words_that_are_shown_after_a_stored_end_are_left_out(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        assert run.router.mute(turn)
        end = interrupted()
        assert run.store(end) == "a"
        assert run.show(piece()) is None
        assert run.show(end) == "a"
        assert run.play(piece(), whole()) == ["a"] * 2

    def test_a_turn_whose_end_is_stored_is_muted_for_what_is_shown_only(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        copy, end, answer = whole(), complete(), whole()
        assert [run.store(event) for event in (copy, end)] == ["a"] * 2
        assert run.router.mute(turn)
        assert run.store(answer) == "a"
        assert [run.show(event) for event in (piece(), copy, end, piece(), answer)] == [None, *["a"] * 4]

    def test_a_lost_connection_unmutes(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(call("c"), piece())
        assert run.router.mute(turn)
        run.router.unmute()
        assert run.play(response("c"), piece(), whole(), complete()) == ["a"] * 4
        assert turn.is_all_shown

    @pytest.mark.parametrize("first", [piece, whole, spoken, sound])
    def test_words_without_a_turn_begin_one(self, run: RouterRun, first: Callable[[], Event]) -> None:
        (begun,) = run.play(first())
        current = run.router.current
        assert current is not None
        assert (begun, current.origin) == (current.message, "server")
        assert run.play(whole(), complete()) == [begun] * 2
        assert run.router.current is None

    def test_an_end_without_a_turn_begins_none(self, run: RouterRun) -> None:
        assert run.play(complete(), interrupted()) == [None] * 2
        assert run.router.current is None


class TestSpeech:
    def test_speech_belongs_to_the_turn_it_begins(self, run: RouterRun) -> None:
        turn = run.router.begin_speech()
        assert (turn.origin, turn.stamp["spoken"]) == ("voice", True)
        events = [transcript(finished=False), transcript(), piece(), whole(), complete()]
        assert run.play(*events) == [turn.message] * 5
        assert turn.is_all_shown

    @pytest.mark.parametrize("behind", [1, 2, 3])
    def test_a_transcript_that_comes_late(self, run: RouterRun, behind: int) -> None:
        turn = run.router.begin_speech()
        events = [piece(), whole(), complete()]
        events.insert(behind, transcript())
        assert run.play(*events) == [turn.message] * 4

    def test_a_transcript_that_comes_when_the_next_turn_has_begun(self, run: RouterRun) -> None:
        turn = run.router.begin_speech()
        run.play(piece(), whole(), complete())
        run.type("b")
        run.play(piece())
        assert run.play(transcript()) == [turn.message]

    def test_speech_after_a_cut_turn_begins_another(self, run: RouterRun) -> None:
        old = run.type("a")
        run.play(piece())
        run.router.cut(old)
        turn = run.router.begin_speech()
        assert run.play(piece(), whole(), interrupted()) == [None] * 3
        assert run.play(transcript(), interrupted(ends=True)) == [turn.message, None]
        assert run.play(piece(), whole(), complete()) == [turn.message] * 3

    def test_speech_while_calls_are_held_belongs_to_their_turn(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(whole(), call("c"))
        assert run.router.begin_speech() is turn
        assert run.play(transcript(), piece(), whole(), complete()) == ["a"] * 4
        assert not turn.is_all_stored

    def test_speech_before_the_answer_belongs_to_the_same_turn(self, run: RouterRun) -> None:
        turn = run.type("a")
        assert run.router.begin_speech() is turn

    def test_a_transcript_without_a_turn_begins_one(self, run: RouterRun) -> None:
        (begun,) = run.play(transcript())
        assert run.play(piece(), whole(), complete()) == [begun] * 3

    def test_a_typed_turn_replaces_a_spoken_one_without_events(self, run: RouterRun) -> None:
        run.router.begin_speech()
        run.type("b")
        assert run.play(piece(), whole(), complete()) == ["b"] * 3


class TestStoredAheadOfShown:
    """ADK stores an event long before it is shown."""

    def test_two_turns_are_stored_before_the_first_is_shown(self, run: RouterRun) -> None:
        run.type("a")
        first = [piece(), whole(), complete()]
        assert [run.store(event) for event in first[1:]] == ["a"] * 2
        run.type("b")
        second = [piece(), whole(), complete()]
        assert [run.store(event) for event in second[1:]] == ["b"] * 2
        assert [run.show(event) for event in first + second] == ["a"] * 3 + ["b"] * 3

    def test_partials_in_flight_when_a_turn_is_cut(self, run: RouterRun) -> None:
        turn = run.type("a")
        flight = [piece(), piece(), whole(), interrupted(), interrupted(ends=True)]
        run.show(flight[0])
        run.router.cut(turn)
        run.type("b")
        assert [run.store(event) for event in flight[2:]] == [None] * 3
        answer = [piece(), whole(), complete()]
        assert [run.store(event) for event in answer[1:]] == ["b"] * 2
        assert [run.show(event) for event in flight[1:]] == [None] * 4
        assert [run.show(event) for event in answer] == ["b"] * 3

    def test_words_of_the_next_turn_wait_for_the_interruption_to_be_shown(self, run: RouterRun) -> None:
        turn = run.type("a")
        run.play(piece())
        run.router.cut(turn)
        run.type("b")
        late, cut, answer = piece(), interrupted(), piece()
        assert run.store(cut) is None
        assert [run.show(event) for event in (late, cut, answer)] == [None, None, "b"]

    def test_a_turn_that_was_over_in_the_store_when_it_was_cut(self, run: RouterRun) -> None:
        turn = run.type("a")
        flight = [piece(), piece(), whole(), complete()]
        assert [run.store(event) for event in flight[2:]] == ["a"] * 2
        run.show(flight[0])
        run.router.cut(turn)
        run.type("b")
        answer = [piece(), whole(), complete()]
        assert [run.store(event) for event in answer[1:]] == ["b"] * 2
        assert run.show(flight[1]) is None
        for event in flight[2:]:
            run.show(event)
        assert turn.is_all_shown
        assert [run.show(event) for event in answer] == ["b"] * 3


def test_the_output_stamp_is_added_to_the_response(run: RouterRun) -> None:
    run.type("a")
    run.play(call("c"))
    run.router.stamp_output("c", {"bare": True})
    event = response("c")
    assert run.play(event) == ["a"]
    assert stamp_of(event)["outputs"] == {"c": {"bare": True}}


def test_the_output_stamp_of_a_response_that_never_comes_is_dropped_with_its_turn(run: RouterRun) -> None:
    for name in range(5):
        run.type(str(name))
        run.play(call(f"c{name}"), piece())
        run.router.stamp_output(f"c{name}", {"bare": True})
        run.router.finish(run.router.current or RoutedTurn("", "", "typed"))
    run.router.stamp_output("unknown", {"bare": True})
    kept = run.router._output_stamps  # pyright: ignore[reportPrivateUsage]
    assert set(kept) == {"c2", "c3", "c4"}, "only of turns that may still get events"


def test_the_amount_of_sound_is_stamped_on_the_last_event(run: RouterRun) -> None:
    run.router = TurnRouter(lambda turn: {"chunks": 2, "ms": len(turn.message) * 80})
    run.type("a")
    before, end = spoken(), complete()
    run.play(before, end)
    assert "audio" not in stamp_of(before)
    assert stamp_of(end)["audio"] == {"chunks": 2, "ms": 80}


def test_a_resumption_update_is_not_stored(run: RouterRun) -> None:
    run.type("a")
    handle = types.LiveServerSessionResumptionUpdate(new_handle="h", resumable=True)
    assert run.store(Event(author=AGENT, live_session_resumption_update=handle)) is None


def test_old_turns_of_a_long_conversation_are_dropped(run: RouterRun) -> None:
    for name in range(200):
        run.type(str(name))
        run.play(call(f"c{name}"), response(f"c{name}"), piece(), whole(), complete())
    assert run.router.of_call("c1") is None
    assert run.router.of_call("c199") is not None


End = Literal["complete", "interrupted", "both", "complete anyway"]


class PlannedTurn(NamedTuple):
    """One turn of a conversation whose events are made by a test, so that the turn of each event is known."""

    origin: Literal["typed", "voice"]
    words: int
    calls: int
    transcript: int
    """How many events of the turn come before the transcript of the user's speech."""
    cut_after: int | None
    """How many events of the turn are shown before it is cut; None if it is not cut."""
    words_after_cut: int
    """How many pieces of text the model sends before it ends a turn that was cut."""
    end: End
    """How the model ends a turn that was cut."""
    next_begins_early: bool
    """True if the next turn begins before the model ends this one, which was cut."""


planned_turns = st.builds(
    PlannedTurn,
    origin=st.sampled_from(["typed", "voice"]),
    words=st.integers(1, 4),
    calls=st.integers(0, 2),
    transcript=st.integers(0, 6),
    cut_after=st.none() | st.integers(1, 4),
    words_after_cut=st.integers(0, 3),
    end=st.sampled_from(["complete", "interrupted", "both", "complete anyway"]),
    next_begins_early=st.booleans(),
)


class ConversationReference:
    """Plays planned turns through a router and asserts for every event that it goes to the turn it was made for."""

    def __init__(self, lags: Iterator[int]) -> None:
        self._run = RouterRun()
        self._lags = lags
        """How many stored events stay unshown after each event."""
        self._unshown: deque[tuple[Event, str | None]] = deque()
        """Events with the message in which each is expected."""
        self._last: RoutedTurn | None = None
        self._delayed: list[Event] = []
        """The end of the last turn, which is sent once the next one has begun."""

    def play(self, plans: list[PlannedTurn]) -> None:
        for at, plan in enumerate(plans):
            turn = self._begin(str(at), plan)
            if not self._send_until_cut(turn, plan):
                continue
            assert self._run.router.current is turn
            self._run.router.cut(turn)
            if plan.next_begins_early and at + 1 < len(plans) and plans[at + 1].origin == "typed":
                self._delayed = self._events_after_cut(plan)
            else:
                self._send(turn, *self._events_after_cut(plan))
        self._show_until(0)

    def _begin(self, name: str, plan: PlannedTurn) -> RoutedTurn:
        turn = self._run.router.begin_speech() if plan.origin == "voice" else self._run.type(name)
        if self._last is not None:
            self._send(self._last, *self._delayed)
        self._last, self._delayed = turn, []
        return turn

    def _send_until_cut(self, turn: RoutedTurn, plan: PlannedTurn) -> bool:
        """Send the events of a turn; return True if the turn is to be cut now, False if it was sent to its end."""
        calls = [f"{turn.message}-{number}" for number in range(plan.calls)]
        events = [event for name in calls for event in (call(name), response(name))]
        events += [piece() for _ in range(plan.words)]
        if plan.origin == "voice":
            events.insert(min(plan.transcript, len(events)), transcript())
        if plan.cut_after is not None and 2 * plan.calls < plan.cut_after < len(events):
            self._send(turn, *events[: plan.cut_after])
            self._show_until(0)
            if turn.has_spoken:
                return True
            events = events[plan.cut_after :]
        self._send(turn, *events, whole(), complete())
        return False

    def _events_after_cut(self, plan: PlannedTurn) -> list[Event]:
        ends = {
            "complete": [complete()],
            "interrupted": [interrupted()],
            "both": [whole(), interrupted(), interrupted(ends=True)],
            "complete anyway": [whole(), complete()],
        }
        return [piece() for _ in range(plan.words_after_cut)] + ends[plan.end]

    def _send(self, turn: RoutedTurn, *events: Event) -> None:
        for event in events:
            message = turn.message if not turn.cut or event.input_transcription is not None else None
            if _is_stored(event):
                assert self._run.store(event) == message
            self._unshown.append((event, message))
            self._show_until(next(self._lags))

    def _show_until(self, left: int) -> None:
        while len(self._unshown) > left:
            event, message = self._unshown.popleft()
            assert self._run.show(event) == message


@given(st.lists(planned_turns, min_size=1, max_size=8), st.lists(st.integers(0, 6), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_every_event_goes_to_the_turn_it_was_made_for(plans: list[PlannedTurn], lags: list[int]) -> None:
    ConversationReference(itertools.cycle(lags)).play(plans)


@dataclass(eq=False)
class Speech:
    """Words of the model between two ends. The reference knows of each event which speech it is part of."""

    muted: bool = False
    """True once the user has interrupted it."""
    unsaved: bool = False
    """True while pieces of it were sent and its whole text was not."""


class MutingReference:
    """One turn with held calls in which the model speaks several times and the user interrupts.

    What a router has to conclude from ends and counts is known here: a piece is shown unless its speech was interrupted
    before, and a whole text is stored, and shown later, unless its speech was interrupted before it is stored.
    """

    def __init__(self) -> None:
        self._run = RouterRun()
        self._turn = self._run.type("a")
        self._calls = 0
        self._unanswered: list[str] = []
        self._sent: Speech | None = None
        """The speech that the model is in the middle of."""
        self._shown: Speech | None = None
        """The speech that is in the middle of being shown."""
        self._has_spoken = False
        """True once a text was stored since the last response."""
        self._unshown: deque[tuple[Event, Speech | None, bool]] = deque()
        """Events, their speech, and whether each is left out."""
        self.call()

    def piece(self) -> None:
        self._sent = self._sent or Speech()
        self._sent.unsaved = True
        self._unshown.append((piece(), self._sent, False))

    def whole(self, *, interrupted: bool = False) -> None:
        speech = self._sent = self._sent or Speech()
        speech.unsaved = False
        self._store(whole(interrupted=interrupted or None), speech, left_out=speech.muted)
        self._has_spoken = self._has_spoken or not speech.muted

    def call(self) -> None:
        """End the speech by a call, after which a model may wait without a turn_complete."""
        self._finish_text()
        self._calls += 1
        self._unanswered.append(f"c{self._calls}")
        self._store(call(self._unanswered[-1]))
        self._has_spoken = True
        self._sent = None

    def complete(self) -> None:
        self._finish_text()
        self._store(complete())
        self._sent = None

    def stop_speaking(self) -> None:
        """End the speech as a model does that was interrupted."""
        self._finish_text()
        self._store(interrupted())
        self._store(interrupted(ends=True))
        self._sent = None

    def stop_writing(self) -> None:
        """End the speech as a model does that was interrupted while it sent text: the text has the mark."""
        if self._sent is not None and self._sent.unsaved:
            self.whole(interrupted=True)
            self._store(interrupted(ends=True))
            self._sent = None

    def answer(self) -> None:
        """Answer a call, but not the last one."""
        if len(self._unanswered) > 1:
            self._respond()

    def answer_last(self) -> None:
        """Answer the last call, while or after the model speaks."""
        if len(self._unanswered) == 1:
            self._respond()

    def interrupt(self) -> None:
        if self._turn.calls:
            speech = self._shown
            assert self._run.router.mute(self._turn) == (speech is not None and not speech.muted)
            if speech is not None:
                speech.muted = True

    def show(self) -> None:
        """Show the next event."""
        if not self._unshown:
            return
        event, speech, left_out = self._unshown.popleft()
        left_out = left_out or (event.partial is True and speech is not None and speech.muted)
        assert self._run.show(event) == (None if left_out else "a")
        ends = event.turn_complete or event.interrupted or event.get_function_calls()
        if ends or not left_out:
            self._shown = None if ends else (speech or self._shown)

    def finish(self) -> None:
        """Answer all calls and speak about them; assert that the turn ends with that."""
        self._finish_text()
        while self._unanswered and not self.is_over:
            self._respond()
        if not self.is_over:
            self.complete()
        if not self.is_over:
            self.whole()
            self.complete()
        while self._unshown:
            self.show()
        assert (self._turn.is_all_stored, self._turn.is_all_shown) == (True, True)

    @property
    def is_over(self) -> bool:
        return self._turn.is_all_stored

    def _finish_text(self) -> None:
        if self._sent is not None and self._sent.unsaved:
            self.whole()

    def _respond(self) -> None:
        self._store(response(self._unanswered.pop(0)))
        self._has_spoken = False

    def _store(self, event: Event, speech: Speech | None = None, *, left_out: bool = False) -> None:
        ends_turn = event.turn_complete and not self._unanswered and self._has_spoken
        assert self._run.store(event) == (None if left_out else "a")
        assert self.is_over == bool(ends_turn)
        self._unshown.append((event, speech, left_out))


ACTIONS = [
    MutingReference.piece,
    MutingReference.whole,
    MutingReference.call,
    MutingReference.complete,
    MutingReference.stop_speaking,
    MutingReference.stop_writing,
    MutingReference.answer,
    MutingReference.answer_last,
    MutingReference.interrupt,
    MutingReference.show,
]


@given(st.lists(st.sampled_from(ACTIONS), max_size=40))
@settings(max_examples=400, deadline=None)
def test_an_interruption_mutes_the_speech_that_was_shown_and_no_other(
    actions: list[Callable[[MutingReference], None]],
) -> None:
    reference = MutingReference()
    for action in actions:
        if not reference.is_over:
            action(reference)
    reference.finish()
