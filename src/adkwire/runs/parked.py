"""Calls that wait while nothing runs: how they look in history, and what a restart makes of them."""

from collections.abc import Iterable, Mapping

from google.adk.events.event import Event
from msgspec import UNSET

from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, OVER, Echo, Given, PendingCall, State
from adkwire.runs.history import Turn
from adkwire.runs.own_events import (
    LOST,
    LooseEnds,
    Response,
    answer_event,
    output_of,
    output_part,
    shapes_of,
    told_of,
    verdict_event,
)
from adkwire.runs.sessions import ChatKey
from adkwire.wire.calls import Phase
from adkwire.wire.decoder import CallAnswer
from adkwire.wire.encoder import Encoder


def loose_ends_of(turn: Turn, encoder: Encoder) -> LooseEnds:
    """The calls of a stored turn: the process that ran it died, or it waits for an answer."""
    author = next((event.author for event in reversed(turn.events) if event.author != "user"), "")
    return LooseEnds(encoder, author, turn.invocation_id, turn.mark)


def given_by(answer: CallAnswer, message: str) -> Given:
    """A stock client's answer, with all it repeats of the call."""
    return Given(
        approved=answer.approved,
        reason=answer.reason or "",
        output=answer.output,
        error=UNSET if answer.error is None else answer.error,
        echo=Echo(message, answer.tool, answer.approval, answer.input),
    )


def untold(encoder: Encoder) -> set[str]:
    """The calls whose verdict the session does not have."""
    return {call.id for call in encoder.waiting() if call.phase is Phase.ASKED}


def sealed_since(turn: Turn, encoder: Encoder, calls: Mapping[str, PendingCall]) -> list[Event]:
    """Answers, not in the session yet, for the calls of a turn that nobody can answer any more."""
    waiting = {call.id for call in encoder.waiting()}
    known: dict[str, Response] = {}
    for call, _ in encoder.unsettled_calls():
        record = calls.get(call)
        told = told_of(record) if record is not None else ({"error": LOST} if call in waiting else None)
        known |= {call: told} if told is not None else {}
    return loose_ends_of(turn, encoder).sealed(known, otherwise=None, running=False)


def answered_since(turn: Turn, encoder: Encoder, calls: Mapping[str, PendingCall]) -> list[Event]:
    """Answers that are not in the session yet, because those to other calls of the step are still awaited."""
    events: list[Event] = []
    asked = untold(encoder)
    for waiting in encoder.waiting():
        call = calls.get(waiting.id)
        if call is None or call.answer is None or call.state in OVER:
            continue
        if call.call in asked:
            events.append(verdict_event(call, turn.mark))
        if call.browser and output_of(call) is not None:
            events.append(answer_event(call, output_part(call), {**turn.mark, **shapes_of([call])}))
    return events


async def recover(gate: ToolGate, key: ChatKey, encoder: Encoder | None) -> None:
    """This process meets a chat: what another one was doing when it ended is over, and is told as it is."""
    waiting = {call.id for call in encoder.waiting()} if encoder is not None else set[str]()
    unsettled = {call for call, _ in encoder.unsettled_calls()} if encoder is not None else set[str]()
    asked = untold(encoder) if encoder is not None else set[str]()
    for call in await gate.of(*key):
        if call.worker == gate.worker or call.state in OVER:
            continue
        if call.state not in OPEN and call.call not in unsettled:
            ran = "executed" if call.state is State.EXECUTING else "not executed"
            await gate.finish(*key, call.call, "answered" if call.browser else ran)
        elif call.state is State.EXECUTING or (call.executes and call.call not in asked):
            await gate.abandon(*key, call.call, "interrupted")
        elif call.state is State.ANSWERED and call.call in asked and not (call.answer and call.answer.has_output):
            await gate.reopen(call)
        elif call.state is State.ANSWERED and not call.browser:
            await gate.finish(*key, call.call, "not executed")
        elif call.state in OPEN and call.call not in waiting:
            await gate.abandon(*key, call.call, "interrupted")
        elif call.state in OPEN and call.live:
            await gate.park(call)


def responses_of(calls: Iterable[PendingCall]) -> dict[str, Response]:
    """What the agent is told about calls that are over and were not executed; outputs a browser gave are kept."""
    return {call.call: told for call in calls if (told := told_of(call)) is not None}
