"""The steps of a scripted model's turn, and how they are played as the responses of a streaming model."""

import asyncio
import copy
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, assert_never

from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types

# A word with the space after it; text without spaces, such as Japanese, is cut every few characters, as tokens are.
_WORDS = re.compile(r"[\u3000-\u9fff\uff00-\uffef]{1,3}\s*|[^\s\u3000-\u9fff\uff00-\uffef]+\s*|\s+")


@dataclass(frozen=True)
class Say:
    """Text, streamed word by word or every `chunk` characters."""

    text: str
    chunk: int | None = None


@dataclass(frozen=True)
class Think:
    """A thought, streamed like text."""

    text: str
    chunk: int | None = None


@dataclass(frozen=True)
class Call:
    """A tool call. ADK gives it an id if it has none."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None


@dataclass(frozen=True)
class Show:
    """Inline media, for example an image."""

    media_type: str
    data: bytes


@dataclass(frozen=True)
class Source:
    """A web page that is a source of an answer."""

    uri: str
    title: str


@dataclass(frozen=True)
class Cite:
    """Grounding metadata with these web sources, on the final response."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Fail:
    """An exception that the model raises."""

    error: Exception


@dataclass(frozen=True)
class ErrorCode:
    """An error code instead of content. It ends the turn."""

    code: str
    message: str


@dataclass(frozen=True)
class Wait:
    """A pause until the event is set."""

    event: asyncio.Event


@dataclass(frozen=True)
class Raw:
    """A response that is yielded unchanged, streaming or not. The final response does not repeat it."""

    response: LlmResponse


@dataclass(frozen=True)
class Drop:
    """The end of the connection with this close code; 1006 is a cut without a close frame. It ends the script."""

    code: int = 1006
    reason: str = "dropped"


@dataclass(frozen=True)
class GoAway:
    """The announcement that the model will end the live connection soon. Ignored in a request."""

    seconds: float = 10


@dataclass(frozen=True)
class Resumption:
    """A new handle to resume the live conversation by, or the announcement that there is none now.

    Ignored in a request.
    """

    resumable: bool = True


Step = Say | Think | Call | Show | Cite | Fail | ErrorCode | Wait | Raw | Drop | GoAway | Resumption
"""A step of a `ScriptedModel`."""


async def play(
    steps: Iterable[Step], *, stream: bool, model: str, delay: float = 0.0, prompt_tokens: int = 0
) -> AsyncGenerator[LlmResponse, None]:
    """Yield the responses of one model turn.

    With `stream`: partial responses, each after `delay` seconds, then a final response with the whole content.
    Without it: only the final response. A turn that has only `Raw` and `Wait` steps gets no final response.
    """
    answer = FinalResponse(model, prompt_tokens)
    raw = False
    for step in steps:
        match step:
            case Fail(error):
                # The same instance may be raised many times: do not let tracebacks pile up on it.
                raise error.with_traceback(None)
            case ErrorCode(code, message):
                yield LlmResponse(error_code=code, error_message=message, partial=False, model_version=model)
                return
            case Wait(event):
                await event.wait()
            case Raw(response):
                raw = True
                yield response
            case Cite(sources):
                answer.sources += sources
            case Drop(code, reason):
                drop(code, reason)
            case GoAway() | Resumption():
                pass
            case Say() | Think() | Call() | Show():
                for part in parts_of(step):
                    answer.add(part)
                    if stream:
                        await asyncio.sleep(delay)
                        yield LlmResponse(content=_content([part]), partial=True, model_version=model)
            case _:
                assert_never(step)
    if not (raw and answer.empty):
        yield answer.response()


def drop(code: int, reason: str) -> NoReturn:
    """Raise the error of google-genai for a connection that the server has closed."""
    raise errors.APIError(code, reason)


def words(text: str, chunk: int | None = None) -> list[str]:
    """Cut a text into the pieces that it is streamed in; joined they are the text again."""
    if chunk is None:
        return _WORDS.findall(text)
    return [text[at : at + chunk] for at in range(0, len(text), chunk)]


class FinalResponse:
    """The final response of a turn, collected from the parts of the turn."""

    def __init__(self, model: str, prompt_tokens: int) -> None:
        self.model = model
        self.prompt_tokens = prompt_tokens
        self.parts: list[types.Part] = []
        self.sources: tuple[Source, ...] = ()
        self.tokens = 0
        """Pieces that were added: each counts as one token."""

    @property
    def empty(self) -> bool:
        """True while there are no parts and no sources."""
        return not self.parts and not self.sources

    def add(self, part: types.Part) -> None:
        """Add a piece; adjacent texts of the same kind become one part."""
        self.tokens += 1
        last = self.parts[-1] if self.parts else None
        if last and last.text is not None and part.text is not None and last.thought == part.thought:
            self.parts[-1] = types.Part(text=last.text + part.text, thought=part.thought)
        else:
            self.parts.append(part)

    @property
    def usage(self) -> types.GenerateContentResponseUsageMetadata:
        """The usage metadata of the turn."""
        return types.GenerateContentResponseUsageMetadata(
            prompt_token_count=self.prompt_tokens,
            candidates_token_count=self.tokens,
            total_token_count=self.prompt_tokens + self.tokens,
        )

    @property
    def grounding(self) -> types.GroundingMetadata | None:
        """The grounding metadata, if there are sources."""
        pages = [types.GroundingChunkWeb(uri=source.uri, title=source.title) for source in self.sources]
        chunks = [types.GroundingChunk(web=page) for page in pages]
        return types.GroundingMetadata(grounding_chunks=chunks) if chunks else None

    def response(self) -> LlmResponse:
        """Return the response."""
        return LlmResponse(
            content=_content(self.parts),
            partial=False,
            finish_reason=types.FinishReason.STOP,
            usage_metadata=self.usage,
            grounding_metadata=self.grounding,
            model_version=self.model,
        )


def parts_of(step: Say | Think | Call | Show) -> Iterator[types.Part]:
    """Yield the parts in which a step is streamed."""
    match step:
        case Say(text, chunk):
            yield from (types.Part(text=piece) for piece in words(text, chunk))
        case Think(text, chunk):
            yield from (types.Part(text=piece, thought=True) for piece in words(text, chunk))
        case Call(name, args, call_id):
            # ADK writes ids into the call and may hand the arguments to a tool: never share them between runs.
            call = types.FunctionCall(id=call_id, name=name, args=copy.deepcopy(dict(args)))
            yield types.Part(function_call=call)
        case Show(media_type, data):
            yield types.Part(inline_data=types.Blob(mime_type=media_type, data=data))


def _content(parts: list[types.Part]) -> types.Content:
    return types.Content(role="model", parts=parts)
