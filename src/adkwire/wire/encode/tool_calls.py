"""The tool calls of a message: the phase of each call, and the chunks of every change of phase.

What is not in the table changes nothing and emits nothing. Approval requests (*question*) and their answers are ADK's
own events; what ADK's events cannot carry is in our stamp on them. A *bad end* is a failure or an abort.

| in phase                  | on            | goes to  | and emits                                              |
|---------------------------|---------------|----------|--------------------------------------------------------|
| (none)                    | partial call  | STREAMED | tool-input-start, tool-input-delta                     |
| (none), STREAMED          | call          | RUNNING  | tool-input-available                                   |
| (none), STREAMED          | browser call  | WITHHELD | tool-input-start, tool-input-delta                     |
| (none), STREAMED          | call cut off  | STREAMED | tool-input-start, tool-input-delta                     |
| WITHHELD                  | pause, offer  | RUNNING  | tool-input-available: the browser may execute it now   |
| WITHHELD, RUNNING         | question      | ASKED    | tool-approval-request, data-approval (if it has any)   |
| ASKED                     | yes           | APPROVED | tool-approval-response; data-approval (if edited);     |
|                           |               |          | tool-input-available (browser call, with edited        |
|                           |               |          | arguments), unless its output comes with the yes       |
| ASKED                     | no            | DENIED   | tool-approval-response                                 |
| ASKED                     | expiry        | EXPIRED  | nothing: nobody has answered                           |
| APPROVED (not browser)    | placeholder   | ASKED    | nothing: it was not started, and its yes is sent again |
| DENIED                    | response, end | SETTLED  | tool-output-denied, once no call of the step is pending|
| any other but SETTLED     | response      | SETTLED  | tool-output-available or tool-output-error             |
| any that is not pending   | end           | SETTLED  | tool-output-error                                      |
| WITHHELD                  | a bad end     | SETTLED  | tool-output-error                                      |

`tool-input-available` makes a page execute a browser call. A call that is settled while it is withheld never gets that
chunk: a policy has refused it, the run was stopped, or stored events are read again. Nor does a call whose arguments
were cut off, because it is not known whether it is a browser call.

A page that gets `tool-output-denied` does not send its other answers of that step, because no predicate of the AI SDK
counts that state as answered. So while a call of the step is pending, a page sees only that another call was denied
(`approval-responded`); the `tool-output-denied` follows later.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec
from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json, json_text
from adkwire.wire.encode.argument_stream import ArgumentStream
from adkwire.wire.encode.event_parts import enum_name

if TYPE_CHECKING:
    from google.genai import types

REQUEST_CONFIRMATION = "adk_request_confirmation"
"""The name of ADK's synthetic call that asks a person to approve another call."""
UNFINISHED = "This call did not finish; its outcome is unknown."
"""The error text of a call that was sealed."""
_SCALARS = frozenset({str, int, float, bool})

Out: TypeAlias = list[Chunk]


class Phase(Enum):
    """The phases of a call; the table is at the top of this file."""

    STREAMED = auto()
    WITHHELD = auto()
    RUNNING = auto()
    ASKED = auto()
    APPROVED = auto()
    DENIED = auto()
    EXPIRED = auto()
    SETTLED = auto()


@dataclass(slots=True)
class ToolCall:
    """One tool call of a message."""

    id: str
    name: str
    input: Json = None
    phase: Phase = Phase.STREAMED
    browser: bool = False
    """True when the browser executes it."""
    approval_id: str | None = None
    """The id of its approval request, once it has one."""
    approval_data: dict[str, Json] = field(default_factory=dict[str, Json])
    """The content of its `data-approval` chunk: what the page shows beside the approval request."""
    provider: bool = False
    """True when the model's provider executes it, so that neither ADK nor a page nor a person answers it."""
    arguments: ArgumentStream = field(default_factory=ArgumentStream)

    @property
    def is_answerable(self) -> bool:
        """True when a person or a browser can answer it now: it has been asked about or offered."""
        return self.is_pending and self.phase is not Phase.WITHHELD

    @property
    def is_pending(self) -> bool:
        """True when it waits for a person or a browser."""
        return self.phase in (Phase.ASKED, Phase.WITHHELD) or (
            self.browser and self.phase in (Phase.RUNNING, Phase.APPROVED)
        )


class ToolCalls:
    """The calls of a message; `step_` is about those of the current step."""

    def __init__(self, open_step: Callable[[Out], None]) -> None:
        self._open_step = open_step
        self._all: dict[str, ToolCall] = {}
        self._step: list[ToolCall] = []
        self._answered = False
        """True once a call of the current step has its response."""
        self._denials: Out = []
        """The `tool-output-denied` chunks that wait until no call of the step is pending."""

    def begin_step(self) -> None:
        """Begin a step that has no calls yet."""
        self._step, self._answered = [], False

    @property
    def step_is_over(self) -> bool:
        """True when the step has a response and all of its calls are settled."""
        return self._answered and all(call.phase is Phase.SETTLED for call in self._step)

    @property
    def step_waits(self) -> bool:
        """True when a call of the step is pending."""
        return any(call.is_pending for call in self._step)

    @property
    def step_has_calls(self) -> bool:
        """True when the step has calls."""
        return bool(self._step)

    @property
    def is_waiting(self) -> bool:
        """True when there are unsettled calls and somebody can answer each of them now."""
        open_ones = [call for call in self.unsettled() if not call.provider]
        return bool(open_ones) and all(call.is_answerable for call in open_ones)

    def running(self) -> list[ToolCall]:
        """Return the calls that are neither settled nor pending."""
        return [call for call in self._all.values() if call.phase is not Phase.SETTLED and not call.is_pending]

    def pending(self) -> list[ToolCall]:
        """Return the calls that wait for a person or a browser."""
        return [call for call in self._all.values() if call.is_pending]

    def unsettled(self) -> list[ToolCall]:
        """Return the calls without a result, running or pending."""
        return [call for call in self._all.values() if call.phase is not Phase.SETTLED]

    def stream(self, fc: "types.FunctionCall", out: Out) -> bool:
        """Add a piece of a call whose arguments are streamed; return True if the call is new."""
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
        """Add a call of a complete event; `cut_off` when an interruption has cut off its arguments."""
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
        call.phase = Phase.STREAMED if cut_off else Phase.WITHHELD
        # Not `tool-input-available`: the page would execute the call before an approval request can come. Streamed
        # arguments begin again, because an approval request must show all of them.
        out += input_as_text(call.id, call.name, call.input)

    def offer_all(self, out: Out) -> None:
        """Let the browser execute all withheld calls of the step."""
        for call in self._step:
            if call.phase is Phase.WITHHELD:
                _make_available(call, out)

    def offer(self, call_id: str, out: Out) -> None:
        """Let the browser execute a withheld call."""
        call = self._all.get(call_id)
        if call is not None and call.phase is Phase.WITHHELD:
            _make_available(call, out)

    def respond(self, fr: "types.FunctionResponse", out: Out, *, bare: bool = False) -> bool:
        """Settle a call with its response; return False if the call is unknown or settled already.

        A `bare` response is a value that is not an object, which ADK keeps as `{"result": value}`.
        """
        call = self._all.get(fr.id or "")
        if call is None or call.phase is Phase.SETTLED:
            return False
        if fr.will_continue:
            self.preview(fr, out)
        else:
            self._settle(call, _outcome(call, fr, bare=bare), out)
        return True

    def preview(self, fr: "types.FunctionResponse", out: Out) -> None:
        """Show a preliminary result of a call."""
        call = self._all.get(fr.id or "")
        if call is not None and call.phase is not Phase.SETTLED:
            out.append(c.ToolOutputAvailable(tool_call_id=call.id, output=_json_response(fr), preliminary=True))

    def ask(self, fc: "types.FunctionCall", stamp: dict[str, Json], out: Out) -> None:
        """Take ADK's approval request for a call."""
        request = fc.args or {}
        original: dict[str, Json] = request.get("originalFunctionCall") or {}
        call = self._all.get(original.get("id") or "")
        if call is None or not fc.id or call.phase not in (Phase.WITHHELD, Phase.RUNNING):
            return
        call.phase, call.approval_id = Phase.ASKED, fc.id
        out.append(c.ToolApprovalRequest(approval_id=fc.id, tool_call_id=call.id))
        confirmation: dict[str, Json] = request.get("toolConfirmation") or {}
        call.approval_data = {key: confirmation[key] for key in ("hint", "payload") if confirmation.get(key)} | stamp
        if call.approval_data:
            out.append(_approval_data(call))

    def decide(self, fr: "types.FunctionResponse", stamp: dict[str, Json], out: Out) -> None:
        """Take the answer to an approval request, or its expiry."""
        call = next((call for call in self._all.values() if call.approval_id == fr.id), None)
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

    def take_back(self, call_id: str) -> None:
        """Take back the approval of a call that was not started; ADK sends the approval again when it goes on."""
        call = self._all.get(call_id)
        if call is not None and call.phase is Phase.APPROVED and not call.browser:
            call.phase = Phase.ASKED

    def add_provider_part(self, part: "types.Part", out: Out) -> None:
        """Add the call or the response of a tool that the model's provider executes. No step waits for it."""
        tool, answer = part.tool_call, part.tool_response
        if tool is not None and tool.id and tool.id not in self._all:
            self._open_step(out)
            call = ToolCall(tool.id, enum_name(tool.tool_type) or "tool", tool.args or {}, Phase.RUNNING, provider=True)
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
        """Settle the calls that are still running: nobody will answer them any more."""
        for call in self.running():
            self._settle(call, _sealed(call), out)

    def seal_withheld(self, out: Out) -> None:
        """Settle the withheld calls of the step, which the browser will not get."""
        for call in self._step:
            if call.phase is Phase.WITHHELD:
                self._settle(call, _sealed(call), out)

    def _announce(self, call_id: str, name: str, out: Out) -> ToolCall:
        self._open_step(out)
        call = self._all[call_id] = ToolCall(call_id, name)
        self._step.append(call)
        return call

    def _approve(self, call: ToolCall, stamp: dict[str, Json], out: Out) -> None:
        if isinstance(edited := stamp.get("edited"), dict):
            call.approval_data = {**call.approval_data, "edited": edited}
            out.append(_approval_data(call))
        if call.browser:
            # A page shows the original arguments of a server's call, but must execute a browser call as edited.
            call.input = call.approval_data.get("edited", call.input)
            if stamp.get("answered") is not True:
                out.append(c.ToolInputAvailable(tool_call_id=call.id, tool_name=call.name, input=call.input))
            elif "edited" in call.approval_data:
                out += input_as_text(call.id, call.name, call.input)

    def _settle(self, call: ToolCall, outcome: Chunk, out: Out) -> None:
        call.phase = Phase.SETTLED
        self._answered = True
        (self._denials if isinstance(outcome, c.ToolOutputDenied) else out).append(outcome)
        if not self.step_waits:
            out += self._denials
            self._denials.clear()


def input_as_text(call_id: str, name: str, arguments: Json) -> Out:
    """Return the arguments as text, for a page that must not execute the call."""
    return [
        c.ToolInputStart(tool_call_id=call_id, tool_name=name),
        c.ToolInputDelta(tool_call_id=call_id, input_text_delta=json_text(arguments)),
    ]


def for_late_reader(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks of stored events for a reader that joins late, who must not execute settled calls again.

    Their `tool-input-available`, which makes a page execute a call, is replaced by the same arguments as text.
    """
    chunks = list(chunks)
    outputs = (c.ToolOutputAvailable, c.ToolOutputError, c.ToolOutputDenied)
    settled = {chunk.tool_call_id for chunk in chunks if isinstance(chunk, outputs)}
    return [replaced for chunk in chunks for replaced in _not_executable(chunk, settled)]


def _not_executable(chunk: Chunk, settled: set[str]) -> list[Chunk]:
    is_input = isinstance(chunk, c.ToolInputAvailable)
    if not is_input or chunk.tool_call_id not in settled or chunk.provider_executed is True:
        return [chunk]
    return input_as_text(chunk.tool_call_id, chunk.tool_name, chunk.input)


def _make_available(call: ToolCall, out: Out) -> None:
    call.phase = Phase.RUNNING
    out.append(c.ToolInputAvailable(tool_call_id=call.id, tool_name=call.name, input=call.input))


def _approval_data(call: ToolCall) -> Chunk:
    data = {**call.approval_data, "toolCallId": call.id}
    return c.Data(type="data-approval", id=call.approval_id or "", data=data)


class _Verdict(msgspec.Struct):
    confirmed: bool = False


def _is_yes(response: dict[str, Json]) -> bool:
    """Return True for a clear yes only. ADK takes an answer as an object, or as JSON text in `response`."""
    if response.keys() != {"response"}:
        return response.get("confirmed") is True
    try:
        return msgspec.json.decode(response["response"], type=_Verdict).confirmed
    except (TypeError, ValueError, RecursionError):
        return False


def _sealed(call: ToolCall) -> Chunk:
    if call.phase is Phase.DENIED:
        return c.ToolOutputDenied(tool_call_id=call.id)
    by_provider = call.provider or UNSET
    return c.ToolOutputError(
        tool_call_id=call.id, error_text=UNFINISHED, provider_executed=by_provider, dynamic=by_provider
    )


def _outcome(call: ToolCall, fr: "types.FunctionResponse", *, bare: bool) -> Chunk:
    """Return the chunk of a call's response. ADK and our plugin report a failure as `{"error": "..."}` alone."""
    if call.phase is Phase.DENIED:
        return c.ToolOutputDenied(tool_call_id=call.id)
    response = fr.response
    if response is not None and len(response) == 1 and isinstance(error := response.get("error"), str):
        return c.ToolOutputError(tool_call_id=call.id, error_text=error)
    output = _json_response(fr)
    return c.ToolOutputAvailable(tool_call_id=call.id, output=output.get("result") if bare else output)


def _json_response(fr: "types.FunctionResponse") -> Json:
    """Return a tool's response as JSON, as the session will hold it, whatever Python objects it is made of."""
    try:
        return fr.response if _is_json(fr.response) else fr.model_dump(mode="json", exclude_none=True)["response"]
    except (ValueError, RecursionError):
        return fr.response  # It is no JSON: `encode_chunk` sends what it can.


def _is_json(value: object) -> bool:
    kind = type(value)
    if kind is dict:
        return all(map(_is_json, cast("dict[str, object]", value).values()))
    if kind is list:
        return all(map(_is_json, cast("list[object]", value)))
    return value is None or kind in _SCALARS
