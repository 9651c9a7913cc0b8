"""GatePlugin: what adkwire does inside ADK's runs, for every agent of the tree and without touching it.

It decides what happens to each call before the tool sees it, asks where a person has to be asked, lets an approved
call run once, and keeps a raising tool from ending the run.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkwire.errors import RequestError
from adkwire.gate.client_tool import ClientTool
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Decision
from adkwire.gate.records import PendingCall, State, bind
from adkwire.runs.history import marked
from adkwire.runs.own_events import refusal_of
from adkwire.runs.sessions import ChatKey, MarkedSessions
from adkwire.wire.calls import ASK
from adkwire.wire.encoder import ABORTED
from adkwire.wire.javascript import iso

logger = logging.getLogger("adkwire")

_PLACEHOLDER = "This tool call requires confirmation, please approve or reject."
_FORBIDDEN = "The policy of this server does not allow this call; it was not executed."
_NOT_RELEASED = "This call was answered before or is no longer allowed; it was not executed."
_BEGUN = "This call was begun before and is not executed again; what came of it is unknown here."
_NO_PAUSE = "This call waits for a person or a browser, which an agent inside a tool cannot do; it was not executed."
_UNTOLD = "Whether this call needs an approval could not be told; it was not executed."
_ASKED_AGAIN = "The tool asked a second time after it was approved, which cannot be answered."
_NO_STORE = "The server cannot ask for an approval now; the call was not executed."


class _Place(NamedTuple):
    """Whose call, in which chat, for which message."""

    key: ChatKey
    message: str
    invocation: str
    branch: str | None


@dataclass
class _Seen:
    """What the plugin knows of a call from when it first came by."""

    place: _Place
    tool: BaseTool
    args: dict[str, Any]
    decision: Decision


class GatePlugin(BasePlugin):
    """Stands between the model's calls and the tools."""

    def __init__(self, gate: ToolGate, sessions: MarkedSessions, *, detail: bool) -> None:
        super().__init__(name="adkwire")
        self._gate = gate
        self._sessions = sessions
        self._detail = detail
        self._began: dict[tuple[str, str], float] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._executing: dict[tuple[str, str], PendingCall] = {}
        self._results: dict[tuple[str, str], dict[str, Any]] = {}

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Decide about a call; what is returned is its answer, and the tool does not run."""
        try:
            if tool_context.tool_confirmation is not None:
                return await self._resume(tool_args, tool_context, tool_context.tool_confirmation)
            return await self._first(tool, tool_args, tool_context)
        except RequestError as error:
            logger.warning("call of %s not decided: %s", tool.name, error.message)
            return {"error": _NO_STORE}

    async def _first(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
        place = self._place(context)
        asks = await _asks(tool, args, context)
        if asks is None:
            return {"error": _UNTOLD}
        decision = await self._gate.decide(*_chat_of(context), tool.name, args, asks=asks)
        seen = _Seen(place, tool, dict(args), decision) if place is not None else None
        if seen is not None:
            self._seen[_id(context)] = seen
        if decision.action == "deny":
            await self._note(seen, context, "forbidden", "not executed")
            return {"error": f"{_FORBIDDEN} {decision.reason or ''}".rstrip()}
        if decision.action == "allow" and asks:
            await self._note(seen, context, "allowed", decision.rule)
            context.tool_confirmation = ToolConfirmation(confirmed=True)
        waits = decision.action == "ask" or isinstance(tool, ClientTool)
        if not waits:
            return None
        if seen is None:
            return {"error": _NO_PAUSE}
        if decision.action == "ask":
            context.request_confirmation(hint=decision.hint or "")
            context.actions.skip_summarization = True
            return {"error": _PLACEHOLDER}
        return None

    async def _resume(
        self, args: dict[str, Any], context: ToolContext, verdict: ToolConfirmation
    ) -> dict[str, Any] | None:
        """A call whose verdict has come: execute it if, and only if, its record lets this one do so."""
        user, chat = _chat_of(context)
        call_id = context.function_call_id or ""
        if not verdict.confirmed:
            call = await self._gate.get(user, chat, call_id)
            await self._gate.finish(user, chat, call_id, "not executed")
            return refusal_of(call)
        call = await self._gate.claim(user, chat, call_id, args)
        if call is None:
            now = await self._gate.get(user, chat, call_id)
            begun = now is not None and (
                now.state is State.EXECUTING or now.outcome in ("executed", "failed", "unknown")
            )
            return {"error": _BEGUN if begun else _NOT_RELEASED}
        self._executing[_id(context)] = call
        edited = call.answer.args if call.answer is not None else None
        if edited is not None:
            args.clear()
            args.update(edited)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: object
    ) -> dict[str, Any] | None:
        """Keep a result as soon as it is there: ADK stores those of parallel calls only when all have ended."""
        place = _id(tool_context)
        call = self._executing.pop(place, None)
        if call is not None:
            given = _executed(tool, call, tool_context, result)
            self._results[place] = given
            await self._finished(call, "failed" if set(given) == {"error"} else "executed")
            # What is returned keeps the agent's own callbacks from seeing the result, so only a changed one is.
            return None if given is result else given
        if tool.is_long_running and not result:
            return await self._awaited(place)
        if place[1] not in tool_context.actions.requested_tool_confirmations:
            self._results[place] = _as_object(result)
        return None

    async def _awaited(self, place: tuple[str, str]) -> dict[str, Any] | None:
        """A long-running tool that gave nothing: its result comes from outside, as a rule from the browser."""
        seen = self._seen.get(place)
        if seen is not None:
            try:
                call = msgspec.structs.replace(_offered(seen, place[1]), browser=True)
                await self._gate.open(call, seen.decision.timeout)
            except RequestError as error:
                logger.warning("a call could not be offered: %s", error.message)
                return {"error": _NO_STORE}
        return None

    async def _finished(self, call: PendingCall, outcome: str) -> None:
        try:
            await self._gate.finish(call.user, call.chat, call.call, outcome)
        except RequestError as error:
            # The result itself goes on to the agent; only the record keeps saying that the call runs.
            logger.warning("the end of call %s could not be recorded: %s", call.call, error.message)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> dict[str, Any]:
        """Turn the exception into an answer; its words only where the settings let them out."""
        name = type(error).__name__
        if not isinstance(error, asyncio.CancelledError):
            logger.warning("tool %s raised %s", tool.name, name, exc_info=error)
        return {"error": f"{name}: {error}" if self._detail and str(error) else f"The tool failed ({name})."}

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Open the gate for a question before it is stored, and see to it that what is stored is what happened."""
        if event.partial:
            if event.branch is not None:
                self._began.setdefault((event.invocation_id, event.branch), event.timestamp)
            return
        if event.branch is not None and (at := self._began.pop((event.invocation_id, event.branch), None)) is not None:
            # Agents side by side are stored in the order they end and shown in the order they begin.
            event.custom_metadata = marked(event.custom_metadata, {"at": at})
        if event.error_code == ABORTED and event.content is not None:
            kept = [part for part in event.content.parts or () if not self._is_unasked(event, part)]
            event.content = event.content.model_copy(update={"parts": kept}) if kept else None
        asks: dict[str, Any] = {}
        for part in (event.content.parts if event.content is not None else None) or ():
            if part.function_call is not None and part.function_call.name == ASK:
                asks |= await self._asked(event, part.function_call)
            elif part.function_response is not None:
                self._responded(event, part.function_response)
        if asks:
            event.custom_metadata = marked(event.custom_metadata, {"asks": asks})

    async def _asked(self, event: Event, question: types.FunctionCall) -> dict[str, Any]:
        """Open the gate for a question; what the page should know about it beyond ADK's words."""
        original: dict[str, Any] = (question.args or {}).get("originalFunctionCall") or {}
        seen = self._seen.get((event.invocation_id, original.get("id") or ""))
        if seen is None or question.id is None:
            return {}
        try:
            call = await self._gate.open(_asked_call(seen, question, event.branch), seen.decision.timeout)
        except RequestError as error:
            logger.warning("a question could not be recorded: %s", error.message)
            return {}
        expiry = {"expiresAt": iso(call.expires_at)} if call.expires_at is not None else {}
        return {question.id: {"scopes": list(call.scopes), **expiry}}

    def _responded(self, event: Event, response: types.FunctionResponse) -> None:
        known = self._results.pop((event.invocation_id, response.id or ""), None)
        if known is not None and event.error_code == ABORTED:
            # Stopped while a sibling still ran: ADK says "aborted" of a call that had ended well.
            response.response = known

    def _is_unasked(self, event: Event, part: types.Part) -> bool:
        """Whether an aborted run says something of a question, or of a call that was asked about: neither ran, and
        what is to be said about the call is said by the run."""
        response = part.function_response
        seen = self._seen.get((event.invocation_id, response.id or "")) if response is not None else None
        return response is not None and (response.name == ASK or (seen is not None and seen.decision.action == "ask"))

    def result_of(self, invocation_id: str, call_id: str) -> dict[str, Any] | None:
        """What a call gave that ADK has not stored."""
        return self._results.get((invocation_id, call_id))

    def forget(self, invocation_id: str) -> None:
        """Drop what a run has left behind."""
        for known in (self._began, self._seen, self._executing, self._results):
            for place in [place for place in known if place[0] == invocation_id]:
                del known[place]

    def _place(self, context: ToolContext) -> _Place | None:
        """Where a call comes from; None inside an AgentTool, whose run has a session of its own and cannot pause."""
        run = context.get_invocation_context()
        if run.session_service is not self._sessions:
            return None
        key = ChatKey(*_chat_of(context))
        mark = self._sessions.mark(key)
        return _Place(key, mark.get("message", ""), run.invocation_id, run.branch) if mark is not None else None

    async def _note(self, seen: _Seen | None, context: ToolContext, verdict: str, outcome: str) -> None:
        if seen is not None:
            await self._gate.note(_offered(seen, context.function_call_id or ""), verdict, outcome, "policy")


def _id(context: ToolContext) -> tuple[str, str]:
    return context.get_invocation_context().invocation_id, context.function_call_id or ""


def _chat_of(context: ToolContext) -> tuple[str, str]:
    run = context.get_invocation_context()
    return run.user_id, run.session.id


async def _asks(tool: BaseTool, args: dict[str, Any], context: ToolContext) -> bool | None:
    """Whether the tool itself wants a person asked; None when it fails to tell. ADK asks it again before it lets an
    approved call run, so a question would lead nowhere."""
    try:
        if isinstance(tool, ClientTool):
            return await tool.asks(args, context)
        return await tool.check_require_confirmation(args, context) is True
    except Exception as error:
        logger.warning("whether %s asks could not be told: %s", tool.name, type(error).__name__, exc_info=error)
        return None


def _offered(seen: _Seen, call_id: str) -> PendingCall:
    """The record of a call that goes to the browser unasked."""
    tool, place = seen.tool, seen.place
    return PendingCall(
        user=place.key.user,
        chat=place.key.chat,
        call=call_id,
        message=place.message,
        tool=tool.name,
        state=State.OFFERED,
        input=seen.args,
        bound=bind(seen.args),
        browser=isinstance(tool, ClientTool),
        parameters=schema_of(tool),
        output=tool.output if isinstance(tool, ClientTool) else None,
        retry=seen.decision.retry,
        invocation=place.invocation,
        branch=place.branch,
    )


def _asked_call(seen: _Seen, question: types.FunctionCall, branch: str | None) -> PendingCall:
    """The record of a call that a person is asked about, as the question puts it."""
    about = question.args or {}
    original: dict[str, Any] = about["originalFunctionCall"]
    confirmation: dict[str, Any] = about.get("toolConfirmation") or {}
    by_gate = seen.decision.action == "ask"
    return msgspec.structs.replace(
        _offered(seen, original["id"]),
        state=State.ASKED,
        ask=question.id,
        input=original.get("args") or {},
        hint=confirmation.get("hint") or "",
        payload=confirmation.get("payload"),
        # A tool that asks from inside would ask again whatever was granted.
        grant=seen.decision.grant if by_gate else "never",
        branch=branch,
    )


def schema_of(tool: BaseTool) -> dict[str, Any] | None:
    """The JSON schema of a tool's arguments, as its declaration gives it."""
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


def _executed(tool: BaseTool, call: PendingCall, context: ToolContext, result: object) -> dict[str, Any]:
    """What an approved call gave, in the form that model and page can do something with."""
    if context.actions.requested_tool_confirmations.pop(call.call, None) is not None:
        # ADK asks once for a call; a second question would never be seen.
        return {"error": _ASKED_AGAIN}
    # Of a long-running tool ADK would store nothing, and the model would read that the call still asks.
    given = {"status": "begun"} if tool.is_long_running and not result else _as_object(result)
    edited = call.answer.args if call.answer is not None else None
    return given if edited is None or set(given) == {"error"} else {**given, "edited_arguments": edited}


def _as_object(result: object) -> dict[str, Any]:
    return cast("dict[str, Any]", result if isinstance(result, dict) else {"result": result})
