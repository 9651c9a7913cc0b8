"""GeminiDirect: turns of a chat that Gemini answers without an agent.

A source of events like `AgentRunner.turn`, in the same session, so resume, stop, history and a change of mode need not
know of it. There are no tools and no gate. A model without tools cannot be given calls either, so calls of the agent's
turns are described as text of the user: as text of the model it would imitate them.
"""

import asyncio
import base64
import functools
import itertools
import os
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from google.genai.errors import APIError
from msgspec import UNSET

from adkwire.adk.runner import AgentRunner, Stamp
from adkwire.adk.stamps import add_stamp
from adkwire.adk.turns import Turn, text_and_files, turns
from adkwire.errors import Unavailable
from adkwire.stores.base import ChatKey
from adkwire.tasks import end
from adkwire.wire.chunks import json_text
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.event_parts import kind_of
from adkwire.wire.encode.outcome import ABORTED
from adkwire.wire.media import Media
from adkwire.wire.messages import FilePart, Part, TextPart, ToolPart

if TYPE_CHECKING:
    from google.adk.models import Gemini

AUTHOR = "gemini"
DEFAULT_MODEL = "gemini-3.5-flash"

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_CLOUD = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
_NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"
_T = TypeVar("_T")
Fields: TypeAlias = dict[str, Any]


class GeminiDirect:
    """Runs turns with Gemini or, without a key, with the offline model if there is one."""

    def __init__(self, adk: AgentRunner, *, model: str | None = None, offline: BaseLlm | None = None) -> None:
        self._adk = adk
        self._model_name = model
        self._offline_model = offline
        self._connected = False
        """True once Gemini was asked."""

    @property
    def name(self) -> str | None:
        """The name of the model that answers; None when there is none."""
        if self._gemini is not None:
            return self._model_name or self._gemini.model
        return self._fallback.model if self._fallback is not None else None

    @property
    def offline(self) -> bool:
        """True when the offline model answers."""
        return self._gemini is None and self._fallback is not None

    def check(self) -> None:
        """Raise `Unavailable` when there is no model that could answer."""
        if self.name is None:
            raise Unavailable(
                "There is no key for Gemini on this server.",
                hint="Set GOOGLE_API_KEY where the server runs, or talk to the agent.",
            )

    async def turn(
        self, key: ChatKey, message: UserMessage, stamp: Stamp, abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Answer one user message and yield events; what is stored of them is stamped with `stamp`.

        It ends as ADK's runs do: a failure is an event and is raised then, a stop is an event.
        """
        about: Fields = {"invocation_id": f"e-{uuid.uuid4()}"}
        answer: Fields = {**about, "author": AUTHOR, "id": str(uuid.uuid4()), "custom_metadata": add_stamp(None, stamp)}
        done = False
        with self._adk.stamping(key, stamp):
            contents = await self._store_message(key, message, about)
            try:
                async with aclosing(_until_abort(abort, self._ask(contents))) as responses:
                    async for response in responses:
                        event = Event(**dict(response) | answer, timestamp=self._adk.now(key))
                        done = not event.partial
                        if done:
                            await self._adk.append(key, [event])
                        yield event
            except Exception as error:
                yield await self._store_end(key, about, _code_of(error), str(error))
                raise
            if abort.is_set() and not done:
                yield await self._store_end(key, about, ABORTED)

    async def close(self) -> None:
        """Close the connections to Gemini, but not those of the agent's own model."""
        if self._connected and self._gemini is not None and self._gemini is not self._agent_model:
            await self._gemini.api_client.aio.aclose()

    @functools.cached_property
    def _agent_model(self) -> BaseLlm | None:
        """The model of the agent."""
        return self._adk.model

    @functools.cached_property
    def _fallback(self) -> BaseLlm | None:
        """The offline model: that of the bridge, or the agent's own if that is offline."""
        return self._offline_model or (self._agent_model if self._adk.offline else None)

    @functools.cached_property
    def _gemini(self) -> "Gemini | None":
        """ADK's Gemini model, the agent's own if it has one; None without a key."""
        from google.adk.models import Gemini  # heavy, and not needed for turns of the agent

        has_key = has_gemini_key(os.environ)
        if isinstance(self._agent_model, Gemini) and (
            self._agent_model.client or self._agent_model.client_kwargs or has_key
        ):
            return self._agent_model
        return Gemini(model=self._model_name or DEFAULT_MODEL) if has_key else None

    async def _store_message(self, key: ChatKey, message: UserMessage, about: Fields) -> list[types.Content]:
        """Store the user's message; return the contents of the chat with it."""
        session = await self._adk.load(key)
        before = contents_of_chat(session.events) if session is not None else []
        stored = _content("user", [_part(content, named=True) for content in message.parts])
        await self._adk.append(key, [Event(author="user", content=stored, **about)])
        return [*before, _content("user", map(_part, message.parts))]

    async def _store_end(self, key: ChatKey, about: Fields, code: str, message: str | None = None) -> Event:
        event = Event(author=AUTHOR, error_code=code, error_message=message, **about)
        await self._adk.append(key, [event])
        return event

    async def _ask(self, contents: list[types.Content]) -> AsyncGenerator[LlmResponse, None]:
        if self._gemini is not None:
            self._connected = True
            source = _gemini_stream(self._gemini, self._model_name or self._gemini.model, contents)
        elif self._fallback is not None:
            request = LlmRequest(model=self._fallback.model, contents=contents)
            source = self._fallback.generate_content_async(request, stream=True)
        else:
            self.check()
            return
        async with aclosing(source):
            async for response in source:
                yield response


def has_gemini_key(environ: Mapping[str, str]) -> bool:
    """Return whether the environment has a key or a cloud project for Gemini."""
    return any(environ.get(name) for name in _KEYS) or any(
        environ.get(name, "").lower() in ("1", "true") for name in _CLOUD
    )


async def _gemini_stream(
    gemini: "Gemini", name: str, contents: list[types.Content]
) -> AsyncGenerator[LlmResponse, None]:
    """Yield partial responses as they arrive, then the whole answer once more."""
    whole = _Whole()
    models = cast("Any", gemini.api_client.aio.models)  # its types are not wholly known
    stream: AsyncGenerator[types.GenerateContentResponse, None]
    stream = await models.generate_content_stream(model=name, contents=contents)
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            response = LlmResponse.create(chunk)
            whole.add(response)
            yield response.model_copy(update={"partial": True})
    yield whole.response()


class _Whole:
    """Joins the partial responses of a stream to one response."""

    def __init__(self) -> None:
        self._parts: list[types.Part] = []
        self._fields: Fields = {"error_code": _NO_CONTENT}

    def add(self, response: LlmResponse) -> None:
        self._fields |= {name: value for name, value in response if value is not None}
        for part in (response.content.parts if response.content is not None else None) or ():
            last = self._parts[-1] if self._parts else None
            if part.text and last is not None and last.text and last.thought == part.thought:
                self._parts[-1] = types.Part(text=last.text + part.text, thought=part.thought)
            elif kind_of(part) is not None:
                self._parts.append(part)

    def response(self) -> LlmResponse:
        """Return the whole response. One that ended early is an error only when it has no content."""
        if self._parts:
            self._fields |= {"content": _content("model", self._parts), "error_code": None, "error_message": None}
        self._fields["partial"] = False
        return LlmResponse(**self._fields)


async def _until_abort(abort: asyncio.Event, source: AsyncGenerator[_T, None]) -> AsyncGenerator[_T, None]:
    """Yield from `source` until the abort; then close it, wherever it is."""
    aborted = asyncio.create_task(abort.wait(), name="adkwire-direct-abort")
    next_item: asyncio.Task[_T | None] | None = None
    try:
        while not abort.is_set():
            next_item = asyncio.create_task(_next(source), name="adkwire-direct")
            await asyncio.wait([next_item, aborted], return_when=asyncio.FIRST_COMPLETED)
            if not next_item.done() or (item := next_item.result()) is None:
                return
            yield item
    finally:
        # A source that swallows the cancellation is still running and cannot be closed.
        if await end(*(task for task in (next_item, aborted) if task is not None)):
            await source.aclose()


async def _next(source: AsyncGenerator[_T, None]) -> _T | None:
    return await anext(source, None)


def _code_of(error: Exception) -> str:
    return (error.status if isinstance(error, APIError) else None) or type(error).__name__


def contents_of_chat(events: Iterable[Event]) -> list[types.Content]:
    """Return the turns of a chat as contents for a model without tools."""
    return [content for turn in turns(events) for content in (*_user_contents(turn), *_answer(turn))]


def _user_contents(turn: Turn) -> Iterator[types.Content]:
    if turn.user_event is not None and (parts := [_part(content) for content in text_and_files(turn.user_event)]):
        yield _content("user", parts)


def _answer(turn: Turn) -> Iterator[types.Content]:
    """Yield the answer of a turn as the page shows it: text of the model, calls and pictures as context of the user."""
    described = [(role, part) for each in turn.messages()[-1].parts for role, part in _described(each)]
    for role, parts in itertools.groupby(described, key=lambda pair: pair[0]):
        yield _content(role, [part for _, part in parts])


def _described(part: Part) -> Iterator[tuple[str, types.Part]]:
    """Yield what a model without tools reads of a part of the answer, with the role of its content."""
    if isinstance(part, TextPart):
        yield "model", types.Part(text=part.text)
    elif isinstance(part, ToolPart):
        yield "user", types.Part(text=f"For context: {_description(part)}")
    elif isinstance(part, FilePart) and part.url.startswith("data:"):
        yield "user", types.Part(text="For context: you showed this.")
        yield "user", _part(Media(part.media_type, base64.b64decode(part.url.partition(",")[2])))


def _description(call: ToolPart) -> str:
    name = call.type.removeprefix("tool-") if call.tool_name is UNSET else call.tool_name
    called = (
        f"the tool {name} was called with {json_text(call.input)}" if call.input is not UNSET else f"{name} was called"
    )
    match call.state:
        case "output-available":
            return f"{called} and gave {json_text(call.output)}."
        case "output-error":
            return f"{called} and failed: {call.error_text}"
        case "output-denied":
            return f"{called}; the user refused it."
        case _:
            return f"{called}; there is no result."


def _content(role: str, parts: Iterable[types.Part]) -> types.Content:
    return types.Content(role=role, parts=list(parts))


def _part(content: str | Media, *, named: bool = False) -> types.Part:
    """Return a part of a message. The API takes no file names; the session keeps them (`named`)."""
    if isinstance(content, str):
        return types.Part(text=content)
    name = content.filename if named else None
    return types.Part(inline_data=types.Blob(data=content.data, mime_type=content.media_type, display_name=name))
