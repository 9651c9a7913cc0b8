"""The session store of a bridge: one connection, which cancelled operations leave usable."""

import asyncio
import gc
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkwire.adk.sessions import SqliteSessions, StampedSessions
from adkwire.errors import Unavailable
from adkwire.stores.base import ChatKey
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.gate.records import Clock
from tests.patience import PATIENCE
from tests.support.chats import AGENT, Chat, assert_legal, plain, stored, text_of, texts_in
from tests.support.fixtures import Make


def echo() -> ScriptedModel:
    return ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])


async def test_cancelled_reads_and_writes_leave_the_store_usable(make: Make) -> None:
    chat = make(echo())
    await chat.say("a")
    for turns_of_the_loop in range(12):
        tasks = [
            asyncio.create_task(chat.messages()),
            asyncio.create_task(chat.bridge.rename(chat.user, chat.id, f"title {turns_of_the_loop}")),
            asyncio.create_task(chat.bridge.chats(chat.user, limit=5, before=None)),
        ]
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert (await chat.say("b")).text == "to b"
    assert await chat.texts() == [("user", "a"), ("assistant", "to a"), ("user", "b"), ("assistant", "to b")]


async def test_a_cancelled_read_leaves_no_open_transaction(tmp_path: Path) -> None:
    sessions = StampedSessions(SqliteSessions(str(tmp_path / "state.db")))
    chat: Any = {"app_name": "app", "user_id": "me", "session_id": "chat"}
    await sessions.create_session(**chat)
    with (
        closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other_connection,
        _without_garbage_collection(),
    ):
        other_connection.execute("CREATE TABLE other (n)")
        for number, turns_of_the_loop in enumerate((2, 3, 4) * 15):
            reading = asyncio.create_task(sessions.get_session(**chat))
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            other_connection.execute("INSERT INTO other VALUES (1)")
            await sessions.create_session(app_name="app", user_id="me", session_id=f"chat {number}")
    await sessions.close()


async def test_a_cancelled_write_is_stored(tmp_path: Path) -> None:
    sessions = StampedSessions(SqliteSessions(str(tmp_path / "state.db")))
    chat: Any = {"app_name": "app", "user_id": "me", "session_id": "chat"}
    session = await sessions.create_session(**chat)
    writing = asyncio.create_task(sessions.append_event(session, Event(author="me")))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    found = await sessions.get_session(**chat)
    assert found is not None
    assert len(found.events) == 1
    await sessions.close()


class KeepingStamper:
    """An `EventStamper` that keeps every event as it is."""

    def stamp(self, event: Event) -> bool:
        return True

    def stored(self, event: Event, *, failed: bool = False) -> None:
        pass


class PausedSessions(InMemorySessionService):
    """Sessions that wait before they store an event."""

    def __init__(self) -> None:
        super().__init__()
        self.storing, self.go_on = asyncio.Event(), asyncio.Event()

    async def append_event(self, session: Session, event: Event) -> Event:
        self.storing.set()
        await self.go_on.wait()
        return await super().append_event(session, event)


async def test_a_live_event_has_the_time_at_which_it_is_stored() -> None:
    clock, key = Clock(), ChatKey("me", "chat")
    sessions = StampedSessions(inner := PausedSessions(), clock)
    session = await sessions.create_session(app_name="app", user_id=key.user, session_id=key.chat)
    with sessions.live(key, KeepingStamper()):
        sessions.run_began(session, "invocation")
        late = Event(author="me", timestamp=1.0)
        shown_before = sessions.now(key)
        storing = asyncio.create_task(sessions.append_event(session, late))
        async with asyncio.timeout(PATIENCE):
            await inner.storing.wait()
        assert shown_before < sessions.now(key) < late.timestamp
        inner.go_on.set()
        await storing
        assert session.last_update_time == late.timestamp < sessions.now(key)


@contextmanager
def _without_garbage_collection() -> Generator[None, None, None]:
    """Let objects without references live on, as they may for a while."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_everything_is_in_the_file_before_the_answer_ends(make: Make, tmp_path: Path) -> None:
    chat = make(echo())
    answer = await chat.say("a")
    kept = [part.text for event in await stored(tmp_path) if event.content for part in event.content.parts or ()]
    assert kept == ["a", "to a"]
    again = make(echo())
    assert (await again.messages())[-1] == answer.message


async def test_a_closed_store_opens_again_and_closes_twice(make: Make) -> None:
    chat = make(echo())
    await chat.say("a")
    await chat.bridge.close()
    await chat.bridge.close()
    assert await chat.texts() == [("user", "a"), ("assistant", "to a")]


async def test_chats_in_memory_leave_no_file(make: Make, tmp_path: Path) -> None:
    chat = make(echo(), db="memory:")
    await chat.say("a")
    assert await chat.texts() == [("user", "a"), ("assistant", "to a")]
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - one look at a small folder


class SlowSessions(InMemorySessionService):
    """Sessions of which one read can be made to wait, before it looks and after."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.reached, self.looked = asyncio.Event(), asyncio.Event()
        self.look, self.answer = asyncio.Event(), asyncio.Event()

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        slow, self.slow = self.slow, False
        if slow:
            self.reached.set()
            await self.look.wait()
        found = await super().get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
        if slow:
            self.looked.set()
            await self.answer.wait()
        return found


async def browse() -> None:
    """Wait for a browser."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("ended", [False, True], ids=["begun", "begun and ended"])
async def test_history_that_is_loaded_while_a_run_begins_has_nothing_half_written(make: Make, ended: bool) -> None:
    held, service = asyncio.Event(), SlowSessions()
    model = ScriptedModel(turns=[[Say("one")], [Call("add", {"a": 1, "b": 1})], [Say("t"), Wait(held), Say("wo")]])
    chat = make(model, add, session_service=service)
    await chat.say("a")
    service.slow = True
    loading = asyncio.create_task(chat.bridge.history(chat.user, chat.id))
    async with asyncio.timeout(PATIENCE):
        await service.reached.wait()
    run = await chat.begin("b")
    await chat.reader(run).until("text-delta")
    service.look.set()
    async with asyncio.timeout(PATIENCE):
        await service.looked.wait()
    if ended:
        held.set()
        await chat.read(run)
    service.answer.set()
    history = await loading
    if ended:
        assert history.active is None
        assert text_of(plain(history.messages[-1])) == "two"
    else:
        assert history.active is not None
        assert [message.role for message in history.messages] == ["user", "assistant", "user"]
    held.set()
    await chat.read(run)


@pytest.mark.parametrize("rename_first", [False, True])
async def test_renaming_a_chat_while_a_turn_starts(make: Make, rename_first: bool) -> None:
    """Both write to the session, in any order; neither may fail."""
    await make(echo()).say("a", "a")
    for steps in range(10):
        chat = make(echo())

        async def rename(chat: Chat = chat, title: str = f"title {steps}") -> str:
            return (await chat.bridge.rename(chat.user, chat.id, title)).title

        async def say(chat: Chat = chat, text: str = f"b{steps}") -> str:
            return (await chat.say(text, text)).text

        first, second = (rename, say) if rename_first else (say, rename)
        ahead = asyncio.create_task(first())
        for _ in range(steps):
            await asyncio.sleep(0)
        assert {await second(), await ahead} == {f"title {steps}", f"to b{steps}"}
        assert (await chat.bridge.history(chat.user, chat.id)).title == f"title {steps}"


class ReadOnlySessions(InMemorySessionService):
    """Sessions that can be read though nothing can be added."""

    away = False

    async def append_event(self, session: Session, event: Event) -> Event:
        if self.away:
            raise OSError("away")
        return await super().append_event(session, event)


async def test_a_title_that_cannot_be_stored(make: Make) -> None:
    service = ReadOnlySessions()
    chat = make(echo(), session_service=service)
    await chat.say("a")
    service.away = True
    with pytest.raises(Unavailable):
        await chat.bridge.rename(chat.user, chat.id, "new")
    service.away = False
    assert (await chat.bridge.history(chat.user, chat.id)).title == "a"
    assert (await chat.bridge.rename(chat.user, chat.id, "new")).title == "new"


async def test_a_pending_call_is_sealed_after_a_message_that_could_not_be_stored(make: Make) -> None:
    """The seal of the call is stored with the next message that can be stored."""
    service = ReadOnlySessions()
    model = ScriptedModel(
        script=lambda request: [Say("Fine.")] if len(request.contents) > 1 else [Call("browse", {}, "c1")]
    )
    chat = make(model, LongRunningFunctionTool(browse), session_service=service)
    await chat.say("look", "u1")
    service.away = True
    assert (await chat.say("never mind", "u2")).types[-1] == "error"
    service.away = False
    assert (await chat.say("well?", "u3")).text == "Fine."
    assert_legal(model.requests[-1])


async def test_a_chat_deleted_by_another_program_begins_anew(make: Make, tmp_path: Path) -> None:
    model = ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])
    chat = make(model)
    await chat.say("a")
    other = SqliteSessionService(str(tmp_path / "state.db"))
    await other.delete_session(app_name=AGENT, user_id=chat.user, session_id=chat.id)
    for text in "bc":
        assert (await chat.say(text)).text == f"to {text}"
    assert await chat.texts() == [("user", "b"), ("assistant", "to b"), ("user", "c"), ("assistant", "to c")]
    assert [request[0] for request in map(texts_in, model.requests)] == [("user", "a"), ("user", "b"), ("user", "b")]
    assert (await chat.bridge.history(chat.user, chat.id)).title == "b"


class SameMomentSessions(InMemorySessionService):
    """Sessions that all changed at the same time, as far as the clock can tell."""

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        found = await super().list_sessions(app_name=app_name, user_id=user_id)
        for session in found.sessions:
            session.last_update_time = 1.0
        return found


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_pages_of_chats_with_equal_times_hold_each_chat_once(make: Make, limit: int) -> None:
    chat = make(echo(), session_service=SameMomentSessions())
    names = ["a", "B", "c1", "c", "d-e"]
    for name in names:
        await Chat(chat.bridge, name).say("x")
    seen: list[str] = []
    before: str | None = None
    for _ in names:
        page = await chat.bridge.chats(chat.user, limit=limit, before=before)
        seen += [line.id for line in page.chats]
        if not isinstance(page.next, str):
            break
        before = page.next
    assert sorted(seen) == sorted(names)


async def keep(tool_context: ToolContext) -> str:
    """Keep two files, one for all chats of the user."""
    for name in ("note.txt", "user:profile.txt"):
        await tool_context.save_artifact(name, types.Part.from_bytes(data=b"secret", mime_type="text/plain"))
    return "kept"


async def test_delete_removes_the_artifacts_of_the_chat_only(make: Make) -> None:
    model = ScriptedModel(
        script=lambda request: (
            [Say("ok")] if any(p.function_response for p in request.contents[-1].parts or ()) else [Call("keep")]
        )
    )
    service = InMemoryArtifactService()
    chat = make(model, keep, artifact_service=service)
    other = Chat(chat.bridge, "other")
    for one in (chat, other):
        await one.say("x")
    await chat.bridge.delete(chat.user, chat.id)
    left = {
        name: await service.list_artifact_keys(app_name=AGENT, user_id=chat.user, session_id=name)
        for name in (chat.id, other.id)
    }
    assert left == {"chat": ["user:profile.txt"], "other": ["note.txt", "user:profile.txt"]}
