"""GatePlugin: what adkwire does inside ADK's runs, for every agent of the tree and without touching it.

It decides what happens to each call before the tool sees it, asks where a person has to be asked, lets an approved
call run once, and keeps a raising tool from ending the run. A call that has to wait is parked by ADK, which then
pauses; in a live run, where nothing pauses, it is held here.
"""

import asyncio
import logging
from typing import Any, cast

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
from adkwire.gate.records import PendingCall, State
from adkwire.runs.gated import Place, Seen, asked_call, offered
from adkwire.runs.held_calls import HeldCalls, about
from adkwire.runs.history import marked
from adkwire.runs.holding import HOLDER, Holder
from adkwire.runs.own_events import PLACEHOLDER, STOPPED, refusal_of, why_not
from adkwire.runs.sessions import ChatKey, MarkedSessions
from adkwire.runs.watched_model import SUPERVISION
from adkwire.wire.calls import ASK
from adkwire.wire.encoder import ABORTED

logger = logging.getLogger("adkwire")

_FORBIDDEN = "The policy of this server does not allow this call; it was not executed."
_NOT_RELEASED = "This call was answered before or is no longer allowed; it was not executed."
_BEGUN = "This call was begun before and is not executed again; what came of it is unknown here."
_NO_PAUSE = "This call waits for a person or a browser, which an agent inside a tool cannot do; it was not executed."
_UNTOLD = "Whether this call needs an approval could not be told; it was not executed."
_ASKED_AGAIN = "The tool asked a second time after it was approved, which cannot be answered."
_NO_STORE = "The server cannot ask for an approval now; the call was not executed."


class GatePlugin(BasePlugin):
    """Stands between the model's calls and the tools."""

    def __init__(self, gate: ToolGate, held: HeldCalls, sessions: MarkedSessions, *, detail: bool) -> None:
        super().__init__(name="adkwire")
        self._gate = gate
        self._held = held
        self._sessions = sessions
        self._detail = detail
        self._began: dict[tuple[str, str, str], float] = {}
        self._seen: dict[tuple[str, str], Seen] = {}
        self._executing: dict[tuple[str, str], PendingCall] = {}
        self._results: dict[tuple[str, str], dict[str, Any]] = {}
        self._inside: set[tuple[str, str]] = set()
        """Calls of agents inside tools that are shown."""

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """A live run begins: from now on everybody writes with its handle of the session."""
        if invocation_context.live_request_queue is not None and invocation_context.session_service is self._sessions:
            self._sessions.opened(invocation_context.session, invocation_context.invocation_id)

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
        holder = HOLDER.get()
        place = self._place(context) if holder is None else await self._place_in(holder, context)
        if holder is not None and place is None:
            return {"error": STOPPED}
        asks = await _asks(tool, args, context)
        if asks is None:
            return {"error": _UNTOLD}
        chat = place.key if place is not None else _chat_of(context)
        decision = await self._gate.decide(*chat, tool.name, args, asks=asks)
        seen = Seen(place, tool, dict(args), decision) if place is not None else None
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
        if holder is not None:
            if not self._is_ours(context) and not holder.can_ask_inside:
                return {"error": _NO_PAUSE}
            return await self._hold(seen, holder, args, context)
        if decision.action == "ask":
            context.request_confirmation(hint=decision.hint or "")
            context.actions.skip_summarization = True
            return {"error": PLACEHOLDER}
        return None

    async def _hold(
        self, seen: Seen, holder: Holder, args: dict[str, Any], context: ToolContext
    ) -> dict[str, Any] | None:
        """Wait for a person or a browser, while the conversation goes on."""
        call_id = context.function_call_id or ""
        await self._announce(seen, holder, context)
        if seen.decision.action != "ask":
            return await self._held.offered(seen, holder, call_id)
        hint = seen.decision.hint or ""
        call = await self._held.asked(seen, holder, call_id, author=context.agent_name, hint=hint)
        return await self._decided(call, holder, args, context)

    async def _announce(self, seen: Seen, holder: Holder, context: ToolContext) -> None:
        """Show the call of an agent inside a tool before it is asked about: otherwise nobody would know of it."""
        if not self._is_ours(context):
            call = types.FunctionCall(id=context.function_call_id, name=seen.tool.name, args=seen.args)
            await holder.inside(call, context.agent_name, browser=isinstance(seen.tool, ClientTool))
            self._inside.add(_id(context))

    async def _decided(
        self, call: PendingCall, holder: Holder, args: dict[str, Any], context: ToolContext
    ) -> dict[str, Any] | None:
        """Do what was decided about a held call; None lets the tool run."""
        answer = call.answer
        if answer is None or call.state in (State.VOID, State.UNKNOWN):
            return {"error": why_not(call.outcome, answer)}
        approved = answer.approved is True and not answer.expired
        if approved and call.browser:
            return await self._held.output(call, holder)
        context.tool_confirmation = ToolConfirmation(confirmed=approved, payload=answer.payload)
        return await self._resume(args, context, context.tool_confirmation)

    async def _resume(
        self, args: dict[str, Any], context: ToolContext, verdict: ToolConfirmation
    ) -> dict[str, Any] | None:
        """A call whose verdict has come: execute it if, and only if, its record lets this one do so."""
        seen = self._seen.get(_id(context))
        user, chat = seen.place.key if seen is not None else _chat_of(context)
        call_id = context.function_call_id or ""
        if not verdict.confirmed:
            call = await self._gate.get(user, chat, call_id)
            if call is not None:
                await self._finished(call, "not executed")
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
        given = await self._after(tool, tool_args, tool_context, result)
        holder = HOLDER.get()
        if holder is not None and _id(tool_context) in self._inside:
            await self._done_inside(holder, tool_context, _as_object(result if given is None else given))
        if not self._is_ours(tool_context):
            # Nobody tells when the run of an agent inside a tool is over.
            self._seen.pop(_id(tool_context), None)
        return given

    async def _done_inside(self, holder: Holder, context: ToolContext, given: dict[str, Any]) -> None:
        try:
            await holder.done_inside(context.function_call_id or "", given)
        except RequestError as error:
            # What was done is done: the agent gets it now, and the page when the turn ends.
            logger.warning("what an agent inside a tool did could not be shown: %s", error.message)

    async def _after(
        self, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: object
    ) -> dict[str, Any] | None:
        place, holder = _id(tool_context), HOLDER.get()
        if holder is not None and place[1] in tool_context.actions.requested_tool_confirmations:
            return await self._asked_inside(tool, tool_args, tool_context, holder)
        call = self._executing.pop(place, None)
        if call is not None:
            given = await self._done(tool, call, tool_context, result)
            # What is returned keeps the agent's own callbacks from seeing the result, so only a changed one is.
            return None if given is result else given
        if tool.is_long_running and not result:
            return await self._awaited(place, holder)
        if place[1] not in tool_context.actions.requested_tool_confirmations:
            self._results[place] = _as_object(result)
        return None

    async def _done(self, tool: BaseTool, call: PendingCall, context: ToolContext, result: object) -> dict[str, Any]:
        given = _executed(tool, call, context, result)
        self._results[_id(context)] = given
        await self._finished(call, "failed" if set(given) == {"error"} else "executed")
        return given

    async def _asked_inside(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, holder: Holder
    ) -> dict[str, Any] | None:
        """A tool of a live run has asked from inside: it runs again once it was approved, as where ADK pauses."""
        place = _id(context)
        question = context.actions.requested_tool_confirmations.pop(place[1])
        call, seen = self._executing.pop(place, None), self._seen.get(place)
        if call is not None or seen is None:
            if call is not None:
                await self._finished(call, "failed")
            return {"error": _ASKED_AGAIN}
        try:
            await self._announce(seen, holder, context)
            asked = await self._held.asked(
                seen, holder, place[1], author=context.agent_name, hint=question.hint or "", payload=question.payload
            )
            refusal = await self._decided(asked, holder, args, context)
        except RequestError as error:
            logger.warning("call of %s not decided: %s", tool.name, error.message)
            return {"error": _NO_STORE}
        if refusal is not None:
            return refusal
        result = await self._run_again(tool, args, context)
        return await self._done(tool, self._executing.pop(place), context, result)

    async def _run_again(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> object:
        try:
            return await tool.run_async(args=args, tool_context=context)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its answer
            return await self.on_tool_error_callback(tool=tool, tool_args=args, tool_context=context, error=error)

    async def _awaited(self, place: tuple[str, str], holder: Holder | None) -> dict[str, Any] | None:
        """A long-running tool that gave nothing: its result comes from outside, as a rule from the browser."""
        seen = self._seen.get(place)
        if seen is not None:
            try:
                if holder is not None:
                    return await self._held.offered(seen, holder, place[1])
                call = msgspec.structs.replace(offered(seen, place[1]), browser=True)
                await self._gate.open(call, seen.decision.timeout)
            except RequestError as error:
                logger.warning("a call could not be offered: %s", error.message)
                return {"error": _NO_STORE}
        return None

    async def _finished(self, call: PendingCall, outcome: str) -> None:
        try:
            await self._gate.finish(call.user, call.chat, call.call, outcome)
        except RequestError as error:
            # What is to be said goes on to the agent; the end of the run tries to close the record once more.
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
        began = _began(event)
        if event.partial:
            if (holder := HOLDER.get()) is not None:
                event.timestamp = holder.now()
            if began is not None:
                self._began.setdefault(began, event.timestamp)
            return
        if began is not None and (at := self._began.pop(began, None)) is not None:
            # Agents side by side are stored in the order they end and shown in the order they begin; and so is what a
            # live model says while something else happens.
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
            call = await self._gate.open(asked_call(seen, question, event.branch), seen.decision.timeout)
        except RequestError as error:
            logger.warning("a question could not be recorded: %s", error.message)
            return {}
        return {question.id: about(call)}

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
        for began in [began for began in self._began if began[0] == invocation_id]:
            del self._began[began]
        for known in (self._seen, self._executing, self._results):
            for place in [place for place in known if place[0] == invocation_id]:
                del known[place]
        self._inside = {place for place in self._inside if place[0] != invocation_id}

    def _place(self, context: ToolContext) -> Place | None:
        """Where a call comes from; None inside an AgentTool, whose run has a session of its own and cannot pause."""
        run = context.get_invocation_context()
        if not self._is_ours(context):
            return None
        key = ChatKey(*_chat_of(context))
        mark = self._sessions.mark(key)
        return Place(key, mark.get("message", ""), run.invocation_id, run.branch, mark) if mark is not None else None

    async def _place_in(self, holder: Holder, context: ToolContext) -> Place | None:
        """Where a call of a live run comes from, once it is shown. An agent inside a tool can wait here, too."""
        if self._is_ours(context):
            return await holder.place(context.function_call_id or "")
        return await holder.place("")

    def _is_ours(self, context: ToolContext) -> bool:
        """Whether a call is made in the chat itself, not by an agent inside a tool."""
        return context.get_invocation_context().session_service is self._sessions

    async def _note(self, seen: Seen | None, context: ToolContext, verdict: str, outcome: str) -> None:
        if seen is not None:
            await self._gate.note(offered(seen, context.function_call_id or ""), verdict, outcome, "policy")


def _began(event: Event) -> tuple[str, str, str] | None:
    """What a complete event shares with the partial ones before it, where that says something about their order."""
    if HOLDER.get() is None:
        return (event.invocation_id, event.branch, "") if event.branch is not None else None
    parts = (event.content.parts if event.content is not None else None) or ()
    if event.output_transcription is not None or event.input_transcription is not None:
        source = "said" if event.output_transcription is not None else "heard"
    elif parts and parts[0].text:
        source = "thought" if parts[0].thought else "text"
    else:
        return None
    supervision = SUPERVISION.get()
    connection = supervision.losses if supervision is not None else 0
    return event.invocation_id, event.branch or "", f"{source} by {event.author} on {connection}"


def _id(context: ToolContext) -> tuple[str, str]:
    """What a call is known by. All turns of a live run are one invocation to ADK; to us each is one of its own."""
    call, holder = context.function_call_id or "", HOLDER.get()
    turn = holder.invocation(call) if holder is not None else None
    return turn or context.get_invocation_context().invocation_id, call


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
