"""RunContinuer: settle the answers to calls at the gate, and continue messages whose calls are all answered.

An answer is settled first, whatever runs. When no call of the step is pending any more, a continuation begins: a run
that gives the answers to ADK and writes what follows into the same message.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from msgspec import UNSET

from adkwire.adk.events import is_released, verdict_event
from adkwire.adk.turns import Turn, text_and_files, turns
from adkwire.errors import Conflict, NotFound, RequestError
from adkwire.gate.judge import REFUSED, too_late_text
from adkwire.gate.records import OPEN, CallRecord, Echo, State, UncheckedAnswer
from adkwire.runs.chats import Chat
from adkwire.runs.ending import unanswered_calls_of
from adkwire.runs.ownership import Ownership
from adkwire.runs.run import Run, new_id
from adkwire.runs.services import RunServices
from adkwire.runs.views import calls_without_verdict
from adkwire.runs.worker_messages import Settled, send
from adkwire.stores.base import ChatKey, RunHead
from adkwire.tasks import Tasks
from adkwire.wire.chunks import Chunk, Error, Start, ToolInputAvailable, ToolInputStart
from adkwire.wire.decode.call_answers import CallAnswer, CallAnswers
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import for_late_reader

logger = logging.getLogger("adkwire")

_REPEATED = "The same answers came again and again, and nothing is left to do. Load the chat again."
_RETRY, _LONGEST_RETRY = 1.0, 60.0
"""Seconds after the first failure to continue a message until it is tried again, and the longest such pause."""
_RELOAD = "This call was already answered. Load the chat again to see what came of it."


@dataclass
class _TakenAnswers:
    """The answers of one request after the gate has judged them."""

    settled: set[str] = field(default_factory=set[str])
    """Calls that were settled by this request."""
    repeated: set[str] = field(default_factory=set[str])
    """Calls that had been answered before."""
    errors: list[RequestError] = field(default_factory=list[RequestError])
    """Why answers were refused."""
    repeat_errors: list[RequestError] = field(default_factory=list[RequestError])
    """Errors for repeated answers, sent when the run that continued with them is no longer kept."""


class RunContinuer:
    """Takes answers to calls and continues their messages."""

    def __init__(self, services: RunServices, ownership: Ownership) -> None:
        self._services = services
        self._ownership = ownership
        self._tasks = Tasks()
        self._starting: set[tuple[ChatKey, str]] = set()
        """Answered calls whose task has not checked yet whether their message can continue."""
        self._postponed: dict[tuple[ChatKey, str], list[CallRecord]] = {}
        """The calls that were answered while a request takes the answers of their message, by chat and message."""
        ownership.on_calls_found = self._continue_soon

    async def repost(self, key: ChatKey, answers: CallAnswers, *, live: bool = False) -> Run:
        """Take the answers that a stock client sends with its message; return the run that the client reads.

        Refused answers get a run with the error. While a client is connected to the chat's live conversation, only its
        requests (`live`) are taken.
        """
        await self._ownership.refuse_when_live_elsewhere(key)
        head = await self._ownership.run_elsewhere(key)
        if head is not None and head.message == answers.message and _delivers(head, answers):
            return Run.read_only(head)
        taken: _TakenAnswers | None = None
        while True:
            async with self._taking_answers(key, answers.message) as (chat, postponed):
                session = await self._services.runner.load(key)
                if session is not None and chat.live is not None and not live:
                    await self._ownership.park_live(chat)
                    session = await self._services.runner.load(key)
                if session is None:
                    return await self._refused(key, answers, [NotFound(REFUSED)])
                turn = _last_turn(session, answers.message)
                run = chat.run_of_message(answers.message)
                if taken is None:
                    taken = await self._settle_all(key, turn, answers)
                if turn is None or (run is None and chat.active):
                    too_late = Conflict(_RELOAD if taken.repeated else too_late_text("superseded"))
                    return await self._refused(key, answers, taken.errors or [too_late])
                if run is None:
                    run = await self._continue_or_repeat(key, chat, turn, answers, taken)
                    postponed.clear()
                    return run
                if chat.live is not None and chat.live.writes(answers.message):
                    # The conversation continues with each answer by itself.
                    if taken.settled or not run.encoder.is_waiting:
                        return run
                    return await self._refused(key, answers, taken.errors or [Conflict(_RELOAD)])
                if not taken.settled or taken.settled & run.delivers:
                    return run
            await run.done.wait()

    async def answer(self, key: ChatKey, call_id: str, answer: UncheckedAnswer) -> CallRecord:
        """Take the answer to one call; when it was the last one of its step, the message continues."""
        gate = self._services.gate
        self._ownership.refuse_when_draining()
        call = await gate.get(*key, call_id)
        if call is None and not await self._services.runner.exists(key):
            # Nothing is done about a chat that does not exist, not even a line in its audit.
            raise NotFound(REFUSED)
        if call is None or await self._ownership.is_owned_elsewhere(key):
            # The worker that owns the chat continues the message, or its live conversation does.
            settled = await gate.settle(*key, call_id, answer)
            self._continue_soon(settled)
            return settled
        async with self._taking_answers(key, call.message) as (chat, postponed):
            call = await gate.get(*key, call_id) or call
            turn, is_busy = None, bool(chat.active)
            if not is_busy or call.state is State.UNKNOWN:
                session = await self._services.runner.load(key)
                if session is None:
                    raise NotFound(REFUSED)
                turn = _last_turn(session, call.message)
            retry = call.state is State.UNKNOWN and turn is not None and _is_unsettled(turn, call_id)
            settled = await gate.settle(*key, call_id, answer, retry=retry)
            # Also for a repeated answer: the worker that took it may have died before the message continued.
            if not is_busy and turn is not None:
                await self._continue(key, chat, turn)
                postponed.clear()
            return settled

    def changed(self, call: CallRecord) -> None:
        """Continue the message of a call that was answered, if this worker took the answer or owns the chat."""
        chat = self._services.chats.get(ChatKey(call.user, call.chat))
        if call.worker == self._services.gate.worker or (chat is not None and not chat.idle):
            self._continue_soon(call)

    def _continue_soon(self, call: CallRecord) -> None:
        """Start a task that continues the message of a call, if the call is answered."""
        key = ChatKey(call.user, call.chat)
        if (postponed := self._postponed.get((key, call.message))) is not None:
            postponed.append(call)
        elif _is_answered(call) and (key, call.call) not in self._starting:
            self._starting.add((key, call.call))
            self._tasks.start(self._continue_when_possible(key, call.message, call.call), f"continue-{call.call}")

    @asynccontextmanager
    async def _taking_answers(self, key: ChatKey, message: str) -> AsyncGenerator[tuple[Chat, list[CallRecord]], None]:
        """Own a chat, and list the calls of a message that are answered meanwhile.

        A request that continues the message itself clears the list; tasks are started for the calls that are left.
        """
        async with self._ownership.owned(key) as chat:
            postponed = self._postponed[key, message] = list[CallRecord]()
            try:
                yield chat, postponed
            finally:
                del self._postponed[key, message]
                for call in postponed:
                    self._continue_soon(call)

    async def close(self) -> None:
        """End the background tasks. Another worker, or this one after a restart, continues the answered messages."""
        await self._tasks.close()

    async def take_outputs(self, key: ChatKey, answers: CallAnswers) -> None:
        """Settle the browser outputs that come with a new user message, so that they are kept."""
        offered = {call.call for call in await self._services.gate.not_started(*key) if call.state is State.OFFERED}
        for answer in answers.calls:
            if answer.call in offered:
                try:
                    await self._services.gate.settle(*key, answer.call, _unchecked(answer, answers.message))
                except RequestError as error:
                    logger.info("an output in chat %s was not kept: %s", key.chat, error.message)

    async def _continue_when_possible(self, key: ChatKey, message: str, call_id: str) -> None:
        """Continue a message when no run writes it and no other worker owns the chat; after a failure, try again."""
        pause = _RETRY
        try:
            while not self._ownership.draining:
                try:
                    if await self._is_continued_elsewhere(key, call_id):
                        return
                    async with self._ownership.owned(key) as chat:
                        self._starting.discard((key, call_id))
                        run = chat.run_of_message(message)
                        if run is None:
                            session = None if chat.active else await self._services.runner.load(key)
                            if session is not None and (turn := _last_turn(session, message)) is not None:
                                await self._continue(key, chat, turn)
                            return
                    await run.done.wait()
                except Exception as error:
                    trace = None if isinstance(error, RequestError) else error
                    logger.warning(
                        "message %s in chat %s cannot continue yet: %s", message, key.chat, error, exc_info=trace
                    )
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_RETRY)
        finally:
            self._starting.discard((key, call_id))

    async def _is_continued_elsewhere(self, key: ChatKey, call_id: str) -> bool:
        """If another worker owns the chat, notify it of the answer and wait; return True if it continued."""
        if not await self._ownership.is_owned_elsewhere(key):
            return False
        await send(self._services.signals, Settled(*key, call_id))
        while True:
            is_free = await self._ownership.wait_free(key)
            call = await self._services.gate.get(*key, call_id)
            if call is None or not _is_answered(call):
                return True
            if is_free:
                return False
            self._ownership.refuse_when_draining()

    async def _settle_all(self, key: ChatKey, turn: Turn | None, answers: CallAnswers) -> _TakenAnswers:
        """Settle the answers of a request to pending calls. Those to other calls are repeated, or invented."""
        gate, taken, invented = self._services.gate, _TakenAnswers(), list[str]()
        announced = _announced_calls(turn) if turn is not None else set[str]()
        for answer in answers.calls:
            call, unchecked = await gate.get(*key, answer.call), _unchecked(answer, answers.message)
            if call is not None and (call.state in OPEN or not unchecked.has_output):
                await self._settle(key, call, unchecked, taken)
            elif call is not None:
                taken.repeated.add(call.call)
            elif answer.call not in announced or answer.approved is not None:
                invented.append(answer.call)
        if invented or not answers.calls:
            # One audit entry for all: a client can invent as many as it likes.
            await gate.refuse(*key, invented[0] if invented else "", "not-found")
            taken.errors.append(NotFound(REFUSED))
        return taken

    async def _settle(self, key: ChatKey, call: CallRecord, answer: UncheckedAnswer, taken: _TakenAnswers) -> None:
        """Settle one answer and add the result to `taken`."""
        try:
            after = await self._services.gate.settle(*key, call.call, answer)
        except RequestError as error:
            if answer.approved and (call.state is State.UNKNOWN or call.outcome == "interrupted"):
                # The server was killed while it continued with this answer. The stream of that run has the outcome.
                taken.repeated.add(call.call)
                taken.repeat_errors.append(error)
            else:
                taken.errors.append(error)
            return
        (taken.settled if after.version != call.version else taken.repeated).add(call.call)

    async def _continue_or_repeat(
        self, key: ChatKey, chat: Chat, turn: Turn, answers: CallAnswers, taken: _TakenAnswers
    ) -> Run:
        """Continue the message; for repeated answers return the run that continued with them, but not endlessly."""
        if taken.settled:
            chat.repeats = 0
        elif not chat.count_repeat():
            return await self._refused(key, answers, [Conflict(_REPEATED)])
        if taken.settled or not taken.errors:
            run = await self._continue(key, chat, turn, requested=True)
            if run is not None:
                return run
        if taken.errors:
            return await self._refused(key, answers, taken.errors)
        last = chat.last
        if last is None or last.message_id != answers.message or not taken.repeated & last.delivers:
            return await self._refused(key, answers, taken.repeat_errors or [Conflict(_RELOAD)])
        return last

    async def _continue(self, key: ChatKey, chat: Chat, turn: Turn, *, requested: bool = False) -> Run | None:
        """Begin a continuation if all calls are answered; else show the browser calls that it may execute by now.

        Return None if there is nothing to do. With `requested` a client waits for a run, even one without news.
        """
        gate = self._services.gate
        calls = [call for call in await gate.not_started(*key) if call.message == turn.message_id]
        answered = [call for call in calls if call.state is State.ANSWERED]
        encoder, chunks = turn.encoder(self._services.explain)
        chunks += encoder.pause()
        unsettled = {call for call, _ in encoder.unsettled_calls()}
        for lost in [call for call in calls if call.call not in unsettled]:
            # The process that opened the record died before the session had the approval request.
            await gate.abandon(*key, lost.call, "interrupted")
            calls.remove(lost)
            answered = [call for call in answered if call is not lost]
        if any(call.state in OPEN for call in calls):
            return await self._show_released(key, chat, turn, calls, encoder, chunks, requested=requested)
        if not answered:
            return None
        self._ownership.refuse_when_draining()
        if chat.live is not None and not chat.live.attached:
            await chat.live.park()
        agent = chat.live or self._services.runner
        run = self._new_run(key, turn, encoder, chunks, {call.call for call in answered})
        with_verdict = run.delivers - calls_without_verdict(encoder)

        async def source(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            async with aclosing(agent.go_on(key, tuple(answered), with_verdict, run.stamp, abort)) as events:
                delivered = set[str | None]()
                async for event in events:
                    if event.author == "user":
                        delivered |= {response.id for response in event.get_function_responses()}
                    elif delivered:
                        await self._finish_outputs(key, [call for call in answered if call.call in delivered])
                        delivered.clear()
                    yield event

        await self._ownership.begin(run, chat, source, goes_on=True)
        if chat.live is not None and not requested:
            # No client of the conversation waits for this run, so none would read it.
            chat.live.announce(run)
        return run

    async def _show_released(
        self,
        key: ChatKey,
        chat: Chat,
        turn: Turn,
        calls: list[CallRecord],
        encoder: Encoder,
        prefix: list[Chunk],
        *,
        requested: bool,
    ) -> Run | None:
        """Write the approvals of browser calls while other calls are pending, so that the page executes them."""
        asked = calls_without_verdict(encoder)
        released = [call for call in calls if call.state is State.OFFERED and call.call in asked]
        if not released and not requested:
            return None
        run = self._new_run(key, turn, encoder, prefix, ())
        chunks: list[Chunk] = [encoder.start()]
        for call in released:
            event = verdict_event(call, turn.stamp)
            await self._services.runner.append(key, [event])
            chunks += encoder.feed(event)
        await run.write_whole(self._services.log, [*chunks, *encoder.end()])
        chat.continue_with(run)
        return run

    def _new_run(
        self, key: ChatKey, turn: Turn, encoder: Encoder, prefix: list[Chunk], delivers: Collection[str]
    ) -> Run:
        """Return a run that continues a turn; `prefix` are the chunks of its message so far."""
        content = tuple(text_and_files(turn.user_event)) if turn.user_event is not None else ()
        return Run(
            new_id("run"),
            key,
            UserMessage(turn.user_id, content),
            encoder,
            prefix=for_late_reader(prefix[1:]),
            delivers=delivers,
            invocation=turn.invocation_id,
            author=unanswered_calls_of(turn, encoder).author,
        )

    async def _finish_outputs(self, key: ChatKey, delivered: list[CallRecord]) -> None:
        """Close the records of browser calls whose outputs the agent has got."""
        for call in delivered:
            if is_released(call):
                await self._services.gate.finish(*key, call.call, "answered")

    async def _refused(self, key: ChatKey, answers: CallAnswers, errors: Sequence[RequestError]) -> Run:
        """Return a run that ends with the first error: no client sends its answers again after an error."""
        run = Run(new_id("run"), key, UserMessage("", ()), Encoder(answers.message))
        await run.write_whole(
            self._services.log, [Start(message_id=answers.message), Error(error_text=errors[0].message)]
        )
        return run


def _is_answered(call: CallRecord) -> bool:
    """Return True while a call has an answer that the agent does not have yet."""
    return call.state is State.ANSWERED or (call.state is State.OFFERED and call.answer is not None)


def _last_turn(session: Session, message: str) -> Turn | None:
    """Return the last turn of a session, if that is the one of this message: no other can be continued."""
    found = turns(session.events)
    return found[-1] if found and found[-1].message_id == message else None


def _is_unsettled(turn: Turn, call: str) -> bool:
    """Return True if the agent has not got a response to a call of the turn."""
    return call in {unsettled for unsettled, _ in turn.encoder()[0].unsettled_calls()}


def _announced_calls(turn: Turn) -> set[str]:
    """Return the ids of all calls that the stream of a turn has."""
    _, chunks = turn.encoder()
    return {chunk.tool_call_id for chunk in chunks if isinstance(chunk, ToolInputStart | ToolInputAvailable)}


def _delivers(head: RunHead, answers: CallAnswers) -> bool:
    """Return True if a run of another worker brings one of these answers to the agent."""
    return not {answer.call for answer in answers.calls}.isdisjoint(head.delivers)


def _unchecked(answer: CallAnswer, message: str) -> UncheckedAnswer:
    """Return a stock client's answer with all it repeats of the call, for the gate to check."""
    return UncheckedAnswer(
        approved=answer.approved,
        reason=answer.reason or "",
        output=answer.output,
        error=UNSET if answer.error is None else answer.error,
        echo=Echo(message, answer.tool, answer.approval, answer.input),
    )
