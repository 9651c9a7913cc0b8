"""Answering: the way of an answer from a client to the agent, and the continuation it lets run.

An answer is settled at the gate first, whatever runs. When no call of the step waits for anybody any more, the message
goes on: the answers are handed to ADK, and what it does with them is written into the same message.
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
from adkwire.gate.records import OPEN, Echo, PendingCall, State, UncheckedAnswer
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

_LOOPING = "The same answers came again and again, and nothing is left to do. Load the chat again."
_RETRY, _LONGEST_RETRY = 1.0, 60.0
"""Seconds until a store that was away is tried again."""
_RELOAD = "This call was already answered. Load the chat again to see what came of it."


@dataclass
class _Taken:
    """What became of the answers of one request."""

    settled: set[str] = field(default_factory=set[str])
    known: set[str] = field(default_factory=set[str])
    """Calls whose answer was known already."""
    refused: list[RequestError] = field(default_factory=list[RequestError])
    otherwise: list[RequestError] = field(default_factory=list[RequestError])
    """What is said of known answers when what came of them cannot be told again."""


class RunContinuer:
    """Takes answers and lets messages go on."""

    def __init__(self, services: RunServices, ownership: Ownership) -> None:
        self._services = services
        self._ownership = ownership
        self._tasks = Tasks()
        self._starting: set[tuple[ChatKey, str]] = set()
        """The answered calls whose task has not looked yet whether their message can continue."""
        self._postponed: dict[tuple[ChatKey, str], list[PendingCall]] = {}
        """The calls that were answered while a request takes the answers of their message, by chat and message."""
        ownership.answered = self._continue_soon

    async def repost(self, key: ChatKey, answers: CallAnswers, *, live: bool = False) -> Run:
        """Answers that a stock client sends with its message; the run that brings what comes of them.

        While somebody is in a live conversation they are only taken there.
        """
        await self._ownership.refuse_when_live_elsewhere(key)
        head = await self._ownership.run_elsewhere(key)
        if head is not None and head.message == answers.message and _delivers(head, answers):
            return Run.over(head)
        taken: _Taken | None = None
        while True:
            async with self._taking_answers(key, answers.message) as (chat, postponed):
                session = await self._services.runner.load(key)
                if session is not None and chat.live is not None and not live:
                    await self._ownership.park_live(chat)
                    session = await self._services.runner.load(key)
                if session is None:
                    return await self._refused(key, answers, [NotFound(REFUSED)])
                turn = _last_turn(session, answers.message)
                run = chat.writing(answers.message)
                if taken is None:
                    taken = await self._take(key, turn, answers)
                if turn is None or (run is None and chat.active):
                    over = Conflict(_RELOAD if taken.known else too_late_text("superseded"))
                    return await self._refused(key, answers, taken.refused or [over])
                if run is None:
                    run = await self._proceed(key, chat, turn, answers, taken)
                    postponed.clear()
                    return run
                if chat.live is not None and chat.live.writes(answers.message):
                    return await self._held(key, run, answers, taken)
                if not taken.settled or taken.settled & run.delivers:
                    return run
            await run.done.wait()

    async def _held(self, key: ChatKey, run: Run, answers: CallAnswers, taken: _Taken) -> Run:
        """Answers to calls of a live conversation, which goes on with each by itself."""
        if not taken.settled and run.encoder.is_waiting:
            return await self._refused(key, answers, taken.refused or [Conflict(_RELOAD)])
        return run

    async def answer(self, key: ChatKey, call_id: str, given: UncheckedAnswer) -> PendingCall:
        """Take the answer to one call. When it was the last one of its step, the message continues."""
        gate = self._services.gate
        self._ownership.refuse_when_draining()
        call = await gate.get(*key, call_id)
        if call is None and not await self._services.runner.exists(key):
            # Nothing is done about a chat that does not exist, not even a line in its audit.
            raise NotFound(REFUSED)
        if call is None or await self._ownership.is_owned_elsewhere(key):
            return await self._answer_there(key, call_id, given)
        async with self._taking_answers(key, call.message) as (chat, postponed):
            call = await gate.get(*key, call_id) or call
            turn, writes = None, bool(chat.active)
            if not writes or call.state is State.UNKNOWN:
                session = await self._services.runner.load(key)
                if session is None:
                    raise NotFound(REFUSED)
                turn = _last_turn(session, call.message)
            retry = call.state is State.UNKNOWN and turn is not None and _is_unsettled(turn, call_id)
            settled = await gate.settle(*key, call_id, given, retry=retry)
            # Also when the answer was known: the worker that took it may have died before the message continued.
            if not writes and turn is not None:
                await self._continue(key, chat, turn)
                postponed.clear()
            return settled

    async def _answer_there(self, key: ChatKey, call_id: str, given: UncheckedAnswer) -> PendingCall:
        """Take an answer while another worker owns the chat. That worker continues, or its live conversation does."""
        settled = await self._services.gate.settle(*key, call_id, given)
        # Also when the answer was known already: the worker that took it may have died before the message continued.
        self._continue_soon(settled)
        return settled

    def changed(self, call: PendingCall) -> None:
        """Continue the message of a call that was answered, if that is up to this worker.

        It is when this worker took the answer, or owns the chat.
        """
        chat = self._services.chats.get(ChatKey(call.user, call.chat))
        if call.worker == self._services.gate.worker or (chat is not None and not chat.idle):
            self._continue_soon(call)

    def _continue_soon(self, call: PendingCall) -> None:
        """Start a task that continues the message of a call, if the call is answered."""
        key = ChatKey(call.user, call.chat)
        if (postponed := self._postponed.get((key, call.message))) is not None:
            postponed.append(call)
        elif _is_answered(call) and (key, call.call) not in self._starting:
            self._starting.add((key, call.call))
            self._tasks.start(self._continue_when_possible(key, call.message, call.call), f"continue-{call.call}")

    @asynccontextmanager
    async def _taking_answers(self, key: ChatKey, message: str) -> AsyncGenerator[tuple[Chat, list[PendingCall]], None]:
        """Own a chat, and list the calls of a message that are answered meanwhile.

        A request that continues the message itself clears the list; tasks are started for the calls that are left.
        """
        async with self._ownership.owned(key) as chat:
            postponed = self._postponed[key, message] = list[PendingCall]()
            try:
                yield chat, postponed
            finally:
                del self._postponed[key, message]
                for call in postponed:
                    self._continue_soon(call)

    async def close(self) -> None:
        """End the background tasks. Another worker, or the next start, continues with what has its answers."""
        await self._tasks.close()

    async def take_outputs(self, key: ChatKey, answers: CallAnswers) -> None:
        """What the browser had done when the user typed over it is kept."""
        offered = {call.call for call in await self._services.gate.undecided(*key) if call.state is State.OFFERED}
        for answer in answers.calls:
            if answer.call in offered:
                try:
                    await self._services.gate.settle(*key, answer.call, _unchecked(answer, answers.message))
                except RequestError as error:
                    logger.info("an output in chat %s was not kept: %s", key.chat, error.message)

    async def _continue_when_possible(self, key: ChatKey, message: str, call_id: str) -> None:
        """Continue a message once no run writes it, however long a store is away or another worker owns the chat."""
        pause = _RETRY
        try:
            while not self._ownership.draining:
                try:
                    if await self._is_continued_elsewhere(key, call_id):
                        return
                    async with self._ownership.owned(key) as chat:
                        self._starting.discard((key, call_id))
                        run = chat.writing(message)
                        if run is None:
                            if not chat.active and (turn := await self._turn(key, message)) is not None:
                                await self._continue(key, chat, turn)
                            return
                    await run.done.wait()
                except Exception as error:
                    trace = None if isinstance(error, RequestError) else error
                    logger.warning(
                        "message %s in chat %s cannot go on yet: %s", message, key.chat, error, exc_info=trace
                    )
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_RETRY)
        finally:
            self._starting.discard((key, call_id))

    async def _is_continued_elsewhere(self, key: ChatKey, call_id: str) -> bool:
        """If another worker owns the chat, tell it of the answer and wait; return True if it continued with it."""
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

    async def _turn(self, key: ChatKey, message: str) -> Turn | None:
        session = await self._services.runner.load(key)
        return _last_turn(session, message) if session is not None else None

    async def _take(self, key: ChatKey, turn: Turn | None, answers: CallAnswers) -> _Taken:
        """Settle every answer to a call that waits; what else a client's message says is history, or made up."""
        gate, taken, made_up = self._services.gate, _Taken(), list[str]()
        announced = _announced(turn) if turn is not None else set[str]()
        for answer in answers.calls:
            call, given = await gate.get(*key, answer.call), _unchecked(answer, answers.message)
            if call is not None and (call.state in OPEN or not given.has_output):
                await self._settle(key, call, given, taken)
            elif call is not None:
                taken.known.add(call.call)
            elif answer.call not in announced or answer.approved is not None:
                made_up.append(answer.call)
        if made_up or not answers.calls:
            # One line for all: a client can make up as many as it likes.
            await gate.refuse(*key, made_up[0] if made_up else "", "not-found")
            taken.refused.append(NotFound(REFUSED))
        return taken

    async def _settle(self, key: ChatKey, call: PendingCall, given: UncheckedAnswer, taken: _Taken) -> None:
        try:
            after = await self._services.gate.settle(*key, call.call, given)
        except RequestError as error:
            if given.approved and (call.state is State.UNKNOWN or call.outcome == "interrupted"):
                # What is known of it was told by the run that brought the answer, when its server was killed.
                taken.known.add(call.call)
                taken.otherwise.append(error)
            else:
                taken.refused.append(error)
            return
        (taken.settled if after.version != call.version else taken.known).add(call.call)

    async def _proceed(self, key: ChatKey, chat: Chat, turn: Turn, answers: CallAnswers, taken: _Taken) -> Run:
        """Go on with the message; with nothing new, tell once more what came of it, but not for ever."""
        if taken.settled:
            chat.repeats = 0
        elif chat.is_looping():
            return await self._refused(key, answers, [Conflict(_LOOPING)])
        if taken.settled or not taken.refused:
            run = await self._continue(key, chat, turn, always=True)
            if run is not None:
                return run
        if taken.refused:
            return await self._refused(key, answers, taken.refused)
        last = chat.last
        if last is None or last.message_id != answers.message or not taken.known & last.delivers:
            return await self._refused(key, answers, taken.otherwise or [Conflict(_RELOAD)])
        return last

    async def _continue(self, key: ChatKey, chat: Chat, turn: Turn, *, always: bool = False) -> Run | None:
        """Hand the answers to the agent when all are there; until then, show what the browser may do already."""
        gate = self._services.gate
        calls = [call for call in await gate.undecided(*key) if call.message == turn.message_id]
        given = [call for call in calls if call.state is State.ANSWERED]
        encoder, chunks = turn.encoder(self._services.explain)
        chunks += encoder.pause()
        unsettled = {call for call, _ in encoder.unsettled_calls()}
        for lost in [call for call in calls if call.call not in unsettled]:
            # The process that asked died before the session had the question.
            await gate.abandon(*key, lost.call, "interrupted")
            calls.remove(lost)
            given = [call for call in given if call is not lost]
        if any(call.state in OPEN for call in calls):
            return await self._released(key, chat, turn, calls, encoder, chunks, always=always)
        if not given:
            return None
        self._ownership.refuse_when_draining()
        if chat.live is not None and not chat.live.attached:
            await chat.live.park()
        by = chat.live or self._services.runner
        run = self._run(key, turn, encoder, chunks, {call.call for call in given})
        told = run.delivers - calls_without_verdict(encoder)

        async def source(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            async with aclosing(by.go_on(key, tuple(given), told, run.stamp, abort)) as events:
                handed = set[str | None]()
                async for event in events:
                    if event.author == "user":
                        handed |= {response.id for response in event.get_function_responses()}
                    elif handed:
                        await self._delivered(key, [call for call in given if call.call in handed])
                        handed.clear()
                    yield event

        await self._ownership.begin(run, chat, source, goes_on=True)
        if chat.live is not None and not always:
            # Nobody has asked for it here, so nobody reads it yet.
            chat.live.begun(run)
        return run

    async def _released(
        self,
        key: ChatKey,
        chat: Chat,
        turn: Turn,
        calls: list[PendingCall],
        encoder: Encoder,
        prefix: list[Chunk],
        *,
        always: bool,
    ) -> Run | None:
        """Others are still awaited. A browser call that was approved is shown as such, so that the page executes it."""
        asked = calls_without_verdict(encoder)
        released = [call for call in calls if call.state is State.OFFERED and call.call in asked]
        if not released and not always:
            return None
        run = self._run(key, turn, encoder, list(prefix), ())
        out: list[Chunk] = [encoder.start()]
        for call in released:
            event = verdict_event(call, turn.stamp)
            await self._services.runner.append(key, [event])
            out += encoder.feed(event)
        await run.tell(self._services.log, [*out, *encoder.end()])
        chat.continue_with(run)
        return run

    def _run(self, key: ChatKey, turn: Turn, encoder: Encoder, prefix: list[Chunk], delivers: Collection[str]) -> Run:
        said = UserMessage(turn.user_id, tuple(text_and_files(turn.user_event)) if turn.user_event is not None else ())
        return Run(
            new_id("run"),
            key,
            said,
            encoder,
            prefix=for_late_reader(prefix[1:]),
            delivers=delivers,
            invocation=turn.invocation_id,
            author=unanswered_calls_of(turn, encoder).author,
        )

    async def _delivered(self, key: ChatKey, given: list[PendingCall]) -> None:
        """The agent goes on: it has the outputs that the browser gave."""
        for call in given:
            if is_released(call):
                await self._services.gate.finish(*key, call.call, "answered")

    async def _refused(self, key: ChatKey, answers: CallAnswers, errors: Sequence[RequestError]) -> Run:
        """Say why nothing is done, in a stream: an error ends every client's loop."""
        run = Run(new_id("run"), key, UserMessage("", ()), Encoder(answers.message))
        await run.tell(self._services.log, [Start(message_id=answers.message), Error(error_text=errors[0].message)])
        return run


def _is_answered(call: PendingCall) -> bool:
    """Return True while a call has an answer that the agent does not have yet."""
    return call.state is State.ANSWERED or (call.state is State.OFFERED and call.answer is not None)


def _last_turn(session: Session, message: str) -> Turn | None:
    """Return the last turn of a session, if that is the one of this message: no other can be continued."""
    found = turns(session.events)
    return found[-1] if found and found[-1].message_id == message else None


def _is_unsettled(turn: Turn, call: str) -> bool:
    """Return True if the agent has not got a response to a call of the turn."""
    return call in {unsettled for unsettled, _ in turn.encoder()[0].unsettled_calls()}


def _announced(turn: Turn) -> set[str]:
    _, chunks = turn.encoder()
    return {chunk.tool_call_id for chunk in chunks if isinstance(chunk, ToolInputStart | ToolInputAvailable)}


def _delivers(head: RunHead, answers: CallAnswers) -> bool:
    """Whether another worker is bringing these answers to the agent."""
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
