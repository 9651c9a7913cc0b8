"""ToolGate: keeps every call that waits for a person or a browser. No gated call is executed without its claim.

A call is opened once, settled once and claimed once, each by a compare-and-set on its record; of several attempts all
but the first are refused. An answer of another user, for another chat or message, or to a changed call is refused with
one text, which does not say whether there is such a call.
"""

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import UNSET

from adkwire.errors import Conflict, NotFound, RequestError
from adkwire.gate.grants import Grant, grant_of, grant_with, revocation
from adkwire.gate.judge import REFUSED, Judge
from adkwire.gate.policy import Decision, Policy
from adkwire.gate.records import (
    NOT_STARTED,
    OPEN,
    OVER,
    Answer,
    AnswerScope,
    AuditEntry,
    CallRecord,
    Json,
    State,
    UncheckedAnswer,
    VoidReason,
    hash_args,
)
from adkwire.stores.base import CallRow, GateStore
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.javascript import iso

logger = logging.getLogger("adkwire")

CLOCK = "clock"
"""The actor of answers to calls that nobody answered in time."""
_MAX_EXPIRED_AT_ONCE = 100
"""Calls that one `expire` reads and answers at most."""
_decoder = msgspec.json.Decoder(CallRecord)


class ToolGate:
    """The gate of one worker: opens, settles, claims and ends calls, and keeps grants and the audit."""

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
        changed: Callable[[CallRecord], None] = lambda call: None,
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._timeout = timeout
        self._judge = Judge(policy, max_output, browser_timeout)
        self._changed = changed
        self._notes: set[asyncio.Task[None]] = set()
        self.worker = worker or secrets.token_hex(8)
        """The name of this worker in the records that it moves."""

    async def decide(self, user: str, chat: str, tool: str, args: Mapping[str, Json], *, asks: bool) -> Decision:
        """Decide what happens to a call: by the first rule that matches, then by what the user has granted."""
        decision = self._policy.decide(tool, args, asks=asks)
        if decision.action == "ask" and decision.grant != "never":
            grants = _grants(tool, hash_args(args))[: 1 if decision.grant == "same-arguments" else 2]
            if await self._store.granted(user, chat, grants):
                return dataclasses.replace(decision, action="allow", rule=f"granted; {decision.rule}")
        return decision

    async def note(self, call: CallRecord, verdict: str, outcome: str, actor: str) -> None:
        """Add a line about a call to the audit."""
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

    async def open(self, call: CallRecord, seconds: float | None) -> CallRecord:
        """Store a new call, which expires after `seconds`; return its record, or the one that is there already."""
        now = self._clock()
        wait = self._timeout if seconds is None else seconds
        expiry = now + wait if wait else None
        call = msgspec.structs.replace(call, asked_at=now, expires_at=expiry, worker=self.worker)
        if not (await self._store.add(_row(call)) or await self._replace_ended(call)):
            call = await self.get(call.user, call.chat, call.call) or call
        else:
            await self.note(call, "asked" if call.state is State.ASKED else "offered", "waiting", "agent")
            self._notify(call)
        return call

    async def _replace_ended(self, call: CallRecord) -> bool:
        """Replace a call that is over by a new one with its id: some models number their calls anew in each answer."""
        old = await self.get(call.user, call.chat, call.call)
        if old is None or old.state not in OVER or (old.message, old.ask) == (call.message, call.ask):
            return False
        return await self._store_move(msgspec.structs.replace(call, version=old.version)) is not None

    async def settle(
        self, user: str, chat: str, call_id: str, answer: UncheckedAnswer, *, retry: bool = False
    ) -> CallRecord:
        """Store the answer to a call and return the record; the same answer again changes nothing.

        Any other answer to a call that has one is a `Conflict`. With `retry`, an approval lets an UNKNOWN call run
        again, where its rule says so.
        """
        try:
            while True:
                call = await self.get(user, chat, call_id)
                if call is None:
                    raise NotFound(REFUSED)
                if (after := self._judge.answered(call, answer, self._clock(), retry=retry)) is None:
                    return call
                if (stored := await self._store_move(after)) is not None:
                    break
        except RequestError as error:
            await self.refuse(user, chat, call_id, error.code)
            raise
        return await self._settled(stored, answer.scope if answer.scope in stored.scopes else "once")

    async def _release(self, call: CallRecord) -> None:
        """Approve a waiting call because of a new grant, unless it was answered or has expired meanwhile."""
        try:
            after = self._judge.answered(call, UncheckedAnswer(approved=True), self._clock(), retry=False)
        except Conflict:
            return
        if after is not None and (stored := await self._store_move(after)) is not None:
            await self._settled(stored, "once")

    async def refuse(self, user: str, chat: str, call_id: str, why: str) -> None:
        """Log a refused answer, and add it to the audit."""
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

    async def expire(self) -> list[CallRecord]:
        """Answer calls whose time is over on behalf of the clock, and return them.

        These are the earliest, a limited number at once: while there are more, `next_expiry` is in the past.
        """
        now, expired = self._clock(), list[CallRecord]()
        for row in await self._store.expiring(OPEN, now, _MAX_EXPIRED_AT_ONCE):
            try:
                call = _record(row)
            except msgspec.DecodeError:
                # Another version may have written it. It must not keep the others from expiring.
                logger.exception("call %s in chat %s cannot be read, and does not expire", row.call, row.chat)
                continue
            answer = call.answer or Answer(actor=CLOCK, at=now)
            answer = msgspec.structs.replace(answer, actor=CLOCK, at=now, expired=True)
            after = await self._store_move(call.moved(State.ANSWERED, answer=answer))
            if after is not None:
                expired.append(await self._settled(after, "once"))
        return expired

    async def next_expiry(self) -> float | None:
        """Return when the next call of any user expires; None when none does."""
        return await self._store.next_expiry(OPEN)

    async def claim(self, user: str, chat: str, call_id: str, args: Mapping[str, Json]) -> CallRecord | None:
        """Move an approved call to EXECUTING and return it; None means that the caller must not execute it."""
        call = await self.get(user, chat, call_id)
        if call is None or not call.is_claimable:
            return None
        if call.args_hash != hash_args(args) or not self._judge.allows(call.tool, call.final_args):
            await self._end(call, State.DONE, "not executed")
            return None
        return await self._store_move(call.moved(State.EXECUTING))

    async def finish(self, user: str, chat: str, call_id: str, outcome: str) -> None:
        """End a call that was executed, or whose answer has reached the agent."""
        call = await self.get(user, chat, call_id)
        if call is not None and call.state in (State.EXECUTING, State.ANSWERED):
            await self._end(call, State.DONE, outcome)

    async def abandon(self, user: str, chat: str, call_id: str, why: VoidReason) -> bool:
        """End a call whose run has ended without its result; return whether it may have been executed."""
        while (call := await self.get(user, chat, call_id)) is not None:
            after: CallRecord | None = call
            if call.state not in OVER:
                executing = call.state is State.EXECUTING
                after = await self._end(call, *((State.UNKNOWN, "unknown") if executing else (State.VOID, why)))
            if after is not None:
                done = after.state is State.DONE and after.outcome not in ("not executed", "answered")
                return done or after.state is State.UNKNOWN
        return True

    async def void(self, user: str, chat: str, why: VoidReason) -> list[CallRecord]:
        """End all calls of a chat that were not executed, and return them. Those with a browser's output are DONE, the
        others VOID."""
        ended: list[CallRecord] = []
        while left := await self.not_started(user, chat):
            for call in left:
                kept = call.state is State.ANSWERED and call.answer is not None and call.answer.has_output
                after = await self._end(call, State.DONE if kept else State.VOID, "answered" if kept else why)
                ended += [after] if after is not None else []
        return ended

    async def park(self, call: CallRecord) -> None:
        """Make a held call a parked one, with the time that a parked call has to be answered."""
        expiry = self._clock() + self._timeout if self._timeout else None
        after = await self._store_move(msgspec.structs.replace(call, live=False, expires_at=expiry))
        if after is not None:
            self._notify(after)

    async def executing(self, user: str, chat: str) -> list[CallRecord]:
        """Return the calls of a chat that are being executed."""
        return await self._in_states(user, chat, {State.EXECUTING})

    async def reopen(self, call: CallRecord) -> None:
        """Ask about a call again, because the server stopped before its answer reached the agent."""
        after = await self._store_move(call.moved(State.ASKED, answer=None))
        if after is not None:
            self._notify(after)

    async def not_started(self, user: str, chat: str) -> list[CallRecord]:
        """Return the calls of a chat of which nothing was executed yet."""
        return await self._in_states(user, chat, NOT_STARTED)

    async def _in_states(self, user: str, chat: str, states: Collection[State]) -> list[CallRecord]:
        return [_record(row) for row in await self._store.find(user, states, chat)]

    async def calls(self, user: str, chat: str) -> list[CallRecord]:
        """Return all calls of a chat, in the order in which they were opened."""
        return [_record(row) for row in await self._store.calls(user, chat)]

    async def get(self, user: str, chat: str, call_id: str) -> CallRecord | None:
        """Return one call of a chat; None when there is none."""
        row = await self._store.get(user, chat, call_id)
        return _record(row) if row is not None else None

    async def waiting(self, user: str) -> list[CallRecord]:
        """Return the calls in all chats of a user that a person or a browser has to act on."""
        return [_record(row) for row in await self._store.find(user, OPEN)]

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and grants of a deleted chat. Its audit stays."""
        await self._store.forget(user, chat)

    async def audit(self, user: str, chat: str) -> list[AuditEntry]:
        """Return the audit of a chat, oldest line first."""
        return [msgspec.json.decode(line, type=AuditEntry) for line in await self._store.audit_lines(user, chat)]

    async def close(self) -> None:
        """Wait for lines of the audit that are being written, and close the store."""
        await asyncio.gather(*self._notes)
        await self._store.close()

    async def _settled(self, call: CallRecord, scope: AnswerScope) -> CallRecord:
        """Follow up a stored answer: first notify the listener, then write the audit and the grant, which may fail."""
        answer = call.answer
        self._notify(call)
        if answer is not None:
            await self.note(call, answer.verdict, "waiting", answer.actor)
            if answer.approved and scope != "once":
                await self._grant(call, scope)
        return call

    async def _grant(self, call: CallRecord, scope: AnswerScope) -> None:
        """Store a standing approval, and approve with it the calls that wait already and that it covers."""
        args_hash = hash_args(call.final_args)
        what = _grants(call.tool, args_hash)[0 if call.grant == "same-arguments" else 1]
        data = encode_chunk(grant_with(call, scope, self._clock()))
        await self._store.grant(call.user, call.chat if scope == "chat" else "", what, data)
        for other in await self.waiting(call.user):
            if other.state is not State.ASKED or other.tool != call.tool or other.grant == "never":
                continue
            here = scope == "always" or other.chat == call.chat
            same = other.args_hash == args_hash or "same-arguments" not in (call.grant, other.grant)
            if here and same:
                await self._release(other)

    async def grants(self, user: str, limit: int, before: int | None = None) -> list[Grant]:
        """Return the newest standing grants of a user, newest first; with `before` those with smaller ids."""
        return [grant_of(row) for row in await self._store.grants(user, limit, before)]

    async def revoke(self, user: str, grant_id: int) -> None:
        """Take a standing grant back: the next call that it covered asks again. Raise `NotFound` if there is none."""
        row = await self._store.revoke(user, grant_id)
        if row is None:
            raise NotFound("There is no such grant.")
        grant = grant_of(row)
        logger.info("the grant of %s (%s) was taken back", grant.tool, grant.scope)
        await self._write(user, grant.chat, revocation(grant, user, self._clock()))

    async def _end(self, call: CallRecord, state: State, outcome: str) -> CallRecord | None:
        if state is State.VOID and call.retried:
            state, outcome = State.UNKNOWN, "unknown"
        after = await self._store_move(call.moved(state, outcome=outcome))
        if after is not None:
            answer = after.answer
            actor = answer.actor if answer is not None else call.user
            actor = "server" if outcome in ("interrupted", "failed", "unknown") else actor
            verdict = outcome if answer is None else answer.verdict
            # In a task of its own: the line is written also if the calling run is cancelled at this moment.
            note = asyncio.create_task(self.note(after, verdict, outcome, actor), name="adkwire-audit")
            self._notes.add(note)
            note.add_done_callback(self._notes.discard)
            self._notify(after)
            await asyncio.shield(note)
        return after

    def _notify(self, call: CallRecord) -> None:
        """Call the listener with a call that has moved. The move is stored, so no error of the listener may undo it."""
        try:
            self._changed(call)
        except Exception:
            logger.exception("a listener failed when call %s in chat %s became %s", call.call, call.chat, call.state)

    async def _store_move(self, call: CallRecord) -> CallRecord | None:
        call = msgspec.structs.replace(call, worker=self.worker)
        if not await self._store.replace(_row(call)):
            return None
        return msgspec.structs.replace(call, version=call.version + 1)

    async def _write(self, user: str, chat: str, entry: AuditEntry) -> None:
        """Add a line to the audit. What it tells of is done, so if that fails, the server's log has the line."""
        try:
            await self._store.add_audit_line(user, chat, encode_chunk(entry))
        except Exception:
            logger.exception("a line of the audit of chat %s is lost: %s %s", chat, entry.call, entry.verdict)


def _record(row: CallRow) -> CallRecord:
    return msgspec.structs.replace(_decoder.decode(row.data), version=row.version)


def _row(call: CallRecord) -> CallRow:
    return CallRow(
        user=call.user,
        chat=call.chat,
        call=call.call,
        state=call.state,
        data=encode_chunk(call),
        expires_at=call.expires_at,
        version=call.version,
    )


def _grants(tool: str, args_hash: str) -> tuple[str, str]:
    """Return the names of the grants that cover a call: for these arguments, and for any."""
    return f"{tool} {args_hash}", tool
