"""GatePlugin: the ADK plugin that decides about the calls of every agent of the tree before their tools run.

It asks where a person has to be asked, lets an approved call run once, and keeps a tool that raises from ending the
run. A call that has to wait is parked by ADK, which then pauses. In a live run, where nothing pauses, it is held here.
A call of an agent inside a tool (an *inner* call) can be held, and cannot be parked: its run has a session of its own.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkwire.adk.call_records import (
    ASKED_AGAIN,
    CallOrigin,
    RunRecords,
    RunState,
    SeenCall,
    as_object,
    executed_result,
    offered_call,
)
from adkwire.adk.events import PLACEHOLDER, STOPPED, Response, not_executed_text, refusal_of
from adkwire.adk.held_calls import HOLDING_RUN, HeldCalls, HoldingRun
from adkwire.adk.sessions import StampedSessions
from adkwire.adk.writer import check_writer
from adkwire.errors import RequestError
from adkwire.gate.client_tool import ClientTool
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import CallRecord, State
from adkwire.stores.base import ChatKey
from adkwire.wire.encode.tool_calls import UNFINISHED

logger = logging.getLogger("adkwire")

_FORBIDDEN = "The policy of this server does not allow this call; it was not executed."
_NOT_RELEASED = "This call was answered before or is no longer allowed; it was not executed."
_BEGUN = "This call was begun before and is not executed again; what came of it is unknown here."
_NO_PAUSE = "This call waits for a person or a browser, which an agent inside a tool cannot do; it was not executed."
_UNDECIDED = "Whether this call needs an approval could not be determined; it was not executed."
_NO_STORE = "The server's store of calls does not answer; the call was not executed."


@dataclass
class _CallState:
    """What the plugin keeps of a call while its tool context exists."""

    seen: SeenCall | None = None
    claimed: CallRecord | None = None
    """The record of a call that was approved and that this process executes."""
    inner_is_shown: bool = False
    """True once an inner call was shown."""


class GatePlugin(BasePlugin):
    """Decides about calls, asks about them, and keeps their results until ADK has stored them."""

    def __init__(self, gate: ToolGate, held: HeldCalls, sessions: StampedSessions, *, detail: bool) -> None:
        super().__init__(name="adkwire")
        self._gate = gate
        self._held = held
        self._sessions = sessions
        self._detail = detail
        self.records = RunRecords(gate)
        """What is kept of the runs of this process."""
        self._calls: WeakKeyDictionary[ToolContext, _CallState] = WeakKeyDictionary()

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Let the sessions know that a run begins."""
        if invocation_context.session_service is self._sessions:
            self._sessions.run_began(invocation_context.session, invocation_context.invocation_id)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> Response | None:
        """Decide about a call; a response that is returned is its result, and the tool does not run."""
        check_writer()
        self._calls[tool_context] = _CallState()
        try:
            if tool_context.tool_confirmation is not None:
                return await self._resume(tool_args, tool_context, tool_context.tool_confirmation)
            return await self._decide(tool, tool_args, tool_context)
        except RequestError as error:
            logger.warning("call of %s not decided: %s", tool.name, error.message)
            return {"error": _NO_STORE}

    async def _decide(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Response | None:
        """Decide about a call without a verdict: refuse it, ask about it, or let it run (None)."""
        run = HOLDING_RUN.get()
        origin = self._origin(context) if run is None else await self._live_origin(run, context)
        if run is not None and origin is None:
            return {"error": STOPPED}
        asks = await _asks(tool, args, context)
        if asks is None:
            return {"error": _UNDECIDED}
        chat = origin.key if origin is not None else _chat_of(context)
        decision = await self._gate.decide(*chat, tool.name, args, asks=asks)
        seen = SeenCall(origin, tool, dict(args), decision) if origin is not None else None
        if seen is not None:
            self._calls[context].seen = seen
            if (state := self._run_state(context)) is not None:
                state.seen[context.function_call_id or ""] = seen
        if decision.action == "deny":
            await self._audit(seen, context, "forbidden", "not executed")
            return {"error": f"{_FORBIDDEN} {decision.reason or ''}".rstrip()}
        if decision.action == "allow" and asks:
            await self._audit(seen, context, "allowed", decision.rule)
            context.tool_confirmation = ToolConfirmation(confirmed=True)
        waits = decision.action == "ask" or isinstance(tool, ClientTool)
        if not waits:
            return None
        if seen is None:
            return {"error": _NO_PAUSE}
        if run is not None:
            if not self._is_ours(context) and not run.can_ask_inner:
                return {"error": _NO_PAUSE}
            return await self._hold(seen, run, args, context)
        if decision.action == "ask":
            context.request_confirmation(hint=decision.hint or "")
            context.actions.skip_summarization = True
            return {"error": PLACEHOLDER}
        return None

    async def _hold(
        self, seen: SeenCall, run: HoldingRun, args: dict[str, Any], context: ToolContext
    ) -> Response | None:
        """Wait for a person or a browser while the conversation goes on."""
        call_id = context.function_call_id or ""
        await self._show_inner_call(seen, run, context)
        if seen.decision.action != "ask":
            return await self._held.offer(seen, run, call_id)
        hint = seen.decision.hint or ""
        call = await self._held.ask(seen, run, call_id, author=context.agent_name, hint=hint)
        return await self._apply_answer(call, run, args, context)

    async def _show_inner_call(self, seen: SeenCall, run: HoldingRun, context: ToolContext) -> None:
        """Show a call of an agent inside a tool before a person is asked about it: no event of the chat has it."""
        if not self._is_ours(context):
            call = types.FunctionCall(id=context.function_call_id, name=seen.tool.name, args=seen.args)
            await run.show_inner_call(call, context.agent_name, browser=isinstance(seen.tool, ClientTool))
            self._calls[context].inner_is_shown = True

    async def _apply_answer(
        self, call: CallRecord, run: HoldingRun, args: dict[str, Any], context: ToolContext
    ) -> Response | None:
        """Apply the answer to a held call; return its response, None to let the tool run."""
        answer = call.answer
        if call.state is State.UNKNOWN:
            return {"error": UNFINISHED}
        if answer is None or call.state is State.VOID:
            return {"error": not_executed_text(call.outcome, answer)}
        approved = answer.approved is True and not answer.expired
        if approved and call.browser:
            return await self._held.output(call, run)
        context.tool_confirmation = ToolConfirmation(confirmed=approved, payload=answer.payload)
        return await self._resume(args, context, context.tool_confirmation)

    async def _resume(self, args: dict[str, Any], context: ToolContext, verdict: ToolConfirmation) -> Response | None:
        """Let a call with a verdict run if, and only if, its record can be claimed for this execution."""
        state = self._calls[context]
        user, chat = state.seen.origin.key if state.seen is not None else _chat_of(context)
        call_id = context.function_call_id or ""
        if not verdict.confirmed:
            call = await self._gate.get(user, chat, call_id)
            if call is not None:
                await self._close_record(call, "not executed")
            return refusal_of(call)
        call = await self._gate.claim(user, chat, call_id, args)
        if call is None:
            now = await self._gate.get(user, chat, call_id)
            begun = now is not None and (
                now.state is State.EXECUTING or now.outcome in ("executed", "failed", "unknown")
            )
            return {"error": _BEGUN if begun else _NOT_RELEASED}
        state.claimed = call
        edited = call.answer.args if call.answer is not None else None
        if edited is not None:
            args.clear()
            args.update(edited)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: object
    ) -> Response | None:
        """Keep a result as soon as it exists: ADK stores those of parallel calls only when all have ended."""
        changed = await self._after(tool, tool_args, tool_context, result)
        run, state = HOLDING_RUN.get(), self._calls.get(tool_context)
        if run is not None and self._is_ours(tool_context) and not self._is_running(tool_context):
            # A tool that has ignored its cancellation: ADK would wait for ever until its result is taken.
            raise asyncio.CancelledError
        if run is not None and state is not None and state.inner_is_shown:
            await self._show_inner_result(run, tool_context, as_object(result if changed is None else changed))
        return changed

    async def _show_inner_result(self, run: HoldingRun, context: ToolContext, response: Response) -> None:
        try:
            await run.show_inner_result(context.function_call_id or "", response)
        except RequestError as error:
            # The call has run: the agent gets its result now, and the page when the turn ends.
            logger.warning("the result of an agent inside a tool could not be shown: %s", error.message)

    async def _after(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, result: object
    ) -> Response | None:
        """Return what takes the place of a tool's result; None if the result stays."""
        state, run = self._calls.setdefault(context, _CallState()), HOLDING_RUN.get()
        asked = (context.function_call_id or "") in context.actions.requested_tool_confirmations
        if run is not None and asked:
            return await self._ask_from_inside(tool, args, context, run)
        if state.claimed is not None:
            changed = await self._executed(tool, state, context, result)
            # What is returned keeps the agent's own callbacks from seeing the result, so only a changed one is.
            return None if changed is result else changed
        if tool.is_long_running and not result:
            return await self._offer(state, context, run)
        if not asked:
            self._keep_result(context, as_object(result))
        return None

    async def _executed(self, tool: BaseTool, state: _CallState, context: ToolContext, result: object) -> Response:
        """Close the record of an approved call that has run; return its result."""
        assert state.claimed is not None  # noqa: S101 - only called for claimed calls
        call, state.claimed = state.claimed, None
        response = executed_result(tool, call, context, result)
        self._keep_result(context, response)
        await self._close_record(call, "failed" if set(response) == {"error"} else "executed")
        return response

    async def _ask_from_inside(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, run: HoldingRun
    ) -> Response | None:
        """Ask for a tool that has itself requested a confirmation in a live run; run it again once it is approved, as
        ADK does where it pauses."""
        state, call_id = self._calls[context], context.function_call_id or ""
        question = context.actions.requested_tool_confirmations.pop(call_id)
        claimed, state.claimed = state.claimed, None
        if claimed is not None or state.seen is None:
            if claimed is not None:
                await self._close_record(claimed, "failed")
            return {"error": ASKED_AGAIN}
        try:
            await self._show_inner_call(state.seen, run, context)
            hint, payload = question.hint or "", question.payload
            asked = await self._held.ask(
                state.seen, run, call_id, author=context.agent_name, hint=hint, payload=payload
            )
            refusal = await self._apply_answer(asked, run, args, context)
        except RequestError as error:
            logger.warning("call of %s not decided: %s", tool.name, error.message)
            return {"error": _NO_STORE}
        if refusal is not None:
            return refusal
        return await self._executed(tool, state, context, await self._run_again(tool, args, context))

    async def _run_again(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> object:
        try:
            return await tool.run_async(args=args, tool_context=context)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
            return await self.on_tool_error_callback(tool=tool, tool_args=args, tool_context=context, error=error)

    async def _offer(self, state: _CallState, context: ToolContext, run: HoldingRun | None) -> Response | None:
        """Offer a call whose long-running tool gave nothing: its result comes from outside, mostly from the browser."""
        if state.seen is None:
            return None
        call_id = context.function_call_id or ""
        try:
            if run is not None:
                return await self._held.offer(state.seen, run, call_id)
            call = msgspec.structs.replace(offered_call(state.seen, call_id), browser=True)
            await self._gate.open(call, state.seen.decision.timeout)
        except RequestError as error:
            logger.warning("a call could not be offered: %s", error.message)
            return {"error": _NO_STORE}
        return None

    async def _close_record(self, call: CallRecord, outcome: str) -> None:
        """Record how a call ended; a gate that does not answer is no failure of the call."""
        try:
            await self._gate.finish(call.user, call.chat, call.call, outcome)
        except RequestError as error:
            # The result goes on to the agent; the end of the run tries to close the record once more.
            logger.warning("the end of call %s could not be recorded: %s", call.call, error.message)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> Response:
        """Turn the exception of a tool into the result of its call; with its text only where the settings allow it."""
        name = type(error).__name__
        if not isinstance(error, asyncio.CancelledError):
            logger.warning("tool %s raised %s", tool.name, name, exc_info=error)
        return {"error": f"{name}: {error}" if self._detail and str(error) else f"The tool failed ({name})."}

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Prepare an event of the chat before it is stored: its place in the order, its questions, its results."""
        if invocation_context.session_service is not self._sessions:
            return
        if event.partial:
            event.timestamp = self._sessions.now(ChatKey(invocation_context.user_id, invocation_context.session.id))
        await self.records.prepare(event, live=HOLDING_RUN.get() is not None)

    def _keep_result(self, context: ToolContext, result: Response) -> None:
        if (state := self._run_state(context)) is not None:
            state.results[context.function_call_id or ""] = result

    def _run_state(self, context: ToolContext) -> RunState | None:
        """Return what is kept of the run that a call belongs to; None for an inner call, and once the run has ended."""
        if not self._is_ours(context) or not self._is_running(context):
            return None
        # All turns of a live run are one invocation to ADK; to us each is one of its own.
        holding = HOLDING_RUN.get()
        turn = holding.invocation(context.function_call_id or "") if holding is not None else None
        return self.records.of_run(turn or context.get_invocation_context().invocation_id)

    def _origin(self, context: ToolContext) -> CallOrigin | None:
        """Return where a call comes from; None for an inner call."""
        run, key = context.get_invocation_context(), ChatKey(*_chat_of(context))
        stamp = self._sessions.stamp(key) if self._is_ours(context) else None
        if stamp is None:
            return None
        return CallOrigin(key, stamp.get("message", ""), run.invocation_id, run.branch, stamp)

    async def _live_origin(self, run: HoldingRun, context: ToolContext) -> CallOrigin | None:
        """Return where a call of a live run comes from, once it was shown."""
        return await run.origin((context.function_call_id or "") if self._is_ours(context) else "")

    def _is_running(self, context: ToolContext) -> bool:
        return self._sessions.is_running(ChatKey(*_chat_of(context)), context.get_invocation_context().invocation_id)

    def _is_ours(self, context: ToolContext) -> bool:
        """Return whether a call is made in the session of the chat, not by an agent inside a tool."""
        return context.get_invocation_context().session_service is self._sessions

    async def _audit(self, seen: SeenCall | None, context: ToolContext, verdict: str, outcome: str) -> None:
        if seen is not None:
            await self._gate.note(offered_call(seen, context.function_call_id or ""), verdict, outcome, "policy")


def _chat_of(context: ToolContext) -> tuple[str, str]:
    run = context.get_invocation_context()
    return run.user_id, run.session.id


async def _asks(tool: BaseTool, args: dict[str, Any], context: ToolContext) -> bool | None:
    """Return whether the tool itself wants a person to be asked; None when it fails.

    ADK calls it again before it lets an approved call run, so a question would lead nowhere.
    """
    try:
        if isinstance(tool, ClientTool):
            return await tool.asks(args, context)
        return await tool.check_require_confirmation(args, context) is True
    except Exception as error:
        logger.warning("whether %s asks could not be determined: %s", tool.name, type(error).__name__, exc_info=error)
        return None
