"""The Live side of the emulator: sessions over a WebSocket that listen, answer by a script, and can be interrupted."""

import asyncio
import copy
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.testing.gemini_live_wire import (
    GeminiLiveStep,
    Hear,
    Interrupt,
    Refused,
    Setup,
    checked,
)
from adkwire.testing.gemini_speaker import Line, Speaker
from adkwire.testing.gemini_talk import Conversation, Frame, News, speech
from adkwire.testing.gemini_wire import Json, Send, decoded, normalised, problem_of
from adkwire.testing.steps import Call, Drop, GoAway, Resumption, Say

Kind: TypeAlias = Literal[
    "setup",
    "history",
    "content",
    "text",
    "audio",
    "video",
    "activityStart",
    "activityEnd",
    "audioStreamEnd",
    "toolResponse",
    "closed",
]

_PATH = re.compile(
    r"/ws/google\.(?:ai\.generativelanguage\.v1(?:alpha|beta)\.GenerativeService\.BidiGenerateContent"
    r"|cloud\.aiplatform\.v1(?:beta1)?\.LlmBidiService/BidiGenerateContent)"
)
_GO_ON = "."
"""What ADK says to a 3.x model after a history that ends with the user, which such a model would not answer."""


@dataclass(frozen=True)
class LiveReceived:
    """Something that came from a client."""

    session: "LiveSession"
    kind: Kind
    data: Json = field(default_factory=dict[str, Any])
    """With camelCase names."""
    payload: bytes = b""
    """The bytes of sound or of a picture."""


@dataclass(frozen=True)
class LiveTurn:
    """What the script is asked for: the next thing that the model says."""

    session: "LiveSession"
    number: int
    """How often the model has spoken in this conversation, the history included."""
    contents: list[Json]
    """The conversation so far."""
    text: str
    """What was written since the model spoke last."""
    responses: list[Json]
    """The function responses since then."""
    sound: bytes
    """The speech since then: PCM of 16 kHz."""
    frames: list[Frame]
    """The pictures since then."""


LiveScript: TypeAlias = Callable[[LiveTurn], Iterable[GeminiLiveStep]]


def echo(turn: LiveTurn) -> list[GeminiLiveStep]:
    """Answer without a script: repeat what was said.

    A text that contains `call NAME {...}`, once or more, makes those calls, if the functions are declared.
    """
    if turn.responses:
        return [Say(f"Done: {', '.join(response['name'] for response in turn.responses)}.")]
    if turn.sound:
        heard = f"{len(turn.sound) // 32} ms of sound"
        return [Hear(heard), Say(f"I heard {heard}.")]
    calls = [
        Call(name, _object_at(turn.text, at)) for name, at in _asked_calls(turn.text) if name in turn.session.tools
    ]
    return [*calls] or [Say(f"You said: {turn.text}")]


def _asked_calls(text: str) -> list[tuple[str, int]]:
    return [(found[1], found.end()) for found in re.finditer(r"\bcall (\w+) ?", text)]


def _object_at(text: str, at: int) -> Json:
    return json.JSONDecoder().raw_decode(text, at)[0] if text.startswith("{", at) else {}


class GeminiLive:
    """The Live sessions of an emulator: what came in, and how to wait for it. `await` in the emulator's own loop."""

    def __init__(
        self, script: Sequence[Iterable[GeminiLiveStep]] | LiveScript | None, models: Collection[str] | None
    ) -> None:
        self.sessions: list[LiveSession] = []
        """One for each connection there was, refused or not."""
        self.log: list[LiveReceived] = []
        """Everything that came in, of all sessions."""
        self.handles: dict[str, Conversation] = {}
        """What can be resumed. A test may forget a handle."""
        self.refusing: Drop | None = None
        """How the next setups are refused."""
        self.discards = True
        """Whether an interruption discards the calls that have no response yet, as Google's documentation says."""
        self._script = script
        self._models = models
        self._news = asyncio.Event()
        self._calls = 0
        self._kept = 0

    async def received(self, kind: Kind, count: int = 1) -> list[LiveReceived]:
        """Wait until so many of this kind have come in; all of them."""
        while len(found := [each for each in self.log if each.kind == kind]) < count:
            await self._news.wait()
        return found

    async def serve(self, socket: WebSocket, cut: Callable[[], None]) -> None:
        """Hold one connection; `cut` drops it."""
        if _PATH.fullmatch(socket.url.path) is None or not socket.headers.get("x-goog-api-key"):
            await socket.close()
            return
        await socket.accept()
        session = LiveSession(self, socket, cut)
        self.sessions.append(session)
        await session.run()

    def agree(self, message: Json) -> Setup:
        """Take what a session wants, or refuse it."""
        setup = Setup(message, self._models)
        if self.refusing is not None:
            raise Refused(self.refusing.code, self.refusing.reason)
        if setup.handle is not None and setup.handle not in self.handles:
            raise Refused(1008, "BidiGenerateContent session not found")
        return setup

    def resume(self, handle: str | None) -> Conversation:
        """The conversation of a handle; without one, a new conversation."""
        return copy.deepcopy(self.handles[handle]) if handle is not None else Conversation()

    def note(self, received: LiveReceived) -> None:
        """Keep what came in, and tell who waits for it."""
        self.log.append(received)
        self._news.set()
        self._news = asyncio.Event()

    def steps(self, turn: LiveTurn) -> Iterable[GeminiLiveStep]:
        """What the model does next."""
        if self._script is None:
            return echo(turn)
        if callable(self._script):
            return self._script(turn)
        if turn.number < len(self._script):
            return self._script[turn.number]
        raise LookupError(f"The script has {len(self._script)} turns; this is one more.")

    def keep(self, conversation: Conversation) -> str:
        """A new handle for the conversation as it is now: what is said later is not in it."""
        self._kept += 1
        name = f"handle-{self._kept}"
        self.handles[name] = copy.deepcopy(conversation)
        return name

    def call_id(self) -> str:
        """A new id for a call whose script names none."""
        self._calls += 1
        return f"function-call-{self._calls}"


class LiveSession:
    """One connection of a client."""

    _wants: Setup
    _speaker: Speaker

    def __init__(self, live: GeminiLive, socket: WebSocket, cut: Callable[[], None]) -> None:
        self.number = len(live.sessions)
        """0 for the first one."""
        self.setup: Json = {}
        """What the client asked for, with camelCase names."""
        self.sent: list[Json] = []
        """Every message to the client."""
        self.closed = asyncio.Event()
        """Set when the connection is over."""
        self._live = live
        self._socket = socket
        self._line = Line(socket, cut, self.sent)
        self._activity = False
        self._fresh = True  # nothing has come but the setup
        self._waits = False  # for a word to answer the history at

    @property
    def model(self) -> str:
        """The model that the client asked for."""
        return str(self.setup.get("model", "")).rpartition("/")[2]

    @property
    def tools(self) -> list[str]:
        """The names of the functions that the model may call."""
        return list(self._wants.functions)

    @property
    def resumed(self) -> str | None:
        """The handle that the client came with."""
        resumption: Json = self.setup.get("sessionResumption") or {}
        return resumption.get("handle")

    @property
    def contents(self) -> list[Json]:
        """The conversation so far, with that of the sessions it resumes and with the history."""
        return self._speaker.talk.contents

    @property
    def audio(self) -> bytes:
        """All sound that came in."""
        return b"".join(each.payload for each in self.received("audio"))

    @property
    def responses(self) -> list[Json]:
        """All function responses that came in, those to discarded calls too."""
        return [response for each in self.received("toolResponse") for response in each.data["functionResponses"]]

    def received(self, kind: Kind) -> list[LiveReceived]:
        """What this client has sent so far."""
        return [each for each in self._live.log if each.session is self and each.kind == kind]

    async def do(self, *steps: GoAway | Drop | Resumption | Interrupt | Send) -> None:
        """Let the server do this now, whatever the script is at."""
        for step in steps:
            await self._speaker.do(step)

    async def run(self) -> None:
        """Listen until the connection ends."""
        code = 1006
        try:
            await self._begin(await self._next())
            while True:
                await self._take(checked(await self._next(), self._wants))
        except Refused as refused:
            code = refused.code
            await self._line.drop(Drop(refused.code, str(refused)))
        except WebSocketDisconnect as gone:
            code = gone.code
        finally:
            if hasattr(self, "_speaker"):
                await self._speaker.stop()
            self.closed.set()
            self._note("closed", {"code": code})

    async def _next(self) -> Json:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code") or 1005)
        try:
            return normalised(cast("Json", json.loads(message.get("text") or message.get("bytes") or "")))
        except ValueError:
            raise Refused(1007, "Invalid JSON payload received.") from None

    async def _begin(self, message: Json) -> None:
        self.setup = message.get("setup") or {}
        self._note("setup", self.setup)
        self._wants = self._live.agree(message)
        talk = self._live.resume(self._wants.handle)
        self._speaker = Speaker(self._line, self._wants, talk, self._live, self._script)
        await self._line.send({"setupComplete": {}})
        if self._wants.resumes:
            await self._speaker.do(Resumption())

    def _script(self, new: News) -> Iterable[GeminiLiveStep]:
        talk = self._speaker.talk
        text, sound = "\n".join(new.texts), bytes(new.sound)
        said = copy.deepcopy(talk.contents)
        return self._live.steps(LiveTurn(self, talk.turns, said, text, new.responses, sound, new.frames))

    def _note(self, kind: Kind, data: Json | None = None, payload: bytes = b"") -> None:
        self._live.note(LiveReceived(self, kind, data or {}, payload))

    async def _take(self, message: Json) -> None:
        if "clientContent" in message:
            await self._take_content(message["clientContent"])
        if "toolResponse" in message:
            await self._take_responses(message["toolResponse"])
        if "realtimeInput" in message:
            await self._take_realtime(message["realtimeInput"])
        self._fresh = False

    async def _take_content(self, data: Json) -> None:
        turns: list[Json] = data.get("turns") or []
        if turns and (problem := problem_of({"contents": turns})) is not None:
            raise Refused(1007, problem)
        history = self._wants.history and self._fresh and self.resumed is None
        self._note("history" if history else "content", data)
        if not history:
            await self._speaker.interrupt()
        self._speaker.talk.contents += turns
        if turns and turns[-1].get("role", "user") == "user":
            self._speaker.new.read(turns[-1])
        self._waits = history and self._wants.third
        if data.get("turnComplete") and not self._waits:
            self._speaker.answer()

    async def _take_responses(self, data: Json) -> None:
        responses: list[Json] = data.get("functionResponses") or []
        for response in responses:
            name = self._speaker.talk.calls.get(response.get("id", ""))
            if name is None:
                raise Refused(1008, f"There is no function call with the id {response.get('id')!r}.")
            if response.get("name") != name:
                raise Refused(1007, f"The function call {response['id']!r} is one of {name!r}.")
        self._note("toolResponse", data)
        wanted = [response for response in responses if response["id"] not in self._speaker.talk.discarded]
        for response in wanted:
            self._speaker.talk.respond(response)
        schedules = {response.get("scheduling") for response in wanted}
        if "INTERRUPT" in schedules:
            await self._speaker.interrupt()
        self._speaker.new.responses += wanted
        if schedules - {"SILENT"}:
            self._speaker.answer()

    async def _take_realtime(self, data: Json) -> None:
        if "activityStart" in data:
            self._note("activityStart")
            self._activity = True
            if self._wants.interruptible:
                await self._speaker.interrupt()
        for blob in (*data.get("mediaChunks", ()), *(data[name] for name in ("audio", "video") if name in data)):
            self._take_blob(blob)
        if "text" in data:
            await self._take_text(data["text"])
        if data.get("audioStreamEnd"):
            self._note("audioStreamEnd")
            self._take_speech(over=not self._wants.manual)
        if "activityEnd" in data:
            self._note("activityEnd")
            self._take_speech(over=self._activity)
            self._activity = False

    def _take_blob(self, blob: Json) -> None:
        payload = decoded(blob.get("data", ""))
        if payload is None:
            raise Refused(1007, "Invalid value for field 'data': Base64 decoding failed.")
        media_type: str = blob.get("mimeType", "")
        sound = media_type.startswith("audio/")
        self._note("audio" if sound else "video", {"mimeType": media_type}, payload)
        if not sound:
            self._speaker.new.frames.append(Frame(media_type, payload))
        elif self._activity or not self._wants.manual:
            self._speaker.new.sound += payload

    async def _take_text(self, text: str) -> None:
        self._note("text", {"text": text})
        if not (text == _GO_ON and self._waits):
            await self._speaker.interrupt()
            self._speaker.talk.hear([{"text": text}])
            self._speaker.new.texts.append(text)
        self._waits = False
        self._speaker.answer()

    def _take_speech(self, *, over: bool) -> None:
        if over and self._speaker.new.sound:
            self._speaker.talk.hear([speech(bytes(self._speaker.new.sound))])
            self._speaker.answer()
