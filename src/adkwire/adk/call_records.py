"""The calls of runs: their records at the gate, and what is kept of them until ADK has stored it."""

import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import msgspec
from google.adk.events.event import Event
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkwire.adk.events import Response
from adkwire.adk.live_model import SUPERVISION
from adkwire.adk.stamps import add_stamp
from adkwire.errors import RequestError
from adkwire.gate.client_tool import ClientTool
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Decision
from adkwire.gate.records import CallRecord, State, hash_args
from adkwire.stores.base import ChatKey
from adkwire.wire.encode.outcome import ABORTED
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION
from adkwire.wire.javascript import iso

logger = logging.getLogger("adkwire")

ASKED_AGAIN = "The tool asked a second time after it was approved, which cannot be answered."


class CallOrigin(NamedTuple):
    """The chat, message and invocation that a call belongs to."""

    key: ChatKey
    message: str
    invocation: str
    branch: str | None
    stamp: dict[str, Any]


@dataclass
class SeenCall:
    """A call as it was when its tool was about to run, and what the policy decided about it."""

    origin: CallOrigin
    tool: BaseTool
    args: dict[str, Any]
    decision: Decision


@dataclass
class RunState:
    """What is kept of a run, or of a turn of a live run, until it ends."""

    seen: dict[str, SeenCall] = field(default_factory=dict[str, SeenCall])
    """The calls of the run, by their ids."""
    results: dict[str, Response] = field(default_factory=dict[str, Response])
    """Results of calls that ADK has not stored yet."""
    began: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """When the first partial event of a text was shown, by branch and source."""


class RunRecords:
    """What is kept of the runs of this process, for the events that ADK stores of them."""

    def __init__(self, gate: ToolGate) -> None:
        self._gate = gate
        self._runs: dict[str, RunState] = {}

    def of_run(self, invocation: str) -> RunState:
        """Return what is kept of a run; nothing at first."""
        return self._runs.setdefault(invocation, RunState())

    def forget(self, invocation: str) -> None:
        """Drop what is kept of a run that has ended."""
        self._runs.pop(invocation, None)

    def result_of(self, invocation: str, call: str) -> Response | None:
        """Return the result of a call that ADK has not stored."""
        state = self._runs.get(invocation)
        return state.results.get(call) if state is not None else None

    async def prepare(self, event: Event, *, live: bool) -> None:
        """Complete an event before it is stored: when it began to be shown, its questions, results of its calls."""
        self._stamp_beginning(event, live=live)
        if event.partial:
            return
        if event.error_code == ABORTED and event.content is not None:
            kept = [part for part in event.content.parts or () if not self._answers_pending_call(event, part)]
            event.content = event.content.model_copy(update={"parts": kept}) if kept else None
        asks: dict[str, Any] = {}
        for part in (event.content.parts if event.content is not None else None) or ():
            if part.function_call is not None and part.function_call.name == REQUEST_CONFIRMATION:
                asks |= await self._asked(event, part.function_call)
            elif part.function_response is not None:
                self._responded(event, part.function_response)
        if asks:
            event.custom_metadata = add_stamp(event.custom_metadata, {"asks": asks})

    def _stamp_beginning(self, event: Event, *, live: bool) -> None:
        """Stamp a complete event with the time at which the first of its text was shown.

        Agents side by side are stored in the order they end and shown in the order they begin; and so is what a live
        model says while something else happens.
        """
        source = _source_of(event, live=live)
        if source is None:
            return
        if event.partial:
            self.of_run(event.invocation_id).began.setdefault(source, event.timestamp)
            return
        state = self._runs.get(event.invocation_id)
        if state is not None and (at := state.began.pop(source, None)) is not None:
            event.custom_metadata = add_stamp(event.custom_metadata, {"at": at})

    async def _asked(self, event: Event, request: types.FunctionCall) -> dict[str, Any]:
        """Open the record of a question; return what the page learns about it beyond ADK's own event."""
        original: dict[str, Any] = (request.args or {}).get("originalFunctionCall") or {}
        seen = self._seen(event, original.get("id"))
        if seen is None or request.id is None:
            return {}
        try:
            call = await self._gate.open(asked_call(seen, request, event.branch), seen.decision.timeout)
        except RequestError as error:
            logger.warning("a question could not be recorded: %s", error.message)
            return {}
        return {request.id: about_approval_request(call)}

    def _responded(self, event: Event, response: types.FunctionResponse) -> None:
        """Drop the result of a call whose response is about to be stored."""
        state = self._runs.get(event.invocation_id)
        result = state.results.pop(response.id or "", None) if state is not None else None
        if result is not None and event.error_code == ABORTED:
            # Stopped while a sibling still ran: ADK writes "aborted" for a call that had ended well.
            response.response = result

    def _answers_pending_call(self, event: Event, part: types.Part) -> bool:
        """Return whether a part of an aborted run responds to a question or to a call that was asked about.

        Neither was executed; the end of the run seals the call."""
        response = part.function_response
        seen = self._seen(event, response.id) if response is not None else None
        return response is not None and (
            response.name == REQUEST_CONFIRMATION or (seen is not None and seen.decision.action == "ask")
        )

    def _seen(self, event: Event, call: str | None) -> SeenCall | None:
        """Return a call of the run that an event belongs to."""
        state = self._runs.get(event.invocation_id)
        return state.seen.get(call or "") if state is not None else None


def _source_of(event: Event, *, live: bool) -> tuple[str, str] | None:
    """Return what a complete event shares with the partial events of its text, where that decides about their order."""
    if not live:
        return (event.branch, "") if event.branch is not None else None
    parts = (event.content.parts if event.content is not None else None) or ()
    if event.output_transcription is not None or event.input_transcription is not None:
        kind = "output transcript" if event.output_transcription is not None else "input transcript"
    elif parts and parts[0].text:
        kind = "thought" if parts[0].thought else "text"
    else:
        return None
    supervision = SUPERVISION.get()
    connection = supervision.losses if supervision is not None else 0
    return event.branch or "", f"{kind} by {event.author} on {connection}"


def offered_call(seen: SeenCall, call_id: str) -> CallRecord:
    """Return the record of a call that the browser executes without an approval."""
    tool, origin = seen.tool, seen.origin
    return CallRecord(
        user=origin.key.user,
        chat=origin.key.chat,
        call=call_id,
        message=origin.message,
        tool=tool.name,
        state=State.OFFERED,
        input=seen.args,
        args_hash=hash_args(seen.args),
        browser=isinstance(tool, ClientTool),
        parameters=schema_of(tool),
        output=tool.output if isinstance(tool, ClientTool) else None,
        retry=seen.decision.retry,
        invocation=origin.invocation,
        branch=origin.branch,
    )


def asked_call(seen: SeenCall, request: types.FunctionCall, branch: str | None) -> CallRecord:
    """Return the record of a call that a person is asked about, as the question puts it."""
    about = request.args or {}
    original: dict[str, Any] = about["originalFunctionCall"]
    confirmation: dict[str, Any] = about.get("toolConfirmation") or {}
    by_gate = seen.decision.action == "ask"
    return msgspec.structs.replace(
        offered_call(seen, original["id"]),
        state=State.ASKED,
        ask=request.id,
        input=original.get("args") or {},
        hint=confirmation.get("hint") or "",
        payload=confirmation.get("payload"),
        # A tool that asks from inside would ask again whatever was granted.
        grant=seen.decision.grant if by_gate else "never",
        branch=branch,
    )


def about_approval_request(call: CallRecord) -> dict[str, Any]:
    """Return what a client learns about a question beyond ADK's own event: scopes of a yes, and when it expires."""
    expiry = {"expiresAt": iso(call.expires_at)} if call.expires_at is not None else {}
    return {"scopes": list(call.scopes), **expiry}


def schema_of(tool: BaseTool) -> dict[str, Any] | None:
    """Return the JSON schema of a tool's arguments, as its declaration has it."""
    if isinstance(tool, ClientTool):
        return tool.parameters
    declaration = tool._get_declaration()  # pyright: ignore[reportPrivateUsage] - there is no public way
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        return cast("dict[str, Any]", declaration.parameters_json_schema)
    if declaration.parameters is None:
        return {"type": "object", "properties": {}}
    return declaration.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)


def executed_result(tool: BaseTool, call: CallRecord, context: ToolContext, result: object) -> dict[str, Any]:
    """Return the result of an approved call in the form that model and page read."""
    if context.actions.requested_tool_confirmations.pop(call.call, None) is not None:
        # ADK asks once for a call; a second question would never be seen.
        return {"error": ASKED_AGAIN}
    # Of a long-running tool ADK would store nothing, and the model would read that the call still asks.
    response = {"status": "begun"} if tool.is_long_running and not result else as_object(result)
    edited = call.answer.args if call.answer is not None else None
    return response if edited is None or set(response) == {"error"} else {**response, "edited_arguments": edited}


def as_object(result: object) -> dict[str, Any]:
    """Return a tool's result as the object that ADK makes of it."""
    return cast("dict[str, Any]", result if isinstance(result, dict) else {"result": result})
