"""A chat on a `Bridge`, driven the way the server drives it, and checks of what the model and the session got."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from google.adk.agents import LlmAgent
from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from adkwire.adk.app import Target
from adkwire.bridge import Bridge
from adkwire.gate.policy import Policy
from adkwire.runs.readers import Position
from adkwire.runs.run import Run
from adkwire.settings import Settings
from adkwire.stores.base import Batch, GateStore, Signals, StreamLog
from adkwire.stores.stores import Stores
from adkwire.testing import ScriptedModel
from adkwire.wire.chunks import Chunk, decode_chunk, to_plain
from adkwire.wire.decode.decoder import Trigger, TurnInput, UserMessage
from adkwire.wire.folding import fold
from tests.patience import PATIENCE

AGENT = "helper"


@dataclass
class Answer:
    """The chunks that one reader got of a run."""

    run: Run
    data: list[bytes] = field(default_factory=list[bytes])

    @property
    def chunks(self) -> list[Chunk]:
        return [decode_chunk(raw) for raw in self.data]

    @property
    def plain(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(raw) for raw in self.data]

    @property
    def types(self) -> list[str]:
        return [chunk["type"] for chunk in self.plain]

    @property
    def text(self) -> str:
        return "".join(chunk["delta"] for chunk in self.plain if chunk["type"] == "text-delta")

    @property
    def message(self) -> dict[str, Any]:
        """The message that a client has after these chunks."""
        return plain(fold(self.chunks))


class Reader:
    """A reader of a run, which the test advances."""

    def __init__(self, bridge: Bridge, run: Run, after: int | None = None) -> None:
        self.answer = Answer(run)
        self._batches: AsyncGenerator[Batch, None] = bridge.reading(run, after=after).batches

    async def until(self, kind: str) -> None:
        """Read until a chunk of this type has come."""
        while kind not in self.answer.types:
            async with asyncio.timeout(PATIENCE):
                batch = await anext(self._batches)
            self.answer.data += batch.entries

    async def rest(self) -> Answer:
        """Read to the end of the run."""
        async with asyncio.timeout(PATIENCE):
            async for batch in self._batches:
                self.answer.data += batch.entries
        return self.answer

    async def leave(self) -> None:
        """Stop reading, as a client does that disconnects."""
        await self._batches.aclose()


@dataclass
class Chat:
    """One chat of one user."""

    bridge: Bridge
    id: str = "chat"
    user: str = "ann"
    count: int = 0
    """How many user messages were sent; they are named u1, u2 and so on."""

    def turn(
        self, text: str, message_id: str = "", *, trigger: Trigger = "submit-message", replaces: str | None = None
    ) -> TurnInput:
        """Return the decoded request for a user message."""
        return TurnInput(self.id, trigger, UserMessage(message_id, (text,)), replaces)

    async def begin(
        self,
        text: str,
        message_id: str | None = None,
        *,
        trigger: Trigger = "submit-message",
        replaces: str | None = None,
    ) -> Run:
        """Send a user message and return the run that answers it."""
        self.count += 1
        name = f"u{self.count}" if message_id is None else message_id
        return await self.bridge.start(self.user, self.turn(text, name, trigger=trigger, replaces=replaces))

    async def say(
        self,
        text: str,
        message_id: str | None = None,
        *,
        trigger: Trigger = "submit-message",
        replaces: str | None = None,
    ) -> Answer:
        """Send a user message and read the whole answer."""
        return await self.read(await self.begin(text, message_id, trigger=trigger, replaces=replaces))

    async def regenerate(self, replaces: str) -> Answer:
        """Regenerate an answer by its id alone, as a client does that does not send its messages."""
        turn = TurnInput(self.id, "regenerate-message", None, replaces)
        return await self.read(await self.bridge.start(self.user, turn))

    def reader(self, run: Run, after: int | None = None) -> Reader:
        return Reader(self.bridge, run, after)

    async def read(self, run: Run, after: int | None = None) -> Answer:
        return await self.reader(run, after).rest()

    async def find(self, run_id: str) -> Run:
        """Return a run whose stream is still kept, by its id."""
        assert await self.bridge.follow(self.user, self.id, Position(run_id, -1)) is not None
        head = await self.bridge._log.head(run_id)
        assert head is not None
        return Run.read_only(head)

    async def stop(self, run: str | None = None) -> bool:
        async with asyncio.timeout(PATIENCE):
            return await self.bridge.stop(self.user, self.id, run)

    async def messages(self) -> list[dict[str, Any]]:
        return plain((await self.bridge.history(self.user, self.id)).messages)

    async def texts(self) -> list[tuple[str, str]]:
        """Return role and text of every message in history."""
        return [(message["role"], text_of(message)) for message in await self.messages()]


def scripted(model: ScriptedModel, *tools: Any) -> LlmAgent:
    return LlmAgent(name=AGENT, model=model, tools=list(tools))


def settings(folder: Path, **options: Any) -> Settings:
    """Return settings without pacing, with a database file in the test's folder."""
    return Settings.load(**{"db": str(folder / "state.db"), "events_per_second": 0, "drain": 5, **options})


def chat_with(
    target: Target,
    folder: Path,
    *,
    session_service: BaseSessionService | None = None,
    artifact_service: BaseArtifactService | None = None,
    stream_log: StreamLog | None = None,
    policy: Policy | None = None,
    gate_store: GateStore | None = None,
    signals: Signals | None = None,
    clock: Callable[[], float] = time.time,
    **options: Any,
) -> Chat:
    """Return a chat on a new bridge. Options are settings."""
    known = settings(folder, **options)
    stores = Stores.open(known)
    bridge = Bridge(
        target,
        settings=known,
        session_service=session_service,
        artifact_service=artifact_service,
        stores=Stores(stream_log or stores.log, gate_store or stores.gate, signals or stores.signals),
        policy=policy,
        clock=clock,
    )
    return Chat(bridge)


def plain(value: object) -> Any:
    """Return a message or chunk as the JSON that a client decodes."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=to_plain))


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def tool_parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in message["parts"] if part["type"].startswith("tool-")]


def texts_in(request: Sequence[types.Content]) -> list[tuple[str, str]]:
    """Return role and text of each content in a request to the model, without thoughts."""
    return [
        (content.role or "", "".join(part.text or "" for part in content.parts or () if not part.thought))
        for content in request
    ]


def assert_legal(request: Sequence[types.Content]) -> None:
    """Assert what Gemini requires: each call is answered in the very next content, and nothing else is answered."""
    waiting: set[str] = set()
    for content in request:
        answers = {p.function_response.id or "" for p in content.parts or () if p.function_response}
        assert answers == waiting, f"calls {waiting} got answers {answers}"
        waiting = {p.function_call.id or "" for p in content.parts or () if p.function_call}
    assert not waiting, f"calls {waiting} were never answered"


async def stored(folder: Path, chat: str = "chat", *, user: str = "ann", app: str = AGENT) -> list[Event]:
    """Return the events of a session as the database file has them."""
    session = await SqliteSessionService(str(folder / "state.db")).get_session(
        app_name=app, user_id=user, session_id=chat
    )
    return session.events if session is not None else []


async def store(folder: Path, events: Iterable[Event], chat: str = "chat") -> None:
    """Write a session by hand, as another process may have left it."""
    service = SqliteSessionService(str(folder / "state.db"))
    session = await service.create_session(app_name=AGENT, user_id="ann", session_id=chat)
    for event in events:
        await service.append_event(session, event)
