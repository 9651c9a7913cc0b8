"""A chat in a live conversation, as a socket sees it, on a scripted model."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from google.adk.agents import LlmAgent
from google.adk.sessions import BaseSessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adkwire import client_tool
from adkwire.bridge import Bridge
from adkwire.gate.records import UncheckedAnswer
from adkwire.live.conversations import Link, RunToRead
from adkwire.runs.run import Run
from adkwire.runs.views import Pending
from adkwire.settings import Settings
from adkwire.testing import ScriptedModel
from adkwire.testing.live_responses import Manner
from adkwire.testing.steps import Step
from adkwire.wire.breaks import is_break
from adkwire.wire.chunks import Chunk, decode_chunk
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.folding import fold
from tests.patience import PATIENCE
from tests.support.chats import plain

CHAT = "talk"
ME = "me"
Modality = Literal["audio", "text"]


class Ear:
    """One client: it notes all it is told."""

    talks = True

    def __init__(self) -> None:
        self.turns: list[tuple[Run, str]] = []
        self.transcripts: list[tuple[str, str, bool]] = []
        self.states: list[str] = []
        self.interruptions: list[tuple[str, int, str | None]] = []
        self.settlements: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self.sounds: list[tuple[int, int, int, bool]] = []
        self.is_over = False
        self._news = asyncio.Event()

    async def until(self, what: "Callable[[Ear], object]") -> None:
        """Wait until what was told makes this true."""
        async with asyncio.timeout(PATIENCE):
            while not what(self):
                self._news.clear()
                await self._news.wait()

    def turn(self, run: Run, origin: str) -> bool:
        self.turns.append((run, origin))
        self._news.set()
        return True

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        self.transcripts.append((user_message, text, final))
        self._news.set()

    def state(self, state: str) -> None:
        self.states.append(state)
        self._news.set()

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        self.interruptions.append((run, generation, kept))
        self._news.set()

    def settled(self, call: str, state: str, ask: str | None) -> None:
        self.settlements.append((call, state))
        self._news.set()

    def notice(self, level: str, code: str, text: str) -> None:
        self.notices.append(code)
        self._news.set()

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        self.sounds.append((generation, position, len(pcm), last))
        self._news.set()

    def ended(self, *, deleted: bool) -> None:
        self.is_over = True
        self._news.set()


class Reader:
    """Reads a run."""

    def __init__(self, bridge: Bridge, run: Run, after: int | None = None) -> None:
        self.run = run
        self.entries: list[bytes] = []
        self.closed = False
        self._batches = bridge.reading(run, after=after).batches

    @property
    def chunks(self) -> list[Chunk]:
        return [decode_chunk(entry) for entry in self.entries if not is_break(entry)]

    @property
    def plain(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(entry) for entry in self.entries if not is_break(entry)]

    @property
    def types(self) -> list[str]:
        return [chunk["type"] for chunk in self.plain]

    @property
    def text(self) -> str:
        return "".join(chunk["delta"] for chunk in self.plain if chunk["type"] == "text-delta")

    @property
    def message(self) -> Any:
        return plain(fold(self.chunks))

    async def until(self, what: "Callable[[Reader], object]") -> "Reader":
        """Read until this is true of what was read."""
        async with asyncio.timeout(PATIENCE):
            while not what(self):
                self._add(await anext(self._batches))
        return self

    async def until_break(self) -> "Reader":
        return await self.until(lambda me: me.entries and is_break(me.entries[-1]))

    async def rest(self) -> "Reader":
        async with asyncio.timeout(PATIENCE):
            async for batch in self._batches:
                self._add(batch)
        return self

    def _add(self, batch: Any) -> None:
        self.entries += batch.entries
        self.closed = self.closed or batch.closed


class House:
    """A bridge with a till, and one client in a live conversation."""

    def __init__(self, bridge: Bridge, model: ScriptedModel, till: "Till") -> None:
        self.bridge = bridge
        self.model = model
        self.till = till
        self.ear = Ear()
        self._link: Link | None = None
        self._said = 0

    @property
    def link(self) -> Link:
        assert self._link is not None
        return self._link

    async def join(self, ear: Ear | None = None) -> Link:
        link = await self.bridge.live.join(ME, CHAT, ear or self.ear)
        self._link = self._link or link
        return link

    def message(self, text: str) -> TurnInput:
        self._said += 1
        return TurnInput(
            chat=CHAT, message=UserMessage(f"user-{self._said}", (text,)), trigger="submit-message", replaces=None
        )

    async def say(self, text: str) -> Reader:
        told: RunToRead = await self.link.send(self.message(text))
        return Reader(self.bridge, told.run, told.after)

    async def type(self, text: str) -> Reader:
        """The same over HTTP."""
        return Reader(self.bridge, await self.bridge.start(ME, self.message(text)))

    async def pending(self) -> list[Pending]:
        return (await self.bridge.history(ME, CHAT)).pending

    async def waiting(self, tool: str) -> Pending:
        return next(call for call in await self.pending() if call.tool == tool)

    async def answer(self, tool: str, given: UncheckedAnswer) -> None:
        call = await self.waiting(tool)
        await self.bridge.answer(ME, CHAT, call.tool_call_id, given)

    async def messages(self) -> list[dict[str, Any]]:
        return [plain(message) for message in (await self.bridge.history(ME, CHAT)).messages]

    async def agrees_with(self, *readers: Reader) -> None:
        """A reloaded page shows what the streamed one showed."""
        told = {message["id"]: message for message in await self.messages()}
        for reader in readers:
            assert told[reader.run.message_id] == reader.message


class Till:
    """What the tools did."""

    def __init__(self) -> None:
        self.paid: list[float] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    def tools(self) -> list[Any]:
        async def pay(amount: float) -> dict[str, Any]:
            """Pay."""
            self.paid.append(amount)
            return {"paid": amount}

        def weather(place: str) -> dict[str, Any]:
            """The weather."""
            return {"place": place, "sky": "clear"}

        async def slow(amount: float) -> dict[str, Any]:
            """Pay slowly."""
            self.begun.set()
            await self.go.wait()
            self.paid.append(amount)
            return {"paid": amount}

        def careful(amount: float, tool_context: ToolContext) -> dict[str, Any]:
            """Ask from inside."""
            verdict = tool_context.tool_confirmation
            if verdict is None:
                tool_context.request_confirmation(hint="Really?", payload={"code": ""})
                return {"status": "asked"}
            if not verdict.confirmed:
                return {"error": "no"}
            self.paid.append(amount)
            return {"paid": amount, "code": verdict.payload}

        return [
            FunctionTool(pay, require_confirmation=True),
            FunctionTool(slow, require_confirmation=True),
            weather,
            careful,
            clock,
            locate,
        ]


@client_tool
def clock() -> dict[str, Any]:
    """The time of the browser."""


@client_tool(require_confirmation=True)
def locate() -> dict[str, Any]:
    """Where the browser is."""


@asynccontextmanager
async def house(
    turns: Sequence[Sequence[Step]],
    modality: Modality = "audio",
    *,
    db: Path | None = None,
    manner: Manner | None = None,
    joined: bool = True,
    sessions: BaseSessionService | None = None,
    clock: Callable[[], float] = time.time,
    **settings: Any,
) -> AsyncGenerator[House]:
    """A house that is open; its client has joined."""
    model, till = ScriptedModel(turns=turns, manner=manner or Manner()), Till()
    agent = LlmAgent(name="teller", model=model, tools=till.tools())
    known = Settings(db="memory:" if db is None else str(db), live_modality=modality, events_per_second=0, **settings)
    bridge = Bridge(agent, settings=known, session_service=sessions, clock=clock)
    bridge.watch()
    made = House(bridge, model, till)
    try:
        if joined:
            await made.join()
        yield made
    finally:
        await bridge.close(drain=0)
