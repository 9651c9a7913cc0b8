"""ToolGate: the one door of every call that waits. Nothing is executed that was not released here.

A call is opened once, settled once and claimed once, each by a compare-and-set on its record; who comes second is told
so. Somebody who is not the call's user, names another chat or message, or changed what was asked, learns nothing but
that no call waits for the answer.
"""

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import UNSET

from adkwire.errors import Conflict, NotFound, RequestError
from adkwire.gate.judge import REFUSED, Judge
from adkwire.gate.policy import Decision, Policy
from adkwire.gate.records import (
    OPEN,
    OVER,
    UNDECIDED,
    Answer,
    AuditEntry,
    Given,
    Json,
    PendingCall,
    Scope,
    State,
    bind,
)
from adkwire.stores.base import CallRow, GateStore
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.javascript import iso

logger = logging.getLogger("adkwire")

CLOCK = "clock"
"""Who answers a call that nobody answered in time."""
_decoder = msgspec.json.Decoder(PendingCall)


class ToolGate:
    """Opens, settles, claims and closes calls; keeps grants and the audit."""

    def __init__(
        self,
        store: GateStore,
        policy: Policy,
        *,
        clock: Callable[[], float],
        timeout: float = 0,
        browser_timeout: float = 0,
        max_output: int = 16_000,
        worker: str = "",
        changed: Callable[[PendingCall], None] = lambda call: None,
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._timeout = timeout
        self._judge = Judge(policy, max_output, browser_timeout)
        self._changed = changed
        self._notes: set[asyncio.Task[None]] = set()
        self.worker = worker or secrets.token_hex(8)
        """Whose records are this process's own."""

    async def decide(self, user: str, chat: str, tool: str, args: Mapping[str, Json], *, asks: bool) -> Decision:
        """What happens to a call: by the first rule that matches, then by what the user has granted."""
        decision = self._policy.decide(tool, args, asks=asks)
        if decision.action == "ask" and decision.grant != "never":
            grants = _grants(tool, bind(args))[:1] if decision.grant == "same-arguments" else _grants(tool, bind(args))
            if await self._store.granted(user, chat, grants):
                return dataclasses.replace(decision, action="allow", rule=f"granted; {decision.rule}")
        return decision

    async def note(self, call: PendingCall, verdict: str, outcome: str, actor: str) -> None:
        """One line in the audit."""
        answer = call.answer
        await self._write(
            call.user,
            call.chat,
            AuditEntry(
                at=iso(self._clock()),
                actor=actor,
                call=call.call,
                tool=call.tool,
                input=call.input,
                edited=answer.args if answer is not None and answer.args is not None else UNSET,
                reason=answer.reason or UNSET if answer is not None else UNSET,
                verdict=verdict,
                scope=answer.scope if answer is not None else "once",
                outcome=outcome,
            ),
        )

    async def open(self, call: PendingCall, seconds: float | None) -> PendingCall:
        """Let a call wait, for so many seconds. Opening it twice leaves the first record as it is."""
        now = self._clock()
        wait = self._timeout if seconds is None else seconds
        expiry = now + wait if wait else None
        call = msgspec.structs.replace(call, asked_at=now, expires_at=expiry, worker=self.worker)
        if not (await self._store.add(_row(call)) or await self._takes_place(call)):
            call = await self.get(call.user, call.chat, call.call) or call
        else:
            await self.note(call, "asked" if call.state is State.ASKED else "offered", "waiting", "agent")
            self._changed(call)
        return call

    async def _takes_place(self, call: PendingCall) -> bool:
        """Some models number their calls anew in each answer: a question that is over makes room for the next."""
        old = await self.get(call.user, call.chat, call.call)
        if old is None or old.state not in OVER or (old.message, old.ask) == (call.message, call.ask):
            return False
        return await self._store_move(msgspec.structs.replace(call, version=old.version)) is not None

    async def settle(self, user: str, chat: str, call_id: str, given: Given, *, retry: bool = False) -> PendingCall:
        """Take an answer, once. The same answer again changes nothing; any other comes too late.

        With `retry`, a yes to a call whose fate is unknown lets it run again, where its rule says so.
        """
        try:
            while True:
                call = await self.get(user, chat, call_id)
                if call is None:
                    raise NotFound(REFUSED)
                if (after := self._judge.answered(call, given, self._clock(), retry=retry)) is None:
                    return call
                if (stored := await self._store_move(after)) is not None:
                    break
        except RequestError as error:
            await self.refuse(user, chat, call_id, error.code)
            raise
        return await self._settled(stored, given.scope if given.scope in stored.scopes else "once")

    async def _release(self, call: PendingCall) -> None:
        """Approve a waiting call by a grant, unless somebody or the clock was faster."""
        try:
            after = self._judge.answered(call, Given(approved=True), self._clock(), retry=False)
        except Conflict:
            return
        if after is not None and (stored := await self._store_move(after)) is not None:
            await self._settled(stored, "once")

    async def refuse(self, user: str, chat: str, call_id: str, why: str) -> None:
        """Write down an answer that was not taken."""
        logger.info("an answer to call %r in chat %s was refused: %s", call_id[:64], chat, why)
        entry = AuditEntry(
            at=iso(self._clock()),
            actor=user,
            call=call_id[:256],
            tool="",
            input=None,
            verdict="refused",
            scope="",
            outcome=why,
        )
        await self._write(user, chat, entry)

    async def expire(self) -> list[PendingCall]:
        """Answer, for the clock, the calls whose time is over."""
        now, expired = self._clock(), list[PendingCall]()
        for row in await self._store.expiring(OPEN, now):
            call = _record(row)
            given = call.answer or Answer(actor=CLOCK, at=now)
            answer = msgspec.structs.replace(given, actor=CLOCK, at=now, expired=True)
            after = await self._store_move(call.moved(State.ANSWERED, answer=answer))
            if after is not None:
                expired.append(await self._settled(after, "once"))
        return expired

    async def next_expiry(self) -> float | None:
        """When the next call expires, by the clock; None when none does."""
        rows = await self._store.expiring(OPEN, float("inf"))
        return rows[0].expires_at if rows else None

    async def claim(self, user: str, chat: str, call_id: str, args: Mapping[str, Json]) -> PendingCall | None:
        """Begin to execute an approved call. Only one ever gets it; None means: do not execute."""
        call = await self.get(user, chat, call_id)
        if call is None or not call.executes:
            return None
        if call.bound != bind(args) or not self._judge.allows(call.tool, call.used):
            await self._end(call, State.DONE, "not executed")
            return None
        return await self._store_move(call.moved(State.EXECUTING))

    async def finish(self, user: str, chat: str, call_id: str, outcome: str) -> None:
        """Write down what came of a call that was executed, or whose answer has reached the agent."""
        call = await self.get(user, chat, call_id)
        if call is not None and call.state in (State.EXECUTING, State.ANSWERED):
            await self._end(call, State.DONE, outcome)

    async def abandon(self, user: str, chat: str, call_id: str, why: str) -> bool:
        """Its run is over without a result. Says whether it may have been executed: if so, its fate is unknown."""
        while (call := await self.get(user, chat, call_id)) is not None:
            after: PendingCall | None = call
            if call.state not in OVER:
                executing = call.state is State.EXECUTING
                after = await self._end(call, *((State.UNKNOWN, "unknown") if executing else (State.VOID, why)))
            if after is not None:
                done = after.state is State.DONE and after.outcome not in ("not executed", "answered")
                return done or after.state is State.UNKNOWN
        return True

    async def void(self, user: str, chat: str, why: str) -> list[PendingCall]:
        """Take back everything in a chat that was not executed, whoever is about to answer it. Outputs that a browser
        gave are kept."""
        ended: list[PendingCall] = []
        while left := await self.undecided(user, chat):
            for call in left:
                kept = call.state is State.ANSWERED and call.answer is not None and call.answer.has_output
                after = await self._end(call, State.DONE if kept else State.VOID, "answered" if kept else why)
                ended += [after] if after is not None else []
        return ended

    async def park(self, call: PendingCall) -> None:
        """Its live conversation is over: from now on it has the time that a parked call has."""
        expiry = self._clock() + self._timeout if self._timeout else None
        after = await self._store_move(msgspec.structs.replace(call, live=False, expires_at=expiry))
        if after is not None:
            self._changed(after)

    async def executing(self, user: str, chat: str) -> list[PendingCall]:
        """The calls of a chat that were begun and have not ended."""
        return await self._in_states(user, chat, {State.EXECUTING})

    async def reopen(self, call: PendingCall) -> None:
        """The server stopped before an answer reached the agent: ask again."""
        after = await self._store_move(call.moved(State.ASKED, answer=None))
        if after is not None:
            self._changed(after)

    async def undecided(self, user: str, chat: str) -> list[PendingCall]:
        """The calls of a chat that nothing was done about yet."""
        return await self._in_states(user, chat, UNDECIDED)

    async def _in_states(self, user: str, chat: str, states: Collection[State]) -> list[PendingCall]:
        return [_record(row) for row in await self._store.find(user, states) if row.chat == chat]

    async def of(self, user: str, chat: str) -> list[PendingCall]:
        """All calls of a chat, in their order."""
        return [_record(row) for row in await self._store.calls(user, chat)]

    async def get(self, user: str, chat: str, call_id: str) -> PendingCall | None:
        """One call of a chat."""
        row = await self._store.get(user, chat, call_id)
        return _record(row) if row is not None else None

    async def waiting(self, user: str) -> list[PendingCall]:
        """The calls in all of a user's chats that somebody has to act on."""
        return [_record(row) for row in await self._store.find(user, OPEN)]

    async def forget(self, user: str, chat: str) -> None:
        """The chat is gone; its audit stays."""
        await self._store.forget(user, chat)

    async def audit(self, user: str, chat: str) -> list[AuditEntry]:
        """Who asked, who answered, what came of it; oldest first."""
        return [msgspec.json.decode(line, type=AuditEntry) for line in await self._store.lines(user, chat)]

    async def close(self) -> None:
        """Let go of the store."""
        await asyncio.gather(*self._notes)
        await self._store.close()

    async def _settled(self, call: PendingCall, scope: Scope) -> PendingCall:
        """An answer is taken: first those who wait for it are told, whatever may fail after that."""
        answer = call.answer
        self._changed(call)
        if answer is not None:
            await self.note(call, answer.verdict, "waiting", answer.actor)
            if answer.approved and scope != "once":
                await self._grant(call, scope)
        return call

    async def _grant(self, call: PendingCall, scope: Scope) -> None:
        """Remember a standing approval, and release with it the equal calls that wait already."""
        bound = bind(call.used)
        what = _grants(call.tool, bound)[0 if call.grant == "same-arguments" else 1]
        await self._store.grant(call.user, call.chat if scope == "chat" else "", what)
        for other in await self.waiting(call.user):
            if other.state is not State.ASKED or other.tool != call.tool or other.grant == "never":
                continue
            here = scope == "always" or other.chat == call.chat
            same = other.bound == bound or "same-arguments" not in (call.grant, other.grant)
            if here and same:
                await self._release(other)

    async def _end(self, call: PendingCall, state: State, outcome: str) -> PendingCall | None:
        if state is State.VOID and call.retried:
            state, outcome = State.UNKNOWN, "unknown"
        after = await self._store_move(call.moved(state, outcome=outcome))
        if after is not None:
            answer = after.answer
            actor = answer.actor if answer is not None else call.user
            actor = "server" if outcome in ("interrupted", "failed", "unknown") else actor
            verdict = outcome if answer is None else answer.verdict
            # A run that is stopped at this moment must not take the line with it.
            note = asyncio.create_task(self.note(after, verdict, outcome, actor), name="adkwire-audit")
            self._notes.add(note)
            note.add_done_callback(self._notes.discard)
            self._changed(after)
            await asyncio.shield(note)
        return after

    async def _store_move(self, call: PendingCall) -> PendingCall | None:
        call = msgspec.structs.replace(call, worker=self.worker)
        if not await self._store.replace(_row(call)):
            return None
        return msgspec.structs.replace(call, version=call.version + 1)

    async def _write(self, user: str, chat: str, entry: AuditEntry) -> None:
        """What was done is done, also when it cannot be written down: then the log has it."""
        try:
            await self._store.write(user, chat, encode_chunk(entry))
        except RequestError:
            logger.exception("a line of the audit of chat %s is lost: %s %s", chat, entry.call, entry.verdict)


def _record(row: CallRow) -> PendingCall:
    return msgspec.structs.replace(_decoder.decode(row.data), version=row.version)


def _row(call: PendingCall) -> CallRow:
    return CallRow(
        user=call.user,
        chat=call.chat,
        call=call.call,
        state=call.state,
        data=encode_chunk(call),
        expires_at=call.expires_at,
        version=call.version,
    )


def _grants(tool: str, bound: str) -> tuple[str, str]:
    """The standing approvals that cover a call: for these arguments, and for any."""
    return f"{tool} {bound}", tool
