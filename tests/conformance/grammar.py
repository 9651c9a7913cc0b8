"""The order of chunks in one response: parts that are opened are closed, and only announced calls are answered."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from tests.conformance.records import Chunk

BROWSER = {"where", "clock", "music", "get_location", "change_bgm", "get_timezone"}
"""The tools of the agents under test that a page executes."""
SETTLING = {"tool-output-available", "tool-output-error", "tool-output-denied"}


class Call(Enum):
    """The state of a call for the client."""

    BEGUN = auto()
    AVAILABLE = auto()
    ASKED = auto()
    GIVEN = auto()
    """Settled for the page already; the server may say so once more, since others read the same run."""
    SETTLED = auto()


ANNOUNCING = {
    "tool-input-start": Call.BEGUN,
    "tool-input-available": Call.AVAILABLE,
    "tool-input-error": Call.SETTLED,
}
CLAIMED = {
    "input-streaming": Call.BEGUN,
    "input-available": Call.AVAILABLE,
    "approval-requested": Call.ASKED,
    "approval-responded": Call.ASKED,
    "output-available": Call.GIVEN,
    "output-error": Call.GIVEN,
    "output-denied": Call.GIVEN,
}
"""What the states of a re-sent message mean: the client goes on from there."""


class Grammar:
    """Reads one response; `complaints` says what is wrong with its order."""

    def __init__(self, request: dict[str, Any], stream: dict[str, Any]) -> None:
        self.chunks: list[Chunk] = stream["chunks"]
        self.complete = stream["ended"] == "closed"
        sent = request["sent"]
        claimed: dict[str, str] = sent[-1]["calls"] if sent and sent[-1]["role"] == "assistant" else {}
        self.continued: str | None = sent[-1]["id"] if sent and sent[-1]["role"] == "assistant" else None
        self.found: list[str] = []
        self.open: dict[str, str] = {}
        self.calls = {call: CLAIMED[state] for call, state in claimed.items()}
        self.browser = {call for call, state in claimed.items() if state == "input-available"}
        self.passed: set[str] = set()
        """Calls that were open when another step began: a client looks only at its last step."""
        self.in_step = False
        self.in_mid_step = self.continued is not None and request["path"] == "/api/live"
        """A live turn goes on behind a question in its step; the answer to a stock client has ended it there."""
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
        self.passed |= set(self._unsettled())
        self.in_step = True

    def _finish_step(self, chunk: Chunk) -> None:
        if not self.in_step and not self.in_mid_step:
            self.found.append("finish-step without a step")
        self._nothing_open("finish-step")
        self.in_step = self.in_mid_step = False

    def _close(self, chunk: Chunk) -> None:
        self._nothing_open(chunk["type"])
        if self.in_step:
            self.found.append(f"{chunk['type']} inside a step")
        self.ended = chunk["type"]

    def _nothing_open(self, where: str) -> None:
        self.found.extend(f"{kind} {name} is still open at {where}" for name, kind in self.open.items())

    def _unsettled(self) -> list[str]:
        return [call for call, state in self.calls.items() if state not in (Call.GIVEN, Call.SETTLED)]

    def _content(self, chunk: Chunk) -> None:
        kind: str = chunk["type"]
        family, _, phase = kind.rpartition("-")
        if family in ("text", "reasoning"):
            self._span(family, phase, chunk["id"])
        elif kind.startswith("tool-"):
            self._tool(kind, chunk)

    def _span(self, family: str, phase: str, name: str) -> None:
        if not self.in_step and not self.in_mid_step:
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
        state = self.calls.get(call)
        if chunk.get("toolName") in BROWSER:
            self.browser.add(call)
        if kind in ANNOUNCING:
            self._announce(kind, call, state)
        elif state is None:
            self.found.append(f"{kind} for {call}, which was never announced")
        elif state is Call.SETTLED:
            self.found.append(f"{kind} for {call}, which is settled")
        elif kind == "tool-approval-request":
            if state is Call.ASKED:
                self.found.append(f"{call} is asked for again")
            self.calls[call] = Call.ASKED
        elif kind in SETTLING and not chunk.get("preliminary"):
            self.calls[call] = Call.SETTLED

    def _announce(self, kind: str, call: str, state: Call | None) -> None:
        """A call is announced once; one for the browser, that was asked for, is made available after its approval."""
        held = state is Call.BEGUN or (state is Call.ASKED and call in self.browser)
        if state is not None and not (held and kind != "tool-input-start"):
            self.found.append(f"{kind} announces {call} again")
        self.calls[call] = ANNOUNCING[kind]

    def _end(self) -> None:
        if self.ended not in ("finish", "error"):
            self.found.append(f"ends with {self.chunks[-1]['type']} instead of finish or error")
        self._nothing_open("the end")
        unsettled = [call for call in self._unsettled() if call in self.passed or not self._waits(call)]
        self.found.extend(f"call {call} is never settled" for call in unsettled)

    def _waits(self, call: str) -> bool:
        """Return True if a call waits for a person or a browser."""
        return self.calls[call] is Call.ASKED or (self.calls[call] is Call.AVAILABLE and call in self.browser)
