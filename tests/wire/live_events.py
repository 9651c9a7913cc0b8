"""Random legal turns of a live model: what `run_live` yields for one message, with what adkwire adds to it.

The acts of a turn are events, and ids of browser calls that may be executed now. `stored` is what the session has of
them: complete events, those that repeat streamed ones with the time of the first in their stamp.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.adk.events.event import Event
from google.genai import types
from hypothesis import strategies as st

from tests.wire.adk_events import (
    answered,
    asked,
    call,
    gated,
    heard,
    image,
    model,
    partial,
    response,
    spoken,
    stamp,
    text,
    thought,
    verdict,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]
Act: TypeAlias = Event | str

_WORDS = st.text(alphabet="ab é\n😀<", min_size=1, max_size=3)
_KINDS = st.sampled_from(["server", "server", "gated", "browser", "gated browser"])
_RESULTS = st.sampled_from([{}, {"result": 1}, {"error": "no"}])
_ACTS = (*["say"] * 5, *["go on"] * 6, *["write"] * 2, "call", "call", "think", "finish", "flush")
_RARE = ("show", "hear", "count", "complete", "interrupt", "say at once", "write at once")


@dataclass
class LiveTurn:
    """A turn that is being generated."""

    draw: Draw
    acts: list[Act] = field(default_factory=list[Act])
    stored: list[Event] = field(default_factory=list[Event])
    clock: float = 0.0
    transcript: list[str] = field(default_factory=list[str])
    said_at: float = 0.0
    written: list[str] = field(default_factory=list[str])
    written_at: float = 0.0
    thinks: bool = False
    calls: dict[str, str] = field(default_factory=dict[str, str])
    kinds: dict[str, str] = field(default_factory=dict[str, str])

    def act(self, name: str) -> None:
        match name:
            case "say":
                self._say()
            case "write" | "think":
                self._write(thinks=name == "think")
            case "finish":
                self._finish()
            case "flush":
                self._flush()
            case "call":
                self._call()
            case "go on":
                self._go_on()
            case "show":
                self._take(model(image()))
            case "hear":
                self._take(heard(self.draw(_WORDS), finished=self.draw(st.booleans())))
            case "count":
                count = self.draw(st.integers(0, 3))
                usage = types.GenerateContentResponseUsageMetadata(total_token_count=count)
                self._take(model(usage_metadata=usage, model_version="live"))
            case "complete":
                self._take(model(turn_complete=True, grounding_metadata=types.GroundingMetadata()))
            case "interrupt":
                self._interrupt()
            case "say at once":
                self._finish()
                self._take(spoken(self.draw(_WORDS), finished=True))
            case _:
                self._flush()
                self._take(model(text(self.draw(_WORDS))))

    def _take(self, event: Event) -> None:
        self.clock += 1
        event.timestamp = self.clock
        self.acts.append(event)
        if not event.partial:
            self.stored.append(event)

    def _say(self) -> None:
        self.said_at = self.said_at if self.transcript else self.clock + 1
        self.transcript.append(self.draw(_WORDS))
        self._take(spoken(self.transcript[-1]))

    def _finish(self) -> None:
        if self.transcript:
            more = self.draw(st.sampled_from(["", "", "more"]))
            self._take(stamp(spoken("".join(self.transcript) + more, finished=True), at=self.said_at))
            self.transcript = []

    def _write(self, *, thinks: bool) -> None:
        if self.thinks != thinks:
            self._flush()
        self.thinks = thinks
        self.written_at = self.written_at if self.written else self.clock + 1
        self.written.append(self.draw(_WORDS))
        self._take(partial(self._part(self.written[-1])))

    def _flush(self, **more: Any) -> None:
        if self.written:
            self._take(stamp(model(self._part("".join(self.written)), **more), at=self.written_at))
            self.written = []

    def _part(self, transcript: str) -> types.Part:
        return thought(transcript) if self.thinks else text(transcript)

    def _call(self) -> None:
        self._flush()
        new = [f"c{len(self.calls) + index}" for index in range(self.draw(st.integers(1, 2)))]
        self.kinds |= {one: self.draw(_KINDS) for one in new}
        self.calls |= dict.fromkeys(new, "called")
        browser = {one for one in new if "browser" in self.kinds[one]}
        self._take(
            model(*(call(one, self.kinds[one].replace(" ", "_"), n=1) for one in new), long_running_tool_ids=browser)
        )

    def _go_on(self) -> None:
        waiting = sorted(one for one, state in self.calls.items() if state != "settled")
        if waiting:
            one = self.draw(st.sampled_from(waiting))
            self._one_on(one, self.kinds[one], self.calls[one])

    def _one_on(self, one: str, kind: str, state: str) -> None:
        if state == "called" and "gated" in kind:
            self.calls[one] = "asked"
            self._take(asked(gated(one), hint=self.draw(st.sampled_from(["", "?"]))))
        elif state == "called" and kind == "browser":
            self.calls[one] = "offered"
            self.acts.append(one)
        elif state == "asked":
            self.calls[one] = "decided"
            transcript = self.draw(st.sampled_from(["yes", "yes", "no", "nothing in time"]))
            more = {"expired": True} if transcript == "nothing in time" else {}
            self._take(stamp(verdict(stamps={one: more} if more else {}, **{one: transcript == "yes"}), held=True))
        else:
            self.calls[one] = "settled"
            self._take(answered(response(one, self.draw(_RESULTS))))

    def _interrupt(self) -> None:
        """Interrupt the model as ADK reports it: with the text so far, and `interrupted`."""
        self._finish()
        self._flush(interrupted=True)
        self._take(model(interrupted=True, turn_complete=self.draw(st.sampled_from([None, True]))))


@st.composite
def live_turns(draw: Draw) -> LiveTurn:
    """A turn up to any point."""
    turn = LiveTurn(draw)
    for name in draw(st.sampled_from([[], [], ["say", "call"], ["call", "write"], ["call", "say"]])):
        turn.act(name)
    for name in draw(
        st.lists(st.sampled_from((*_ACTS, *_RARE)), min_size=draw(st.sampled_from([0, 6, 12])), max_size=16)
    ):
        turn.act(name)
    return turn
