"""The methods `generateContent` and `streamGenerateContent` as data: steps of the emulated model, requests, replies."""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, cast

from adkwire.testing.steps import Call, Cite, Say, Show, Source, Think, Wait, words

Json: TypeAlias = dict[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True)
class StreamCall:
    """A tool call whose arguments are streamed in pieces, as Vertex AI does on request. All arguments are texts."""

    name: str
    args: Mapping[str, str]
    id: str | None = None


@dataclass(frozen=True)
class RunCode:
    """Code that the model wrote and Google executed, with its result."""

    code: str
    output: str
    outcome: str = "OUTCOME_OK"


@dataclass(frozen=True)
class Quote:
    """Citation metadata: pages that the answer repeats. Sent with the end of the answer, as grounding is."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Finish:
    """The end of the answer. An answer without this step ends with STOP; a reason of None sends no finish reason."""

    reason: str | None = "STOP"
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Block:
    """A refusal of the prompt: prompt feedback instead of an answer."""

    reason: str = "PROHIBITED_CONTENT"
    message: str = ""


@dataclass(frozen=True)
class HttpError:
    """An error of the API: an HTTP status if nothing was sent yet, else a chunk. `code`: the gRPC name."""

    status: int
    code: str
    message: str = "emulated"
    retry_after: float | None = None

    def body(self) -> Json:
        """Return the error as JSON."""
        retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{self.retry_after}s"}
        details = {"details": [retry]} if self.retry_after is not None else {}
        return {"error": {"code": self.status, "message": self.message, "status": self.code, **details}}


@dataclass(frozen=True)
class Cut:
    """The end of the connection in the middle of the reply."""


@dataclass(frozen=True)
class Send:
    """JSON that is sent unchanged as a chunk, or bytes that are sent unchanged. `Send(b"")` alone is an empty body."""

    data: Mapping[str, Any] | bytes


GeminiStep: TypeAlias = (
    Say | Think | Call | StreamCall | Show | Cite | Quote | RunCode | Wait | Finish | Block | HttpError | Cut | Send
)
"""A step of a reply to `generateContent` or `streamGenerateContent`."""

_CONTENT_STEPS = (Say, Think, Call, StreamCall, Show, Cite, Quote, RunCode)


@dataclass
class GeminiRequest:
    """A request that the emulator received."""

    number: int
    """Number of the request, from 0."""
    model: str
    method: Literal["generateContent", "streamGenerateContent"]
    headers: dict[str, str]
    body: Json
    """The JSON body, converted to camelCase names and standard base64."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client disconnected before the reply was complete."""

    @property
    def contents(self) -> list[Json]:
        """The contents of the conversation so far."""
        return self.body.get("contents") or []

    @property
    def text(self) -> str:
        """The text of the last content."""
        return "".join(part.get("text", "") for part in self.contents[-1]["parts"]) if self.contents else ""

    @property
    def tools(self) -> list[str]:
        """The names of the functions that the model may call."""
        tools: list[Json] = self.body.get("tools") or []
        return [function["name"] for tool in tools for function in tool.get("functionDeclarations", ())]


class Reply:
    """Converts the steps of one reply into the chunks of its stream."""

    def __init__(self, request: GeminiRequest) -> None:
        self._request = request
        self._pieces = 0
        self._sources: Json = {}
        self._needs_finish = True

    def chunks(self, step: GeminiStep) -> Iterator[Json]:
        """Yield the chunks of a step; a step without content has none."""
        self._needs_finish = isinstance(step, _CONTENT_STEPS) or (self._needs_finish and isinstance(step, Wait))
        match step:
            case Cite(sources):
                found = [{"web": {"uri": source.uri, "title": source.title}} for source in sources]
                self._sources["groundingMetadata"] = {"groundingChunks": found}
            case Quote(sources):
                found = [{"uri": source.uri, "title": source.title} for source in sources]
                self._sources["citationMetadata"] = {"citationSources": found}
            case Finish(reason, usage):
                yield self._finish(reason, usage)
            case Block(reason, message):
                explanation = {"blockReasonMessage": message} if message else {}
                yield {"promptFeedback": {"blockReason": reason, **explanation}, **self._model_and_id()}
            case Say() | Think() | Call() | StreamCall() | Show() | RunCode():
                for part in _parts(step):
                    self._pieces += 1
                    yield self._chunk([part])
            case Send(data) if not isinstance(data, bytes):
                yield dict(data)
            case _:
                pass

    def end(self) -> Iterator[Json]:
        """Yield the chunk that finishes an answer with STOP, if no step has finished it."""
        if self._needs_finish:
            yield self._finish("STOP", None)

    def _finish(self, reason: str | None, usage: Mapping[str, Any] | None) -> Json:
        finish_reason = {"finishReason": reason} if reason is not None else {}
        return {
            **self._chunk([], {**finish_reason, **self._sources}),
            "usageMetadata": dict(usage) if usage is not None else self._usage(),
        }

    def _usage(self) -> Json:
        texts = [part.get("text", "") for content in self._request.contents for part in content["parts"]]
        prompt = len(" ".join(texts).split())
        return {
            "promptTokenCount": prompt,
            "candidatesTokenCount": self._pieces,
            "totalTokenCount": prompt + self._pieces,
        }

    def _chunk(self, parts: list[Json], more: Json | None = None) -> Json:
        content: Json = {"role": "model", **({"parts": parts} if parts else {})}
        return {"candidates": [{"content": content, "index": 0, **(more or {})}], **self._model_and_id()}

    def _model_and_id(self) -> Json:
        return {"modelVersion": self._request.model, "responseId": f"emulated-{self._request.number}"}


def _parts(step: Say | Think | Call | StreamCall | Show | RunCode) -> Iterator[Json]:
    match step:
        case Say(text, size):
            yield from ({"text": piece} for piece in words(text, size))
        case Think(text, size):
            yield from ({"text": piece, "thought": True} for piece in words(text, size))
        case Call(name, args, call_id):
            yield {"functionCall": {"name": name, "args": dict(args), **_id(call_id)}}
        case StreamCall(name, args, call_id):
            yield {"functionCall": {"name": name, **_id(call_id), "willContinue": True}}
            for at, piece in _pieces(args):
                partial = [{"jsonPath": f"$.{at}", "stringValue": piece, "willContinue": True}]
                yield {"functionCall": {"partialArgs": partial, "willContinue": True}}
            yield {"functionCall": {}}
        case Show(media_type, data):
            yield {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}
        case RunCode(code, output, outcome):
            yield {"executableCode": {"language": "PYTHON", "code": code}}
            yield {"codeExecutionResult": {"outcome": outcome, "output": output}}


def _id(call_id: str | None) -> Json:
    return {"id": call_id} if call_id is not None else {}


def _pieces(args: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in args.items():
        yield from ((name, piece) for piece in words(value, 2))


def merged(chunks: Sequence[Json]) -> Json:
    """Merge the chunks of a stream into the single response of `generateContent`."""
    whole: Json = {}
    candidate: Json = {}
    parts: list[Json] = []
    for chunk in chunks:
        whole |= chunk
        for found in chunk.get("candidates", ()):
            candidate |= found
            for part in found["content"].get("parts", ()):
                append_part(parts, part)
    if candidate:
        whole["candidates"] = [{**candidate, "content": {"role": "model", **({"parts": parts} if parts else {})}}]
    return whole


def append_part(parts: list[Json], part: Json) -> None:
    """Append a part; text is added to the last part if that is text of the same kind."""
    last = parts[-1] if parts else {}
    if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
        parts[-1] = {**last, "text": last["text"] + part["text"]}
    else:
        parts.append(part)


_UNDERSCORE = re.compile(r"_([a-z])")
_USERS_OWN = {"args", "response", "parametersJsonSchema", "responseJsonSchema", "properties", "labels", "partMetadata"}


def normalised(value: _T) -> _T:
    """Return a body with camelCase names, because clients mix both casings. Users' own JSON in it is not changed."""
    if isinstance(value, list):
        return cast("_T", [normalised(each) for each in cast("list[Any]", value)])
    if not isinstance(value, dict):
        return value
    named = {
        _UNDERSCORE.sub(lambda found: found[1].upper(), key): each
        for key, each in cast("dict[str, Any]", value).items()
    }
    return cast("_T", {key: each if key in _USERS_OWN else normalised(each) for key, each in named.items()})


def problem_of(body: Json) -> str | None:
    """Return the error text with which the API refuses a body, or None. Converts inline data to standard base64."""
    contents = body.get("contents")
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified\n"
    calls = 0
    for at, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model"):
            return "Please use a valid role: user, model."
        if not content.get("parts"):
            return f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n"
        if not all(map(_is_part, content["parts"])):
            return f"* GenerateContentRequest.contents[{at}].parts: required oneof field 'data' must be set\n"
        if _count(content, "functionResponse") != calls:
            return _UNPAIRED
        calls = _count(content, "functionCall")
    return _UNPAIRED if calls else None


_UNPAIRED = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)


def _count(content: Json, kind: str) -> int:
    return sum(kind in part for part in content["parts"])


def _is_part(part: Json) -> bool:
    if "inlineData" in part:
        found = decoded(part["inlineData"].get("data", ""))
        if found is None:
            return False
        part["inlineData"]["data"] = base64.b64encode(found).decode()
    return any(name in part for name in _DATA)


def decoded(data: str) -> bytes | None:
    """Decode base64 in either alphabet, padded or not; return None if it is not base64."""
    try:
        return base64.b64decode(data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4), validate=True)
    except binascii.Error:
        return None
