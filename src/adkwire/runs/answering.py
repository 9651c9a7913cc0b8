"""Answering: the way of an answer from a client to the agent, and the continuation it lets run.

An answer is settled at the gate first, whatever runs. When no call of the step waits for anybody any more, the message
goes on: the answers are handed to ADK, and what it does with them is written into the same message.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec
from google.adk.events.event import Event

from adkwire.errors import Conflict, NotFound, RequestError
from adkwire.gate.judge import REFUSED, late
from adkwire.gate.records import OPEN, Given, PendingCall, State
from adkwire.runs.chats import Chat
from adkwire.runs.history import Turn, said_in
from adkwire.runs.ids import new_id
from adkwire.runs.keeper import Keeper
from adkwire.runs.own_events import is_released, verdict_event
from adkwire.runs.parked import given_by, loose_ends_of, untold
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
from adkwire.stores.base import RunHead
from adkwire.wire.chunks import Chunk, Error, Start, ToolInputAvailable, ToolInputStart
from adkwire.wire.decoder import Answers, UserMessage
from adkwire.wire.encoder import Encoder
from adkwire.wire.latecomers import for_latecomers

logger = logging.getLogger("adkwire")

_LOOPING = "The same answers came again and again, and nothing is left to do. Load the chat again."
_RETRY, _LONGEST_RETRY = 1.0, 60.0
"""Seconds until a store that was away is tried again."""
SETTLED = "settled"
"""The topic on which workers tell each other of answers."""
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


class Settled(msgspec.Struct, frozen=True):
    """What one worker tells the others: a call has its answer."""

    user: str
    chat: str
    call: str


class Answering:
    """Takes answers and lets messages go on."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._tasks: set[asyncio.Task[None]] = set()
        self._soon: set[tuple[ChatKey, str]] = set()
        """The messages that somebody is about to look after."""
        keeper.answered = self.changed

    async def repost(self, key: ChatKey, answers: Answers, *, live: bool = False) -> Run:
        """Answers that a stock client sends with its message; the run that brings what comes of them.

        While somebody is in a live conversation they are only taken there.
        """
        await self._keeper.refuse_when_live_elsewhere(key)
        head = await self._keeper.elsewhere(key)
        if head is not None and head.message == answers.message and _delivers(head, answers):
            return Run.over(head)
        taken: _Taken | None = None
        while True:
            async with self._keeper.owned(key) as chat:
                if not await self._keeper.exists(key):
                    return await self._refused(key, answers, [NotFound(REFUSED)])
                if not live:
                    await self._keeper.take_from_live(chat)
                turn = await self._turn(key, answers.message)
                run = chat.writing(answers.message)
                if taken is None:
                    taken = await self._take(key, turn, answers)
                if turn is None or (run is None and chat.active):
                    over = Conflict(_RELOAD if taken.known else late("superseded"))
                    return await self._refused(key, answers, taken.refused or [over])
                if run is None:
                    return await self._proceed(key, chat, turn, answers, taken)
                if chat.live is not None and chat.live.carries(answers.message):
                    return await self._held(key, run, answers, taken)
                if not taken.settled or taken.settled & run.delivers:
                    return run
            await run.done.wait()

    async def _held(self, key: ChatKey, run: Run, answers: Answers, taken: _Taken) -> Run:
        """Answers to calls of a live conversation, which goes on with each by itself."""
        if not taken.settled and run.encoder.is_held:
            return await self._refused(key, answers, taken.refused or [Conflict(_RELOAD)])
        return run

    async def answer(self, key: ChatKey, call_id: str, given: Given) -> PendingCall:
        """One answer that comes by itself. When it was the last one of its step, the message goes on."""
        self._keeper.refuse_when_draining()
        if not await self._keeper.exists(key):
            raise NotFound(REFUSED)
        if await self._keeper.is_elsewhere(key):
            return await self._answer_there(key, call_id, given)
        async with self._keeper.owned(key) as chat:
            call = await self._keeper.gate.get(*key, call_id)
            retry = call is not None and call.state is State.UNKNOWN and await self._is_unanswered(key, call)
            settled = await self._keeper.gate.settle(*key, call_id, given, retry=retry)
            # Also when it was known already: whoever gave it may have died before the message could go on.
            if not chat.active and (turn := await self._turn(key, settled.message)) is not None:
                await self._continue(key, chat, turn)
            return settled

    async def _answer_there(self, key: ChatKey, call_id: str, given: Given) -> PendingCall:
        """Another worker writes in the chat: it goes on with the call, or a live conversation there does."""
        settled = await self._keeper.gate.settle(*key, call_id, given)
        await self._keeper.signals.send(SETTLED, msgspec.json.encode(Settled(*key, call_id)))
        return settled

    async def _is_unanswered(self, key: ChatKey, call: PendingCall) -> bool:
        """Whether the agent has not been told yet what became of a call."""
        turn = await self._turn(key, call.message)
        return turn is not None and call.call in {one for one, _ in turn.encoder()[0].unsettled_calls()}

    def changed(self, call: PendingCall) -> None:
        """A call has its answer, from wherever it came: see whether its message can go on."""
        what = ChatKey(call.user, call.chat), call.message
        answered = call.state is State.ANSWERED or (call.state is State.OFFERED and call.answer is not None)
        if answered and what not in self._soon:
            self._soon.add(what)
            task = asyncio.create_task(self._go_on_soon(*what), name=f"adkwire-answer-{call.call}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Let what was begun here end."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def take_outputs(self, key: ChatKey, answers: Answers) -> None:
        """What the browser had done when the user typed over it is kept."""
        offered = {call.call for call in await self._keeper.gate.undecided(*key) if call.state is State.OFFERED}
        for answer in answers.calls:
            if answer.call in offered:
                try:
                    await self._keeper.gate.settle(*key, answer.call, given_by(answer, answers.message))
                except RequestError as error:
                    logger.info("an output in chat %s was not kept: %s", key.chat, error.message)

    async def _go_on_soon(self, key: ChatKey, message: str) -> None:
        """Go on with a message once nothing writes it, however long a store is away."""
        wait = _RETRY
        while not self._keeper.draining:
            try:
                async with self._keeper.owned(key) as chat:
                    self._soon.discard((key, message))
                    run = chat.writing(message)
                    if run is None:
                        if not chat.active and (turn := await self._turn(key, message)) is not None:
                            await self._continue(key, chat, turn)
                        return
                await run.done.wait()
            except RequestError as error:
                logger.warning("chat %s cannot go on yet: %s", key.chat, error.message)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_RETRY)

    async def _turn(self, key: ChatKey, message: str) -> Turn | None:
        """The chat's last turn, if that is the one that made this message: nothing else can be answered."""
        told = await self._keeper.turns(key)
        return told[-1] if told and told[-1].message_id == message else None

    async def _take(self, key: ChatKey, turn: Turn | None, answers: Answers) -> _Taken:
        """Settle every answer to a call that waits; what else a client's message says is history, or made up."""
        gate, taken, made_up = self._keeper.gate, _Taken(), list[str]()
        announced = _announced(turn) if turn is not None else set[str]()
        for answer in answers.calls:
            call, given = await gate.get(*key, answer.call), given_by(answer, answers.message)
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

    async def _settle(self, key: ChatKey, call: PendingCall, given: Given, taken: _Taken) -> None:
        try:
            after = await self._keeper.gate.settle(*key, call.call, given)
        except RequestError as error:
            if given.approved and (call.state is State.UNKNOWN or call.outcome == "interrupted"):
                # What is known of it was told by the run that brought the answer, when its server was killed.
                taken.known.add(call.call)
                taken.otherwise.append(error)
            else:
                taken.refused.append(error)
            return
        (taken.settled if after.version != call.version else taken.known).add(call.call)

    async def _proceed(self, key: ChatKey, chat: Chat, turn: Turn, answers: Answers, taken: _Taken) -> Run:
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
        gate = self._keeper.gate
        calls = [call for call in await gate.undecided(*key) if call.message == turn.message_id]
        given = [call for call in calls if call.state is State.ANSWERED]
        encoder, chunks = turn.encoder(self._keeper.explain)
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
        self._keeper.refuse_when_draining()
        if chat.live is not None and not chat.live.attached:
            await chat.live.park()
        by = chat.live or self._keeper.adk
        run = self._run(key, turn, encoder, chunks, {call.call for call in given})
        told = run.delivers - untold(encoder)

        async def source(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            async with aclosing(by.go_on(key, tuple(given), told, run.mark, abort)) as events:
                handed = set[str | None]()
                async for event in events:
                    if event.author == "user":
                        handed |= {response.id for response in event.get_function_responses()}
                    elif handed:
                        await self._delivered(key, [call for call in given if call.call in handed])
                        handed.clear()
                    yield event

        await self._keeper.begin(run, chat, source, goes_on=True)
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
        asked = untold(encoder)
        released = [call for call in calls if call.state is State.OFFERED and call.call in asked]
        if not released and not always:
            return None
        run = self._run(key, turn, encoder, list(prefix), ())
        out: list[Chunk] = [encoder.start()]
        for call in released:
            event = verdict_event(call, turn.mark)
            await self._keeper.adk.append(key, [event])
            out += encoder.feed(event)
        await run.tell(self._keeper.log, [*out, *encoder.end()])
        chat.continue_with(run)
        return run

    def _run(self, key: ChatKey, turn: Turn, encoder: Encoder, prefix: list[Chunk], delivers: Collection[str]) -> Run:
        said = UserMessage(turn.user_id, tuple(said_in(turn.asked)) if turn.asked is not None else ())
        return Run(
            new_id("run"),
            key,
            said,
            encoder,
            prefix=for_latecomers(prefix[1:]),
            delivers=delivers,
            invocation=turn.invocation_id,
            author=loose_ends_of(turn, encoder).author,
        )

    async def _delivered(self, key: ChatKey, given: list[PendingCall]) -> None:
        """The agent goes on: it has the outputs that the browser gave."""
        for call in given:
            if is_released(call):
                await self._keeper.gate.finish(*key, call.call, "answered")

    async def _refused(self, key: ChatKey, answers: Answers, errors: Sequence[RequestError]) -> Run:
        """Say why nothing is done, in a stream: an error ends every client's loop."""
        run = Run(new_id("run"), key, UserMessage("", ()), Encoder(answers.message))
        await run.tell(self._keeper.log, [Start(message_id=answers.message), Error(error_text=errors[0].message)])
        return run


def _announced(turn: Turn) -> set[str]:
    _, chunks = turn.encoder()
    return {chunk.tool_call_id for chunk in chunks if isinstance(chunk, ToolInputStart | ToolInputAvailable)}


def _delivers(head: RunHead, answers: Answers) -> bool:
    """Whether another worker is bringing these answers to the agent."""
    return not {answer.call for answer in answers.calls}.isdisjoint(head.delivers)
