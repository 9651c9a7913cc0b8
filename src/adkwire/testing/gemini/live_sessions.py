"""The emulator's Live sessions over WebSocket: they read what clients send and answer it by a script."""

import asyncio
import copy
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.testing.gemini.generate_content import Json, Send, decoded, normalised, problem_of
from adkwire.testing.gemini.live_protocol import (
    GeminiLiveStep,
    Hear,
    Interrupt,
    Refused,
    Setup,
    checked,
)
from adkwire.testing.gemini.live_responder import ClientSocket, LiveResponder
from adkwire.testing.gemini.session_conversation import Frame, SessionConversation, UnansweredInput, speech_part
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
_HISTORY_ENDED = "."
"""The text that ADK sends to a 3.x model after a history that ends with a user content, to get it answered."""


@dataclass(frozen=True)
class LiveReceived:
    """A message, or a part of one, that a client sent."""

    session: "LiveSession"
    kind: Kind
    data: Json = field(default_factory=dict[str, Any])
    """The JSON, converted to camelCase names."""
    payload: bytes = b""
    """The decoded bytes of audio or of an image."""


@dataclass(frozen=True)
class LiveTurn:
    """The input that a script is asked to answer with the model's next turn."""

    session: "LiveSession"
    number: int
    """The number of the model's turns before this one in the conversation, the history included."""
    contents: list[Json]
    """The contents of the conversation so far."""
    text: str
    """The user's text since the model's last turn."""
    responses: list[Json]
    """The function responses since the model's last turn."""
    sound: bytes
    """The user's speech since the model's last turn: PCM of 16 kHz."""
    frames: list[Frame]
    """The images since the model's last turn."""


LiveScript: TypeAlias = Callable[[LiveTurn], Iterable[GeminiLiveStep]]


def echo(turn: LiveTurn) -> list[GeminiLiveStep]:
    """Return the steps of a model without a script: it repeats the user's input.

    A text that contains `call NAME {...}`, once or more, makes those calls, if the functions are declared.
    """
    if turn.responses:
        return [Say(f"Done: {', '.join(response['name'] for response in turn.responses)}.")]
    if turn.sound:
        transcript = f"{len(turn.sound) // 32} ms of sound"
        return [Hear(transcript), Say(f"I heard {transcript}.")]
    calls = [
        Call(name, _object_at(turn.text, at)) for name, at in _requested_calls(turn.text) if name in turn.session.tools
    ]
    return [*calls] or [Say(f"You said: {turn.text}")]


def _requested_calls(text: str) -> list[tuple[str, int]]:
    return [(found[1], found.end()) for found in re.finditer(r"\bcall (\w+) ?", text)]


def _object_at(text: str, at: int) -> Json:
    return json.JSONDecoder().raw_decode(text, at)[0] if text.startswith("{", at) else {}


class GeminiLive:
    """The Live sessions of an emulator, and what they received. `await` its methods in the emulator's event loop."""

    def __init__(
        self, script: Sequence[Iterable[GeminiLiveStep]] | LiveScript | None, models: Collection[str] | None
    ) -> None:
        self.sessions: list[LiveSession] = []
        """One session for each connection, refused or not."""
        self.log: list[LiveReceived] = []
        """Everything that all sessions received, in order."""
        self.handles: dict[str, SessionConversation] = {}
        """The conversations that can be resumed, by handle. A test may remove handles."""
        self.refusing: Drop | None = None
        """When set, new sessions are refused with this code and reason."""
        self.discards = True
        """True when an interruption cancels the calls without a response, as Google's documentation says."""
        self._script = script
        self._models = models
        self._received = asyncio.Event()
        """Set, and replaced by a new event, when something was received."""
        self._call_count = 0
        self._handle_count = 0

    async def received(self, kind: Kind, count: int = 1) -> list[LiveReceived]:
        """Wait until so many of this kind were received, and return all of them."""
        while len(found := [each for each in self.log if each.kind == kind]) < count:
            await self._received.wait()
        return found

    async def serve(self, socket: WebSocket, cut: Callable[[], None]) -> None:
        """Serve one connection to its end; `cut` aborts it."""
        if _PATH.fullmatch(socket.url.path) is None or not socket.headers.get("x-goog-api-key"):
            await socket.close()
            return
        await socket.accept()
        session = LiveSession(self, socket, cut)
        self.sessions.append(session)
        await session.run()

    def check_setup(self, message: Json) -> Setup:
        """Return the setup of a new session; raise `Refused` for one that is refused."""
        setup = Setup(message, self._models)
        if self.refusing is not None:
            raise Refused(self.refusing.code, self.refusing.reason)
        if setup.handle is not None and setup.handle not in self.handles:
            raise Refused(1008, "BidiGenerateContent session not found")
        return setup

    def resume(self, handle: str | None) -> SessionConversation:
        """Return a copy of the conversation of a handle; without a handle, a new conversation."""
        return copy.deepcopy(self.handles[handle]) if handle is not None else SessionConversation()

    def record(self, received: LiveReceived) -> None:
        """Add to the log, and wake the tests that wait in `received`."""
        self.log.append(received)
        self._received.set()
        self._received = asyncio.Event()

    def steps(self, turn: LiveTurn) -> Iterable[GeminiLiveStep]:
        """Return the steps of the model's next turn."""
        if self._script is None:
            return echo(turn)
        if callable(self._script):
            return self._script(turn)
        if turn.number < len(self._script):
            return self._script[turn.number]
        raise LookupError(f"The script has {len(self._script)} turns; this is one more.")

    def new_handle(self, conversation: SessionConversation) -> str:
        """Return a new handle for the conversation as it is now; later contents are not part of it."""
        self._handle_count += 1
        handle = f"handle-{self._handle_count}"
        self.handles[handle] = copy.deepcopy(conversation)
        return handle

    def new_call_id(self) -> str:
        """Return a new id for a call whose step has none."""
        self._call_count += 1
        return f"function-call-{self._call_count}"


class LiveSession:
    """One Live connection of a client."""

    _setup: Setup
    _responder: LiveResponder

    def __init__(self, live: GeminiLive, socket: WebSocket, cut: Callable[[], None]) -> None:
        self.number = len(live.sessions)
        """Number of the session, from 0."""
        self.setup: Json = {}
        """The setup message of the client, converted to camelCase names."""
        self.sent: list[Json] = []
        """Every message that was sent to the client."""
        self.closed = asyncio.Event()
        """Set when the connection is closed."""
        self._live = live
        self._socket = socket
        self._client = ClientSocket(socket, cut, self.sent)
        self._activity = False
        """True between `activityStart` and `activityEnd`."""
        self._only_setup = True
        """True until the first message after the setup."""
        self._history_unanswered = False
        """True while a history that ends with a user content waits for `_HISTORY_ENDED` or another text."""

    @property
    def model(self) -> str:
        """The name of the model in the setup."""
        return str(self.setup.get("model", "")).rpartition("/")[2]

    @property
    def tools(self) -> list[str]:
        """The names of the functions that the model may call."""
        return list(self._setup.functions)

    @property
    def resumed(self) -> str | None:
        """The handle that the client resumes with, if any."""
        resumption: Json = self.setup.get("sessionResumption") or {}
        return resumption.get("handle")

    @property
    def contents(self) -> list[Json]:
        """The contents of the conversation so far, with the history and the sessions that it resumes."""
        return self._responder.conversation.contents

    @property
    def audio(self) -> bytes:
        """All audio that the session received."""
        return b"".join(each.payload for each in self.received("audio"))

    @property
    def responses(self) -> list[Json]:
        """All function responses that the session received, with those to cancelled calls."""
        return [response for each in self.received("toolResponse") for response in each.data["functionResponses"]]

    def received(self, kind: Kind) -> list[LiveReceived]:
        """Return what this session has received of a kind so far."""
        return [each for each in self._live.log if each.session is self and each.kind == kind]

    async def do(self, *steps: GoAway | Drop | Resumption | Interrupt | Send) -> None:
        """Play steps now, beside the turn that is being played."""
        for step in steps:
            await self._responder.do(step)

    async def run(self) -> None:
        """Read and answer the client's messages until the connection ends."""
        code = 1006
        try:
            await self._begin(await self._next())
            await self._handle_all()
        except Refused as refused:
            code = refused.code
            await self._client.drop(Drop(refused.code, str(refused)))
        except WebSocketDisconnect as gone:
            code = gone.code
        finally:
            self.closed.set()
            self._record("closed", {"code": code})

    async def _handle_all(self) -> None:
        """Handle the client's messages until the connection ends, then stop the model's turn."""
        try:
            while True:
                await self._handle(checked(await self._next(), self._setup))
        finally:
            await self._responder.stop()

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
        self._record("setup", self.setup)
        self._setup = self._live.check_setup(message)
        conversation = self._live.resume(self._setup.handle)
        self._responder = LiveResponder(self._client, self._setup, conversation, self._live, self._script)
        await self._client.send({"setupComplete": {}})
        if self._setup.resumable:
            await self._responder.do(Resumption())

    def _script(self, unanswered: UnansweredInput) -> Iterable[GeminiLiveStep]:
        conversation = self._responder.conversation
        return self._live.steps(
            LiveTurn(
                session=self,
                number=conversation.turns,
                contents=copy.deepcopy(conversation.contents),
                text="\n".join(unanswered.texts),
                responses=unanswered.responses,
                sound=bytes(unanswered.sound),
                frames=unanswered.frames,
            )
        )

    def _record(self, kind: Kind, data: Json | None = None, payload: bytes = b"") -> None:
        self._live.record(LiveReceived(self, kind, data or {}, payload))

    async def _handle(self, message: Json) -> None:
        if "clientContent" in message:
            await self._handle_content(message["clientContent"])
        if "toolResponse" in message:
            await self._handle_responses(message["toolResponse"])
        if "realtimeInput" in message:
            await self._handle_realtime(message["realtimeInput"])
        self._only_setup = False

    async def _handle_content(self, data: Json) -> None:
        turns: list[Json] = data.get("turns") or []
        if turns and (problem := problem_of({"contents": turns})) is not None:
            raise Refused(1007, problem)
        history = self._setup.initial_history and self._only_setup and self.resumed is None
        self._record("history" if history else "content", data)
        if not history:
            await self._responder.interrupt()
        self._responder.conversation.contents += turns
        if turns and turns[-1].get("role", "user") == "user":
            self._responder.unanswered.add(turns[-1])
        self._history_unanswered = history and self._setup.is_3x
        if data.get("turnComplete") and not self._history_unanswered:
            self._responder.answer()

    async def _handle_responses(self, data: Json) -> None:
        responses: list[Json] = data.get("functionResponses") or []
        for response in responses:
            name = self._responder.conversation.calls.get(response.get("id", ""))
            if name is None:
                raise Refused(1008, f"There is no function call with the id {response.get('id')!r}.")
            if response.get("name") != name:
                raise Refused(1007, f"The function call {response['id']!r} is one of {name!r}.")
        self._record("toolResponse", data)
        wanted = [response for response in responses if response["id"] not in self._responder.conversation.discarded]
        for response in wanted:
            self._responder.conversation.respond(response)
        schedules = {response.get("scheduling") for response in wanted}
        if "INTERRUPT" in schedules:
            await self._responder.interrupt()
        self._responder.unanswered.responses += wanted
        if schedules - {"SILENT"}:
            self._responder.answer()

    async def _handle_realtime(self, data: Json) -> None:
        if "activityStart" in data:
            self._record("activityStart")
            self._activity = True
            if self._setup.interruptible:
                await self._responder.interrupt()
        for blob in (*data.get("mediaChunks", ()), *(data[name] for name in ("audio", "video") if name in data)):
            self._handle_blob(blob)
        if "text" in data:
            await self._handle_text(data["text"])
        if data.get("audioStreamEnd"):
            self._record("audioStreamEnd")
            if not self._setup.manual_activity:
                self._end_speech()
        if "activityEnd" in data:
            self._record("activityEnd")
            if self._activity:
                self._end_speech()
            self._activity = False

    def _handle_blob(self, blob: Json) -> None:
        payload = decoded(blob.get("data", ""))
        if payload is None:
            raise Refused(1007, "Invalid value for field 'data': Base64 decoding failed.")
        media_type: str = blob.get("mimeType", "")
        audio = media_type.startswith("audio/")
        self._record("audio" if audio else "video", {"mimeType": media_type}, payload)
        if not audio:
            self._responder.unanswered.frames.append(Frame(media_type, payload))
        elif self._activity or not self._setup.manual_activity:
            self._responder.unanswered.sound += payload

    async def _handle_text(self, text: str) -> None:
        self._record("text", {"text": text})
        if not (text == _HISTORY_ENDED and self._history_unanswered):
            await self._responder.interrupt()
            self._responder.conversation.add_user_content([{"text": text}])
            self._responder.unanswered.texts.append(text)
        self._history_unanswered = False
        self._responder.answer()

    def _end_speech(self) -> None:
        """Answer the speech that was received since the last answer; without audio there is nothing to answer."""
        sound = bytes(self._responder.unanswered.sound)
        if sound:
            self._responder.conversation.add_user_content([speech_part(sound)])
            self._responder.answer()
