"""Held calls: calls of a live run that wait in this process for a person or a browser while the conversation goes on.

In a live run nothing pauses. The plugin is called in the background, so it can wait. The question is written into the
session as ADK itself would have written it, so that after a lost socket, a crash or a change of mode the call is a
parked call like any other.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec
from google.adk.events.event import Event
from google.genai import types

from adkwire.adk.call_records import CallOrigin, SeenCall, about_approval_request, asked_call, offered_call
from adkwire.adk.events import EXPIRED, Response, not_executed_text, output_of, output_stamp, verdict_event
from adkwire.adk.stamps import add_stamp
from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, CallRecord, State
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION

logger = logging.getLogger("adkwire")

_RETRY, _LONGEST_RETRY = 0.1, 5.0
"""Seconds until a gate store that did not answer is read again: at first, and at most."""


class HoldingRun(Protocol):
    """The live run that a held call belongs to.

    An *inner* call is made by an agent inside a tool. Neither the session of the chat nor the model of the conversation
    knows of it.
    """

    @property
    def key(self) -> ChatKey:
        """The chat of the run."""
        ...

    def invocation(self, call: str) -> str | None:
        """Return the invocation of the turn that made a call; None when the call is not known."""
        ...

    async def origin(self, call: str) -> CallOrigin | None:
        """Return where a call comes from, once it was shown; None when its turn was stopped.

        Without a call, return the origin of a call that would be made now.
        """
        ...

    @property
    def can_ask_inner(self) -> bool:
        """True while a listener is connected that could answer an inner call."""
        ...

    async def show_inner_call(self, call: types.FunctionCall, author: str, *, browser: bool) -> None:
        """Store an inner call and show it."""
        ...

    async def show_inner_result(self, call: str, response: dict[str, Any]) -> None:
        """Store the result of an inner call and show it."""
        ...

    async def show(self, call: str, event: Event) -> None:
        """Store an event about a call and show it."""
        ...

    async def offer(self, call: str) -> None:
        """Let the browser execute a call."""
        ...

    def stamp_output(self, call: str, stamp: dict[str, Any]) -> None:
        """Stamp the response of a call with `stamp` when it is stored."""
        ...


HOLDING_RUN: ContextVar[HoldingRun | None] = ContextVar("adkwire_live", default=None)
"""The live run that the current task is part of, also in an agent inside a tool."""


class HeldCalls:
    """Asks and offers calls of live runs, with the events that ADK would write, and waits for the answers."""

    def __init__(self, gate: ToolGate, settings: Settings) -> None:
        self._gate = gate
        self._settings = settings
        self._waiting: dict[tuple[ChatKey, str], asyncio.Event] = {}

    def changed(self, key: ChatKey, call: str) -> None:
        """Wake the task that waits for a call whose record has changed, here or on another worker."""
        event = self._waiting.get((key, call))
        if event is not None:
            event.set()

    async def ask(
        self, seen: SeenCall, run: HoldingRun, call_id: str, *, author: str, hint: str, payload: Any = None
    ) -> CallRecord:
        """Ask a person about a call and wait; return its record when the verdict was shown, or the call taken back."""
        request = _approval_request(seen, call_id, hint, payload)
        asked = asked_call(seen, request, seen.origin.branch)
        async with self._abandon_on_failure(asked):
            record = await self._open(asked, seen.decision.timeout, self._settings.live_approval_timeout)
            await run.show(call_id, _approval_request_event(seen, request, record, author))
            answered = await self._answered(record)
            await self._show_verdict(answered, run, seen.origin.stamp)
            return answered

    async def _show_verdict(self, call: CallRecord, run: HoldingRun, stamp: dict[str, Any]) -> None:
        """Show a verdict before the call runs. What a browser has executed already cannot be undone if this fails."""
        if call.answer is None or call.state in (State.VOID, State.UNKNOWN):
            return
        try:
            await run.show(call.call, verdict_event(call, {**stamp, "held": True}))
        except RequestError as error:
            if not call.answer.has_output:
                raise
            logger.warning("the verdict on call %s could not be shown: %s", call.call, error.message)

    async def offer(self, seen: SeenCall, run: HoldingRun, call_id: str) -> Response:
        """Let the browser execute a call that needs no approval; return its output."""
        record = msgspec.structs.replace(offered_call(seen, call_id), browser=True)
        async with self._abandon_on_failure(record):
            record = await self._open(record, seen.decision.timeout, self._settings.client_tool_timeout)
            await run.offer(call_id)
        return await self.output(record, run)

    @asynccontextmanager
    async def _abandon_on_failure(self, call: CallRecord) -> AsyncGenerator[None, None]:
        """Abandon a call when a store fails: the model reads that it was not executed, so it must not be."""
        try:
            yield
        except RequestError:
            with suppress(RequestError):
                await self._gate.abandon(call.user, call.chat, call.call, "interrupted")
            raise

    async def _open(self, call: CallRecord, rule_timeout: float | None, live_timeout: float) -> CallRecord:
        """Open the record of a call with the timeout of its rule, or `live_timeout` until the conversation ends."""
        if rule_timeout is not None:
            return await self._gate.open(call, rule_timeout)
        return await self._gate.open(msgspec.structs.replace(call, live=True), live_timeout)

    async def output(self, record: CallRecord, run: HoldingRun) -> Response:
        """Wait for the browser's output of a call and return it."""
        now = await self._answered(record) if record.state in OPEN else record
        if now.state is State.VOID:
            return {"error": not_executed_text(now.outcome, now.answer)}
        shape: dict[str, Any] = output_stamp([now]).get("outputs", {})
        if now.call in shape:
            run.stamp_output(now.call, shape[now.call])
        try:
            await self._gate.finish(now.user, now.chat, now.call, "answered")
        except RequestError as error:
            # The output itself goes on to the agent; the end of the run closes the record.
            logger.warning("the end of call %s could not be recorded: %s", now.call, error.message)
        return output_of(now) or {"error": EXPIRED}

    async def _answered(self, call: CallRecord) -> CallRecord:
        """Wait until a question has an answer or goes on to the browser, or an offer has an output.

        A record that no longer exists was taken back with its chat.
        """
        key = ChatKey(call.user, call.chat)
        with self._waiting_for(key, call.call) as changed:
            while True:
                changed.clear()
                now = await self._record(key, call.call)
                if now is None:
                    return call.moved(State.VOID, outcome="stopped")
                if now.state not in OPEN or (call.state is State.ASKED and now.state is State.OFFERED):
                    return now
                await changed.wait()

    async def _record(self, key: ChatKey, call: str) -> CallRecord | None:
        """Read the record of a call, again and again while the store does not answer: the call goes on waiting."""
        wait = _RETRY
        while True:
            try:
                return await self._gate.get(*key, call)
            except RequestError as error:
                logger.warning("the record of held call %s could not be read: %s", call, error.message)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_RETRY)

    @contextmanager
    def _waiting_for(self, key: ChatKey, call: str) -> Generator[asyncio.Event, None, None]:
        event = self._waiting.setdefault((key, call), asyncio.Event())
        try:
            yield event
        finally:
            self._waiting.pop((key, call), None)


def _approval_request(seen: SeenCall, call_id: str, hint: str, payload: Any) -> types.FunctionCall:
    original = types.FunctionCall(id=call_id, name=seen.tool.name, args=seen.args)
    confirmation = {"hint": hint, "confirmed": False} | ({"payload": payload} if payload is not None else {})
    args = {
        "originalFunctionCall": original.model_dump(exclude_none=True, by_alias=True),
        "toolConfirmation": confirmation,
    }
    return types.FunctionCall(id=f"adk-{uuid.uuid4()}", name=REQUEST_CONFIRMATION, args=args)


def _approval_request_event(seen: SeenCall, request: types.FunctionCall, record: CallRecord, author: str) -> Event:
    """Return the event that ADK would have written if it could pause here."""
    asked = request.id or ""
    return Event(
        author=author,
        invocation_id=seen.origin.invocation,
        branch=seen.origin.branch,
        content=types.Content(role="user", parts=[types.Part(function_call=request)]),
        long_running_tool_ids={asked},
        custom_metadata=add_stamp(None, {**seen.origin.stamp, "asks": {asked: about_approval_request(record)}}),
    )
