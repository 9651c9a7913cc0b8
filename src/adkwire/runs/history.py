"""The chat list and the history of chats, as they are while runs go on."""

from collections import Counter

from google.adk.sessions.session import Session
from msgspec import UNSET

from adkwire.errors import NotFound
from adkwire.gate.records import OPEN, CallRecord
from adkwire.runs import views
from adkwire.runs.ownership import Ownership
from adkwire.runs.run import Run
from adkwire.runs.services import RunServices
from adkwire.stores.base import ChatKey
from adkwire.wire.javascript import iso


class History:
    """Reads chats from their sessions, with the runs that are writing and the calls that are pending."""

    def __init__(self, services: RunServices, ownership: Ownership) -> None:
        self._services = services
        self._ownership = ownership

    async def chats(self, user: str, *, limit: int, before: str | None) -> views.ChatList:
        """Return a page of the user's chats, newest first."""
        sessions = sorted(await self._services.runner.all_of(user), key=views.cursor, reverse=True)
        if before is not None:
            sessions = [session for session in sessions if views.cursor(session) < before]
        pending = Counter(call.chat for call in await self._services.gate.waiting(user))
        here = [run.head for run in self._services.chats.all_active() if not run.waits]
        writing = [*here, *await self._ownership.runs_elsewhere(user)]
        active = {head.chat for head in writing if head.user == user}
        page = [views.summary(session, session.id in active, pending[session.id]) for session in sessions[:limit]]
        following = views.cursor(sessions[limit - 1]) if len(sessions) > limit else UNSET
        return views.ChatList(page, following)

    async def messages(self, key: ChatKey, *, limit: int | None, before: str | None) -> views.ChatHistory:
        """Return a chat with its messages, all or a page of them."""
        await self._ownership.load_when_new(key)
        session, writing, calls = await self._at_one_moment(key)
        run = self._services.chats.running(key)
        elsewhere = None if run is not None else await self._ownership.run_elsewhere(key)
        if session is None and run is None:
            raise NotFound("There is no such chat.")
        user_messages = [run.user_message for run in writing]
        if not user_messages and elsewhere is not None:
            user_messages = [views.stored_user_message(session, elsewhere.user_message)]
        messages = views.messages_of(session, user_messages, calls, self._services.explain)
        messages, following = views.page(messages, limit, before)
        active = run.head if run is not None else elsewhere
        now = iso(self._services.clock())
        return views.ChatHistory(
            id=key.chat,
            title=views.title_of(session) or (views.title_for(run.user_message) if run is not None else ""),
            created_at=views.created_at(session) or now,
            updated_at=iso(session.last_update_time) if session is not None else now,
            active=views.ActiveRun(active.run) if active is not None else None,
            messages=messages,
            pending=[views.pending(call) for call in calls if call.state in OPEN],
            retryable=views.retryable(session, calls) if active is None else [],
            next=following,
        )

    async def grants(self, user: str, *, limit: int, before: int | None) -> views.GrantList:
        """Return a page of the user's standing grants, newest first, with the titles of their chats."""
        found = await self._services.gate.grants(user, limit + 1, before)
        titles = {"": ""}
        for chat in {grant.chat for grant in found[:limit] if grant.scope == "chat"}:
            titles[chat] = views.title_of(await self._services.runner.load(ChatKey(user, chat), recent=0))
        page = [views.standing_grant(grant, titles.get(grant.chat, "")) for grant in found[:limit]]
        return views.GrantList(page, page[-1].id if len(found) > limit else UNSET)

    async def summary(self, key: ChatKey) -> views.ChatSummary:
        """Return a chat in which nothing is being written as a line of the list."""
        pending = sum(call.chat == key.chat for call in await self._services.gate.waiting(key.user))
        return views.summary(await self.session(key), False, pending)

    async def session(self, key: ChatKey) -> Session:
        """Return the session of a chat, without its events; raise `NotFound` if there is none."""
        session = await self._services.runner.load(key, recent=0)
        if session is None:
            raise NotFound("There is no such chat.")
        return session

    async def _at_one_moment(self, key: ChatKey) -> tuple[Session | None, list[Run], list[CallRecord]]:
        """Return the session, the runs that write in it and its calls, read while no run began or ended."""
        chats = self._services.chats
        while True:
            writing, last = chats.producing(key), chats.last(key)
            session = await self._services.runner.load(key)
            calls = await self._services.gate.calls(*key)
            if (writing, last) == (chats.producing(key), chats.last(key)):
                return session, writing, calls
