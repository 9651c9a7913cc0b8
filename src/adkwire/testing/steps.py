"""What a scripted model does in one turn, as data, and how it is played the way a real model streams."""

import asyncio
import copy
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, assert_never

from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types

# A word with the space after it; scripts without spaces are cut every few characters, as tokens are.
_WORDS = re.compile(r"[\u3000-\u9fff\uff00-\uffef]{1,3}\s*|[^\s\u3000-\u9fff\uff00-\uffef]+\s*|\s+")


@dataclass(frozen=True)
class Say:
    """Text. Streamed word by word, or every `chunk` characters."""

    text: str
    chunk: int | None = None


@dataclass(frozen=True)
class Think:
    """A thought. Streamed like text."""

    text: str
    chunk: int | None = None


@dataclass(frozen=True)
class Call:
    """A tool call. Without an `id` ADK gives it one."""

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
    """A web page an answer rests on."""

    uri: str
    title: str


@dataclass(frozen=True)
class Cite:
    """Grounding metadata with these web sources, on the final response."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Fail:
    """The model raises."""

    error: Exception


@dataclass(frozen=True)
class ErrorCode:
    """The model answers with an error code instead of content. Nothing follows it."""

    code: str
    message: str


@dataclass(frozen=True)
class Wait:
    """Hold the run here until the event is set."""

    event: asyncio.Event


@dataclass(frozen=True)
class Raw:
    """This very response, streaming or not. It is not repeated in the final response."""

    response: LlmResponse


@dataclass(frozen=True)
class Drop:
    """The connection ends with this close code; 1006 is a cut without a word. Nothing follows it."""

    code: int = 1006
    reason: str = "dropped"


@dataclass(frozen=True)
class GoAway:
    """The model will end the live connection soon. Nothing happens in a request."""

    seconds: float = 10


@dataclass(frozen=True)
class Resumption:
    """A new handle, by which the live conversation can be resumed; or the word that there is none now.

    Nothing happens in a request.
    """

    resumable: bool = True


Step = Say | Think | Call | Show | Cite | Fail | ErrorCode | Wait | Raw | Drop | GoAway | Resumption


async def play(
    steps: Iterable[Step], *, stream: bool, model: str, delay: float = 0.0, prompt_tokens: int = 0
) -> AsyncGenerator[LlmResponse, None]:
    """Yield the responses of one model turn.

    With `stream`: partial responses, each after `delay` seconds, then the whole content once more in a final one.
    Without: only the final one. A turn of nothing but `Raw` (and `Wait`) steps gets no final response of ours.
    """
    answer = Answer(model, prompt_tokens)
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
        yield answer.final()


def drop(code: int, reason: str) -> NoReturn:
    """Raise what google-genai raises when the other side has closed the connection."""
    raise errors.APIError(code, reason)


def words(text: str, chunk: int | None = None) -> list[str]:
    """Cut a text into the pieces it is streamed in; joined they are the text again."""
    if chunk is None:
        return _WORDS.findall(text)
    return [text[at : at + chunk] for at in range(0, len(text), chunk)]


class Answer:
    """Collects the parts of a turn for its final response."""

    def __init__(self, model: str, prompt_tokens: int) -> None:
        self.model = model
        self.prompt_tokens = prompt_tokens
        self.parts: list[types.Part] = []
        self.sources: tuple[Source, ...] = ()
        self.tokens = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say."""
        return not self.parts and not self.sources

    def add(self, part: types.Part) -> None:
        """Take a piece; texts of one kind that follow each other are one part."""
        self.tokens += 1
        last = self.parts[-1] if self.parts else None
        if last and last.text is not None and part.text is not None and last.thought == part.thought:
            self.parts[-1] = types.Part(text=last.text + part.text, thought=part.thought)
        else:
            self.parts.append(part)

    @property
    def usage(self) -> types.GenerateContentResponseUsageMetadata:
        """A token for each piece."""
        return types.GenerateContentResponseUsageMetadata(
            prompt_token_count=self.prompt_tokens,
            candidates_token_count=self.tokens,
            total_token_count=self.prompt_tokens + self.tokens,
        )

    @property
    def grounding(self) -> types.GroundingMetadata | None:
        """The sources, if there are any."""
        pages = [types.GroundingChunkWeb(uri=source.uri, title=source.title) for source in self.sources]
        chunks = [types.GroundingChunk(web=page) for page in pages]
        return types.GroundingMetadata(grounding_chunks=chunks) if chunks else None

    def final(self) -> LlmResponse:
        """The whole turn."""
        return LlmResponse(
            content=_content(self.parts),
            partial=False,
            finish_reason=types.FinishReason.STOP,
            usage_metadata=self.usage,
            grounding_metadata=self.grounding,
            model_version=self.model,
        )


def parts_of(step: Say | Think | Call | Show) -> Iterator[types.Part]:
    """The parts a step is streamed in."""
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
