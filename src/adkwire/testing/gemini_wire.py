"""Gemini's REST wire as data: what an emulated model does, the JSON that it becomes, and how a request is read."""

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
    """A tool call whose arguments, texts, come piece by piece, as Vertex AI sends them on request."""

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
    """Citation metadata: the answer repeats these pages. Like grounding it comes with the end of the answer."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Finish:
    """The end of the answer. Without it, an answer ends with STOP; `None` gives no reason, as a cut-off one does."""

    reason: str | None = "STOP"
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Block:
    """The prompt is refused: feedback instead of an answer."""

    reason: str = "PROHIBITED_CONTENT"
    message: str = ""


@dataclass(frozen=True)
class HttpError:
    """Google's error: as a status when nothing was sent yet, else inside the stream. `code` is the gRPC name."""

    status: int
    code: str
    message: str = "emulated"
    retry_after: float | None = None

    def body(self) -> Json:
        """The JSON it becomes."""
        retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{self.retry_after}s"}
        details = {"details": [retry]} if self.retry_after is not None else {}
        return {"error": {"code": self.status, "message": self.message, "status": self.code, **details}}


@dataclass(frozen=True)
class Cut:
    """The connection is dropped."""


@dataclass(frozen=True)
class Send:
    """This very JSON as a chunk, or these very bytes as part of the body. A reply of `Send(b"")` has none."""

    data: Mapping[str, Any] | bytes


GeminiStep: TypeAlias = (
    Say | Think | Call | StreamCall | Show | Cite | Quote | RunCode | Wait | Finish | Block | HttpError | Cut | Send
)
"""What the emulated model can do."""

_SAID = (Say, Think, Call, StreamCall, Show, Cite, Quote, RunCode)


@dataclass
class GeminiRequest:
    """A request that came in."""

    number: int
    """0 for the first one."""
    model: str
    method: Literal["generateContent", "streamGenerateContent"]
    headers: dict[str, str]
    body: Json
    """With camelCase names and standard base64, whichever the client used."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client went away before the reply was complete."""

    @property
    def contents(self) -> list[Json]:
        """The conversation so far."""
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
    """One answer in the making: steps in, chunks of the stream out."""

    def __init__(self, request: GeminiRequest) -> None:
        self._request = request
        self._pieces = 0
        self._sources: Json = {}
        self._open = True

    def chunks(self, step: GeminiStep) -> Iterator[Json]:
        """The chunks of a step; none for one that is not about content."""
        self._open = isinstance(step, _SAID) or (self._open and isinstance(step, Wait))
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
                said = {"blockReasonMessage": message} if message else {}
                yield {"promptFeedback": {"blockReason": reason, **said}, **self._about()}
            case Say() | Think() | Call() | StreamCall() | Show() | RunCode():
                for part in _parts(step):
                    self._pieces += 1
                    yield self._chunk([part])
            case Send(data) if not isinstance(data, bytes):
                yield dict(data)
            case _:
                pass

    def end(self) -> Iterator[Json]:
        """The end that an answer gets by itself."""
        if self._open:
            yield self._finish("STOP", None)

    def _finish(self, reason: str | None, usage: Mapping[str, Any] | None) -> Json:
        why = {"finishReason": reason} if reason is not None else {}
        return {
            **self._chunk([], {**why, **self._sources}),
            "usageMetadata": dict(usage) if usage is not None else self._usage(),
        }

    def _usage(self) -> Json:
        asked = [part.get("text", "") for content in self._request.contents for part in content["parts"]]
        prompt = len(" ".join(asked).split())
        return {
            "promptTokenCount": prompt,
            "candidatesTokenCount": self._pieces,
            "totalTokenCount": prompt + self._pieces,
        }

    def _chunk(self, parts: list[Json], more: Json | None = None) -> Json:
        content: Json = {"role": "model", **({"parts": parts} if parts else {})}
        return {"candidates": [{"content": content, "index": 0, **(more or {})}], **self._about()}

    def _about(self) -> Json:
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
    """The chunks of a stream as the one answer of a request that did not ask for a stream."""
    whole: Json = {}
    candidate: Json = {}
    parts: list[Json] = []
    for chunk in chunks:
        whole |= chunk
        for found in chunk.get("candidates", ()):
            candidate |= found
            for part in found["content"].get("parts", ()):
                joined(parts, part)
    if candidate:
        whole["candidates"] = [{**candidate, "content": {"role": "model", **({"parts": parts} if parts else {})}}]
    return whole


def joined(parts: list[Json], part: Json) -> None:
    """Add a part; text goes on where text of the same kind is the last one."""
    last = parts[-1] if parts else {}
    if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
        parts[-1] = {**last, "text": last["text"] + part["text"]}
    else:
        parts.append(part)


_UNDERSCORE = re.compile(r"_([a-z])")
_USERS_OWN = {"args", "response", "parametersJsonSchema", "responseJsonSchema", "properties", "labels", "partMetadata"}


def normalised(value: _T) -> _T:
    """A body with camelCase names: clients mix both casings. What is the user's own JSON stays as it is."""
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
    """What the real API would not take, in its words; inline data is turned into standard base64 on the way."""
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
    """The bytes of base64 in either alphabet, padded or not; nothing if it is none."""
    try:
        return base64.b64decode(data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4), validate=True)
    except binascii.Error:
        return None
