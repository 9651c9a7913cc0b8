"""The tool calls of a message: what each waits for, and what its next event puts on the wire.

What is not in the table leaves a call where it is and emits nothing. Questions and verdicts are ADK's own events; what
those cannot say is in our stamp on them. A bad end is one by failure or abort.

| in phase                  | on            | goes to  | and emits                                            |
|---------------------------|---------------|----------|------------------------------------------------------|
| (none)                    | partial call  | STREAMED | tool-input-start, tool-input-delta                   |
| (none), STREAMED          | call          | RUNNING  | tool-input-available                                 |
| (none), STREAMED          | browser call  | HELD     | tool-input-start, tool-input-delta                   |
| (none), STREAMED          | call cut off  | STREAMED | tool-input-start, tool-input-delta                   |
| HELD                      | pause, offer  | RUNNING  | tool-input-available: the browser may execute it now |
| HELD, RUNNING             | question      | ASKED    | tool-approval-request, data-approval (if it has any) |
| ASKED                     | yes           | APPROVED | tool-approval-response; data-approval (if edited);   |
|                           |               |          | tool-input-available (browser; as edited), but not   |
|                           |               |          | when its output comes with it                        |
| ASKED                     | no            | DENIED   | tool-approval-response                               |
| ASKED                     | expiry        | EXPIRED  | nothing: nobody gave a verdict                       |
| APPROVED (not browser)    | placeholder   | ASKED    | nothing: it was left before it began, and its verdict |
|                           |               |          | is told again                                        |
| DENIED                    | response, end | SETTLED  | tool-output-denied, once no call of the step waits   |
| any other but SETTLED     | response      | SETTLED  | tool-output-available or tool-output-error           |
| any that waits for nobody | end           | SETTLED  | tool-output-error                                    |
| HELD                      | a bad end     | SETTLED  | tool-output-error                                    |

`tool-input-available` is what makes a page execute a browser call. One that is settled while it is held, because a
policy refused it or the run was stopped, or because stored events are read again, never gets it; nor does a call whose
arguments were cut off, of which nobody knows whose it is.

A page that was told of a denial does not send what else it answers in that step: no predicate of the AI SDK knows the
state. So until all of the step is answered a page sees that the answer was no, and not yet what came of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.argument_stream import ArgumentStream
from adkwire.wire.chunks import Chunk, Json
from adkwire.wire.parts import as_text, enum_name, response_of

if TYPE_CHECKING:
    from google.genai import types

ASK = "adk_request_confirmation"
"""The name of ADK's synthetic call that carries a question to the person."""
UNFINISHED = "This call did not finish; its outcome is unknown."

Out: TypeAlias = list[Chunk]
OpenStep: TypeAlias = Callable[[Out], None]
"""Makes sure that a step is open; asked before a call is announced."""


class Phase(Enum):
    """Where a call stands; the table is at the top of this file."""

    STREAMED = auto()
    HELD = auto()
    RUNNING = auto()
    ASKED = auto()
    APPROVED = auto()
    DENIED = auto()
    EXPIRED = auto()
    SETTLED = auto()


@dataclass(slots=True)
class Call:
    """One tool call of the message."""

    id: str
    name: str
    input: Json = None
    phase: Phase = Phase.STREAMED
    browser: bool = False
    ask: str | None = None
    about: dict[str, Json] = field(default_factory=dict[str, Json])
    """What is told about the question beside it."""
    provider: bool = False
    """Whether the model's provider runs it: neither a page nor a person nor ADK has a part in it."""
    arguments: ArgumentStream = field(default_factory=ArgumentStream)

    @property
    def is_offered(self) -> bool:
        """Whether somebody can act on it now. One that is held is yet to be asked about or offered."""
        return self.waits and self.phase is not Phase.HELD

    @property
    def waits(self) -> bool:
        """Whether a person or a browser has to act before it can go on."""
        return self.phase in (Phase.ASKED, Phase.HELD) or (
            self.browser and self.phase in (Phase.RUNNING, Phase.APPROVED)
        )


class Calls:
    """All calls of a message, and those of the step at hand."""

    def __init__(self, open_step: OpenStep) -> None:
        self._open_step = open_step
        self._all: dict[str, Call] = {}
        self._step: list[Call] = []
        self._answered = False
        self._denials: Out = []
        """Those that are not told yet."""

    def begin_step(self) -> None:
        """The calls so far belong to the past."""
        self._step, self._answered = [], False

    @property
    def step_is_over(self) -> bool:
        """Whether a response was seen in this step and no call of it is unanswered."""
        return self._answered and all(call.phase is Phase.SETTLED for call in self._step)

    @property
    def step_waits(self) -> bool:
        """Whether somebody has to act before the message can go on."""
        return any(call.waits for call in self._step)

    @property
    def step_has_calls(self) -> bool:
        """Whether this step called anything."""
        return bool(self._step)

    @property
    def is_held(self) -> bool:
        """Whether some call waits for somebody who can act now, and no other does anything."""
        open_ones = [call for call in self.unsettled() if not call.provider]
        return bool(open_ones) and all(call.is_offered for call in open_ones)

    def running(self) -> list[Call]:
        """Calls that are neither settled nor waiting for someone."""
        return [call for call in self._all.values() if call.phase is not Phase.SETTLED and not call.waits]

    def waiting(self) -> list[Call]:
        """Calls that a person or a browser has to act on."""
        return [call for call in self._all.values() if call.waits]

    def unsettled(self) -> list[Call]:
        """Calls without a result, also those that wait for someone."""
        return [call for call in self._all.values() if call.phase is not Phase.SETTLED]

    def stream(self, fc: "types.FunctionCall", out: Out) -> bool:
        """A piece of a call whose arguments are streamed; says whether it is a new one."""
        if not fc.id or (fc.partial_args is None and fc.will_continue is None and fc.id not in self._all):
            return False
        call, new = self._all.get(fc.id), False
        if call is None:
            if not fc.name:
                return False
            call, new = self._announce(fc.id, fc.name, out), True
            out.append(c.ToolInputStart(tool_call_id=call.id, tool_name=call.name))
        if call.phase is Phase.STREAMED and (delta := call.arguments.add(fc.partial_args or ())):
            out.append(c.ToolInputDelta(tool_call_id=call.id, input_text_delta=delta))
        return new

    def call(self, fc: "types.FunctionCall", *, browser: bool, cut_off: bool, out: Out) -> None:
        """A call as the model made it, whole or cut off."""
        if not fc.id or not fc.name:
            return
        call = self._all.get(fc.id)
        if call is not None and call.phase is not Phase.STREAMED:
            return
        call = call or self._announce(fc.id, fc.name, out)
        call.input = fc.args or {}
        call.browser = browser
        if not (browser or cut_off):
            _make_available(call, out)
            return
        call.phase = Phase.STREAMED if cut_off else Phase.HELD
        # Not `tool-input-available`: that would let the page execute before anyone could ask. Streamed arguments are
        # begun anew, because a question must show all of them.
        out += input_as_text(call.id, call.name, call.input)

    def release(self, out: Out) -> None:
        """Let the browser have the calls that were held for it."""
        for call in self._step:
            if call.phase is Phase.HELD:
                _make_available(call, out)

    def offer(self, call_id: str, out: Out) -> None:
        """Let the browser have one call that was held for it."""
        call = self._all.get(call_id)
        if call is not None and call.phase is Phase.HELD:
            _make_available(call, out)

    def respond(self, fr: "types.FunctionResponse", out: Out, *, bare: bool = False) -> bool:
        """A tool's answer; says whether it was one to a call that had none. A bare one is no object in itself."""
        call = self._all.get(fr.id or "")
        if call is None or call.phase is Phase.SETTLED:
            return False
        if fr.will_continue:
            self.preview(fr, out)
        else:
            self._settle(call, _outcome(call, fr, bare=bare), out)
        return True

    def preview(self, fr: "types.FunctionResponse", out: Out) -> None:
        """A first look at an answer."""
        call = self._all.get(fr.id or "")
        if call is not None and call.phase is not Phase.SETTLED:
            out.append(c.ToolOutputAvailable(tool_call_id=call.id, output=response_of(fr), preliminary=True))

    def ask(self, fc: "types.FunctionCall", stamp: dict[str, Json], out: Out) -> None:
        """ADK's question about a call."""
        question = fc.args or {}
        original: dict[str, Json] = question.get("originalFunctionCall") or {}
        call = self._all.get(original.get("id") or "")
        if call is None or not fc.id or call.phase not in (Phase.HELD, Phase.RUNNING):
            return
        call.phase, call.ask = Phase.ASKED, fc.id
        out.append(c.ToolApprovalRequest(approval_id=fc.id, tool_call_id=call.id))
        asked: dict[str, Json] = question.get("toolConfirmation") or {}
        call.about = {key: asked[key] for key in ("hint", "payload") if asked.get(key)} | stamp
        if call.about:
            out.append(_about(call))

    def decide(self, fr: "types.FunctionResponse", stamp: dict[str, Json], out: Out) -> None:
        """A person's answer to a question, or that none came in time."""
        call = next((call for call in self._all.values() if call.ask == fr.id), None)
        if call is None or call.phase is not Phase.ASKED or fr.id is None:
            return
        if stamp.get("expired") is True:
            call.phase = Phase.EXPIRED
            return
        approved = _is_yes(fr.response or {})
        call.phase = Phase.APPROVED if approved else Phase.DENIED
        reason = stamp.get("reason")
        reason = reason if isinstance(reason, str) and reason else UNSET
        out.append(c.ToolApprovalResponse(approval_id=fr.id, approved=approved, reason=reason))
        if approved:
            self._approve(call, stamp, out)

    def leave(self, call_id: str) -> None:
        """An approved call was left before it began; whoever goes on with it is told the verdict again."""
        call = self._all.get(call_id)
        if call is not None and call.phase is Phase.APPROVED and not call.browser:
            call.phase = Phase.ASKED

    def provided(self, part: "types.Part", out: Out) -> None:
        """A tool that the provider ran itself, its call or its answer. No step waits for it."""
        tool, answer = part.tool_call, part.tool_response
        if tool is not None and tool.id and tool.id not in self._all:
            self._open_step(out)
            call = Call(tool.id, enum_name(tool.tool_type) or "tool", tool.args or {}, Phase.RUNNING, provider=True)
            self._all[call.id] = call
            out.append(
                c.ToolInputAvailable(
                    tool_call_id=call.id, tool_name=call.name, input=call.input, provider_executed=True, dynamic=True
                )
            )
        call = self._all.get(answer.id or "") if answer is not None else None
        if answer is not None and call is not None and call.phase is not Phase.SETTLED:
            call.phase = Phase.SETTLED
            out.append(
                c.ToolOutputAvailable(
                    tool_call_id=call.id, output=answer.response, provider_executed=True, dynamic=True
                )
            )

    def seal(self, out: Out) -> None:
        """Settle what nobody will settle any more."""
        for call in self.running():
            self._settle(call, _sealed(call), out)

    def seal_held(self, out: Out) -> None:
        """Settle what was held for the browser and will not be given to it."""
        for call in self._step:
            if call.phase is Phase.HELD:
                self._settle(call, _sealed(call), out)

    def _announce(self, call_id: str, name: str, out: Out) -> Call:
        self._open_step(out)
        call = self._all[call_id] = Call(call_id, name)
        self._step.append(call)
        return call

    def _approve(self, call: Call, stamp: dict[str, Json], out: Out) -> None:
        if isinstance(edited := stamp.get("edited"), dict):
            call.about = {**call.about, "edited": edited}
            out.append(_about(call))
        if call.browser:
            # Of a call of the server the page keeps what was asked; the browser has to have what it shall execute.
            call.input = call.about.get("edited", call.input)
            if stamp.get("answered") is not True:
                out.append(c.ToolInputAvailable(tool_call_id=call.id, tool_name=call.name, input=call.input))
            elif "edited" in call.about:
                out += input_as_text(call.id, call.name, call.input)

    def _settle(self, call: Call, outcome: Chunk, out: Out) -> None:
        call.phase = Phase.SETTLED
        self._answered = True
        (self._denials if isinstance(outcome, c.ToolOutputDenied) else out).append(outcome)
        if not self.step_waits:
            out += self._denials
            self._denials.clear()


def input_as_text(call_id: str, name: str, arguments: Json) -> Out:
    """The arguments for a page that must not execute the call."""
    return [
        c.ToolInputStart(tool_call_id=call_id, tool_name=name),
        c.ToolInputDelta(tool_call_id=call_id, input_text_delta=as_text(arguments)),
    ]


def _make_available(call: Call, out: Out) -> None:
    call.phase = Phase.RUNNING
    out.append(c.ToolInputAvailable(tool_call_id=call.id, tool_name=call.name, input=call.input))


def _about(call: Call) -> Chunk:
    return c.Data(type="data-approval", id=call.ask or "", data={**call.about, "toolCallId": call.id})


class _Verdict(msgspec.Struct):
    confirmed: bool = False


def _is_yes(response: dict[str, Json]) -> bool:
    """Only a clear yes is one. ADK takes a verdict as it is, or as JSON text in `response`."""
    if response.keys() != {"response"}:
        return response.get("confirmed") is True
    try:
        return msgspec.json.decode(response["response"], type=_Verdict).confirmed
    except (TypeError, ValueError, RecursionError):
        return False


def _sealed(call: Call) -> Chunk:
    if call.phase is Phase.DENIED:
        return c.ToolOutputDenied(tool_call_id=call.id)
    by_provider = call.provider or UNSET
    return c.ToolOutputError(
        tool_call_id=call.id, error_text=UNFINISHED, provider_executed=by_provider, dynamic=by_provider
    )


def _outcome(call: Call, fr: "types.FunctionResponse", *, bare: bool) -> Chunk:
    """What came of a call. `{"error": "..."}` and nothing else is how ADK and our plugin report a failure."""
    if call.phase is Phase.DENIED:
        return c.ToolOutputDenied(tool_call_id=call.id)
    response = fr.response
    if response is not None and len(response) == 1 and isinstance(error := response.get("error"), str):
        return c.ToolOutputError(tool_call_id=call.id, error_text=error)
    output = response_of(fr)
    return c.ToolOutputAvailable(tool_call_id=call.id, output=output.get("result") if bare else output)
