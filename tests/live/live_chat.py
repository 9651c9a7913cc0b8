"""A chat in a live conversation with a scripted model, as a WebSocket connection has it, and its tools."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from google.adk.agents import LlmAgent
from google.adk.sessions import BaseSessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adkwire import client_tool
from adkwire.bridge import Bridge
from adkwire.gate.policy import Policy
from adkwire.gate.records import UncheckedAnswer
from adkwire.live.conversations import Link
from adkwire.runs.run import Run
from adkwire.runs.views import Pending
from adkwire.settings import Settings
from adkwire.testing import Call, Say, ScriptedModel
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
SPEECH = bytes(3200)
"""A tenth of a second of the user's audio."""
Modality = Literal["audio", "text"]


class RecordingListener:
    """A listener that records everything it gets."""

    knows_live_frames = True

    def __init__(self) -> None:
        self.turns: list[tuple[Run, str]] = []
        """The run and the origin of each turn."""
        self.transcripts: list[tuple[str, str, bool]] = []
        """User message, text, and whether it is final."""
        self.states: list[str] = []
        self.interruptions: list[tuple[str, int, str | None]] = []
        """Run, new generation, and the words that are kept."""
        self.settlements: list[tuple[str, str]] = []
        """Call and its new state."""
        self.notices: list[str] = []
        """The codes of the notices."""
        self.sounds: list[tuple[int, int, int, bool]] = []
        """Generation, position in ms, size in bytes, and whether it is the last of its turn."""
        self.is_over = False
        self._changed = asyncio.Event()

    async def until(self, condition: "Callable[[RecordingListener], object]") -> None:
        """Wait until a condition on this listener is true."""
        async with asyncio.timeout(PATIENCE):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    def turn(self, run: Run, origin: str) -> bool:
        self.turns.append((run, origin))
        self._changed.set()
        return True

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        self.transcripts.append((user_message, text, final))
        self._changed.set()

    def state(self, state: str) -> None:
        self.states.append(state)
        self._changed.set()

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        self.interruptions.append((run, generation, kept))
        self._changed.set()

    def settled(self, call: str, state: str, ask: str | None) -> None:
        self.settlements.append((call, state))
        self._changed.set()

    def notice(self, level: str, code: str, text: str) -> None:
        self.notices.append(code)
        self._changed.set()

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        self.sounds.append((generation, position, len(pcm), last))
        self._changed.set()

    def ended(self, *, deleted: bool) -> None:
        self.is_over = True
        self._changed.set()


class Reader:
    """A reader of one run, with all entries that it has read."""

    def __init__(self, bridge: Bridge, run: Run, after: int | None = None) -> None:
        self.run = run
        self.entries: list[bytes] = []
        self.closed = False
        """True once the end of the run was read."""
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

    def part(self, tool: str) -> dict[str, Any]:
        """Return the first call of a tool in the message."""
        return next(part for part in self.message["parts"] if part["type"] == f"tool-{tool}")

    async def until(self, condition: "Callable[[Reader], object]") -> "Reader":
        """Read until a condition on this reader is true."""
        async with asyncio.timeout(PATIENCE):
            while not condition(self):
                self._add(await anext(self._batches))
        return self

    async def until_break(self) -> "Reader":
        """Read up to the next break: all calls are pending."""
        return await self.until(lambda reader: reader.entries and is_break(reader.entries[-1]))

    async def rest(self) -> "Reader":
        """Read to the end of the run."""
        async with asyncio.timeout(PATIENCE):
            async for batch in self._batches:
                self._add(batch)
        return self

    def _add(self, batch: Any) -> None:
        self.entries += batch.entries
        self.closed = self.closed or batch.closed


class LiveTools:
    """Tools of a live chat, and a record of what they have paid."""

    def __init__(self) -> None:
        self.paid: list[float] = []
        """The amount of every payment, in order."""
        self.slow_began = asyncio.Event()
        """Set when `slow` executes."""
        self.slow_may_end = asyncio.Event()
        """Set it to let `slow` pay and return."""

    @property
    def pay(self) -> Any:
        """The payment tool that does not ask by itself."""

        async def pay(amount: float) -> dict[str, Any]:
            """Pay."""
            self.paid.append(amount)
            return {"paid": amount}

        return pay

    def all(self) -> list[Any]:
        """Return tools of all kinds: gated, ungated, asking from inside, and of the browser."""

        def weather(place: str) -> dict[str, Any]:
            """Return the weather."""
            return {"place": place, "sky": "clear"}

        async def slow(amount: float) -> dict[str, Any]:
            """Pay slowly."""
            self.slow_began.set()
            await self.slow_may_end.wait()
            self.paid.append(amount)
            return {"paid": amount}

        def careful(amount: float, tool_context: ToolContext) -> dict[str, Any]:
            """Request a confirmation from inside, then pay."""
            verdict = tool_context.tool_confirmation
            if verdict is None:
                tool_context.request_confirmation(hint="Really?", payload={"code": ""})
                return {"status": "asked"}
            if not verdict.confirmed:
                return {"error": "no"}
            self.paid.append(amount)
            return {"paid": amount, "code": verdict.payload}

        return [
            FunctionTool(self.pay, require_confirmation=True),
            FunctionTool(slow, require_confirmation=True),
            weather,
            careful,
            clock,
            locate,
        ]


@client_tool
def clock() -> dict[str, Any]:
    """Return the time of the browser."""


@client_tool(require_confirmation=True)
def locate() -> dict[str, Any]:
    """Return where the browser is."""


class LiveChat:
    """A chat of a bridge with one client in its live conversation."""

    def __init__(self, bridge: Bridge, model: ScriptedModel | None = None, tools: LiveTools | None = None) -> None:
        self.bridge = bridge
        self.model = model or ScriptedModel(turns=[])
        self.tools = tools or LiveTools()
        self.listener = RecordingListener()
        self.first_message = 1
        """The number in the id of the first message."""
        self._link: Link | None = None
        self._sent = 0

    @property
    def link(self) -> Link:
        """The link of the client that joined first."""
        assert self._link is not None
        return self._link

    async def join(self, listener: RecordingListener | None = None) -> Link:
        """Link another client, or the first one, to the conversation."""
        link = await self.bridge.live.join(ME, CHAT, listener or self.listener)
        self._link = self._link or link
        return link

    async def rejoin(self, listener: RecordingListener | None = None) -> Link:
        """Link the first client again after its link was closed."""
        self._link = None
        return await self.join(listener)

    def message(self, text: str) -> TurnInput:
        """Return a new typed message."""
        user_message = UserMessage(f"user-{self.first_message + self._sent}", (text,))
        self._sent += 1
        return TurnInput(chat=CHAT, message=user_message, trigger="submit-message", replaces=None)

    async def send(self, text: str) -> Reader:
        """Send a typed message in the conversation; return a reader of its run."""
        to_read = await self.link.send(self.message(text))
        return Reader(self.bridge, to_read.run, to_read.after)

    async def post(self, text: str) -> Reader:
        """Send a message over HTTP; return a reader of its run."""
        return Reader(self.bridge, await self.bridge.start(ME, self.message(text)))

    async def speak(self, audio: bytes = SPEECH) -> None:
        """Begin to speak, send audio, and end the speech."""
        await self.link.activity(start=True)
        assert self.link.audio(audio)
        await self.link.activity(start=False)

    async def spoken_turn(self) -> Reader:
        """Wait until a turn was announced to the client; return a reader of the last one."""
        await self.listener.until(lambda listener: listener.turns)
        return Reader(self.bridge, self.listener.turns[-1][0])

    async def pending(self) -> list[Pending]:
        """Return the pending calls."""
        return (await self.bridge.history(ME, CHAT)).pending

    async def pending_call(self, tool: str) -> Pending:
        """Return the pending call of a tool."""
        return next(call for call in await self.pending() if call.tool == tool)

    async def answer(self, tool: str, answer: UncheckedAnswer) -> None:
        """Answer the pending call of a tool."""
        call = await self.pending_call(tool)
        await self.bridge.answer(ME, CHAT, call.tool_call_id, answer)

    async def messages(self) -> list[dict[str, Any]]:
        """Return the messages of history."""
        return [plain(message) for message in (await self.bridge.history(ME, CHAT)).messages]

    async def assert_history_matches(self, *readers: Reader) -> None:
        """Assert that a page that loads the chat shows the messages that were streamed."""
        messages = {message["id"]: message for message in await self.messages()}
        for reader in readers:
            assert messages[reader.run.message_id] == reader.message


@asynccontextmanager
async def live_chat(
    turns: Sequence[Sequence[Step]],
    modality: Modality = "audio",
    *,
    manner: Manner | None = None,
    **options: Any,
) -> AsyncGenerator[LiveChat]:
    """Yield a live chat with an agent that has all `LiveTools` and whose model plays these turns."""
    model, tools = ScriptedModel(turns=turns, manner=manner or Manner()), LiveTools()
    agent = LlmAgent(name="teller", model=model, tools=tools.all())
    async with chat_with_agent(agent, model, tools, live_modality=modality, **options) as chat:
        yield chat


@asynccontextmanager
async def chat_with_inner_agent(
    pay: Any, *, say_before: str = "", sessions: BaseSessionService | None = None, **options: Any
) -> AsyncGenerator[LiveChat]:
    """Yield a live chat with an agent that has an agent as its tool, which calls the gated tool `pay`."""
    payment = ScriptedModel(turns=[[Call("pay", {"amount": 5})], [Say("Inner.")]])
    inner = LlmAgent(name="inner", model=payment, tools=[FunctionTool(pay, require_confirmation=True)])
    words = [Say(say_before)] if say_before else []
    model = ScriptedModel(turns=[[*words, Call("inner", {"request": "pay"})], [Say("Done.")]])
    agent = LlmAgent(name="outer", model=model, tools=[AgentTool(inner)])
    async with chat_with_agent(agent, model, sessions=sessions, **options) as chat:
        yield chat


@asynccontextmanager
async def chat_with_agent(
    agent: LlmAgent,
    model: ScriptedModel | None = None,
    tools: LiveTools | None = None,
    *,
    db: Path | None = None,
    joined: bool = True,
    sessions: BaseSessionService | None = None,
    clock: Callable[[], float] = time.time,
    rules: Policy | None = None,
    **settings: Any,
) -> AsyncGenerator[LiveChat]:
    """Yield a live chat with an agent, which its client has joined."""
    made = Settings(db="memory:" if db is None else str(db), events_per_second=0, **settings)
    bridge = Bridge(agent, settings=made, session_service=sessions, clock=clock, policy=rules)
    bridge.watch()
    chat = LiveChat(bridge, model, tools)
    try:
        if joined:
            await chat.join()
        yield chat
    finally:
        async with asyncio.timeout(PATIENCE):
            await bridge.close(drain=0)
