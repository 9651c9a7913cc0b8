"""Calls of a live run that wait: asked about, offered to the browser, and answered, without anything being paused."""

import logging
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from google.adk.events.event import Event
from google.genai import types

from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, PendingCall, State
from adkwire.runs.gated import Seen, asked_call, offered
from adkwire.runs.history import marked
from adkwire.runs.holding import Holder, Holds
from adkwire.runs.own_events import EXPIRED, Response, output_of, shapes_of, verdict_event, why_not
from adkwire.settings import Settings
from adkwire.wire.calls import ASK
from adkwire.wire.javascript import iso

logger = logging.getLogger("adkwire")


class HeldCalls:
    """Asks and offers, in ADK's own words, and waits for what comes of it."""

    def __init__(self, gate: ToolGate, holds: Holds, settings: Settings) -> None:
        self._gate = gate
        self._holds = holds
        self._settings = settings

    async def asked(
        self, seen: Seen, holder: Holder, call_id: str, *, author: str, hint: str, payload: Any = None
    ) -> PendingCall:
        """Ask a person and wait; the call as it is when its verdict was shown, or when it was taken back."""
        question = _question(seen, call_id, hint, payload)
        asked = asked_call(seen, question, seen.place.branch)
        async with self._or_taken_back(asked):
            record = await self._open(asked, seen.decision.timeout, self._settings.live_approval_timeout)
            await holder.show(call_id, _asking(seen, question, record, author))
            now = await self._holds.moved(record)
            await self._tell(now, holder, seen.place.mark)
            return now

    async def _tell(self, call: PendingCall, holder: Holder, mark: dict[str, Any]) -> None:
        """Show a verdict before anything is done about it. What a browser has done already stays done without."""
        if call.answer is None or call.state in (State.VOID, State.UNKNOWN):
            return
        try:
            await holder.show(call.call, verdict_event(call, {**mark, "held": True}))
        except RequestError as error:
            if not call.answer.has_output:
                raise
            logger.warning("the verdict on call %s could not be shown: %s", call.call, error.message)

    async def offered(self, seen: Seen, holder: Holder, call_id: str) -> Response:
        """Let the browser have a call that nobody gates; what it gives."""
        record = msgspec.structs.replace(offered(seen, call_id), browser=True)
        async with self._or_taken_back(record):
            record = await self._open(record, seen.decision.timeout, self._settings.client_tool_timeout)
            await holder.offer(call_id)
        return await self.output(record, holder)

    @asynccontextmanager
    async def _or_taken_back(self, call: PendingCall) -> AsyncGenerator[None, None]:
        """When a store fails the model reads that the call was not executed: then nobody is left to approve it."""
        try:
            yield
        except RequestError:
            with suppress(RequestError):
                await self._gate.abandon(call.user, call.chat, call.call, "interrupted")
            raise

    async def _open(self, call: PendingCall, wanted: float | None, usual: float) -> PendingCall:
        """Let a call wait, as long as its rule says or, while the conversation lasts, as is usual in one."""
        if wanted is not None:
            return await self._gate.open(call, wanted)
        return await self._gate.open(msgspec.structs.replace(call, live=True), usual)

    async def output(self, record: PendingCall, holder: Holder) -> Response:
        """What the browser gives for a call that it has."""
        now = await self._holds.moved(record) if record.state in OPEN else record
        if now.state is State.VOID:
            return {"error": why_not(now.outcome, now.answer)}
        shape: dict[str, Any] = shapes_of([now]).get("outputs", {})
        if now.call in shape:
            holder.shape(now.call, shape[now.call])
        try:
            await self._gate.finish(now.user, now.chat, now.call, "answered")
        except RequestError as error:
            # The output itself goes on to the agent; the end of the run closes the record.
            logger.warning("the end of call %s could not be recorded: %s", now.call, error.message)
        return output_of(now) or {"error": EXPIRED}


def about(call: PendingCall) -> dict[str, Any]:
    """What the page should know about a question beyond ADK's words."""
    expiry = {"expiresAt": iso(call.expires_at)} if call.expires_at is not None else {}
    return {"scopes": list(call.scopes), **expiry}


def _question(seen: Seen, call_id: str, hint: str, payload: Any) -> types.FunctionCall:
    original = types.FunctionCall(id=call_id, name=seen.tool.name, args=seen.args)
    confirmation = {"hint": hint, "confirmed": False} | ({"payload": payload} if payload is not None else {})
    args = {
        "originalFunctionCall": original.model_dump(exclude_none=True, by_alias=True),
        "toolConfirmation": confirmation,
    }
    return types.FunctionCall(id=f"adk-{uuid.uuid4()}", name=ASK, args=args)


def _asking(seen: Seen, question: types.FunctionCall, record: PendingCall, author: str) -> Event:
    """The event that ADK itself would have written if it could pause here."""
    asked = question.id or ""
    return Event(
        author=author,
        invocation_id=seen.place.invocation,
        branch=seen.place.branch,
        content=types.Content(role="user", parts=[types.Part(function_call=question)]),
        long_running_tool_ids={asked},
        custom_metadata=marked(None, {**seen.place.mark, "asks": {asked: about(record)}}),
    )
