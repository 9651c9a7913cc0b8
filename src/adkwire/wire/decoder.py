"""A request in, a `TurnInput` out. The client is not trusted: only its newest message is read.

Of the history a client posts, everything but the last message is skipped without being parsed: the session is the
only truth about what was said. One thing else may be new: a browser's output in the answer that the user typed over.

Of an assistant's message only **answers to calls** are read: verdicts and outputs. Whether such a call is open, and
was asked so, is for the gate to say. A part that is not what a client would send is passed over.
"""

import re
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from adkwire.errors import BadRequest, RequestError, TooLarge, Unprocessable
from adkwire.wire.chunks import Json
from adkwire.wire.javascript import same_value, storable
from adkwire.wire.media import Media, read_data_url

_CHAT_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_MESSAGE_ID = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_HALF_PAIR = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_MAX_MESSAGES = 100_000
_MAX_PARTS = 10_000
_MAX_TOOL_PARTS = 128
_MAX_REASON = 1_000
_OUTPUTS = ("output-available", "output-error")
_NO_ERROR_TEXT = "The browser reported an error without a text."

T = TypeVar("T")
Trigger = Literal["submit-message", "regenerate-message"]
Scope = Literal["once", "chat", "always"]
_Id = Annotated[str, Meta(min_length=1, max_length=256)]


class InputLimits(NamedTuple):
    """How much one message may carry."""

    max_parts: int
    max_part_bytes: int
    max_image_pixels: int


class UserMessage(NamedTuple):
    """What the user said: an id of the client's making (empty: it has none), and text and files in their order."""

    id: str
    parts: tuple[str | Media, ...]


class CallAnswer(msgspec.Struct, frozen=True):
    """What a part of an assistant's message says about a call: a verdict, an output, an error, or the first with one
    of the others. Nothing of it is believed yet.
    """

    call: str
    tool: str
    input: Json = None
    """The arguments as the client has them."""
    approval: str | None = None
    approved: bool | None = None
    """The verdict; None when the part has an output and says nothing of a verdict."""
    reason: str | None = None
    output: Json | UnsetType = UNSET
    """What the browser's tool returned, which may be null; UNSET when there is no output."""
    error: str | None = None


class Answers(NamedTuple):
    """What a client says about the calls of one assistant message, at most one answer for each call."""

    message: str
    calls: tuple[CallAnswer, ...]
    denied: tuple[str, ...] = ()
    """Calls of which it says that they were denied, which is no answer any more."""

    @property
    def given(self) -> frozenset[str]:
        """The calls that it has executed."""
        return frozenset(answer.call for answer in self.calls if answer.output is not UNSET or answer.error is not None)


class TurnInput(NamedTuple):
    """One request, as far as it is believed."""

    chat: str
    trigger: Trigger
    message: UserMessage | None
    """The user's message; None when the request only names one by `replaces`, or has answers to calls instead."""
    replaces: str | None
    """The message to go back to: an edited user message, or the answer to make anew."""
    client: str | None = None
    """What the client says it is, such as `ai/7.0.169`."""
    answers: Answers | None = None
    """Answers to calls: all, when they are what was sent; beside a user's message only outputs of the browser."""


class CallBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer, as the calls route takes it."""

    approved: bool | None = None
    reason: Annotated[str, Meta(max_length=_MAX_REASON)] | None = None
    args: dict[str, Json] | None = None
    payload: Json = None
    scope: Scope = "once"
    output: Json | UnsetType = UNSET
    """UNSET when there is none; null is an output."""
    error: str | None = None
    approval_id: str | None = msgspec.field(name="approvalId", default=None)
    """The question that is answered, for whoever wants to be sure: some models number their calls anew."""


class _Request(msgspec.Struct, rename="camel"):
    id: str
    trigger: Trigger = "submit-message"
    messages: Annotated[list[Raw], Meta(max_length=_MAX_MESSAGES)] | None = None
    message: Raw = Raw()
    message_id: str | None = None
    client: str | None = None


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    id: str = ""
    parts: list[Raw] | None = None
    content: str | None = None


class _Kind(msgspec.Struct):
    type: str


class _Text(msgspec.Struct):
    text: str


class _File(msgspec.Struct, rename="camel"):
    url: str
    media_type: str = ""
    filename: str | None = None


class _Approval(msgspec.Struct):
    id: _Id
    approved: bool | None = None
    reason: str | None = None


class _ToolPart(msgspec.Struct, rename="camel"):
    type: str
    state: str
    tool_call_id: _Id
    tool_name: str = ""
    input: Raw = Raw(b"null")
    output: Raw = Raw(b"null")
    error_text: str | None = None
    approval: _Approval | None = None
    provider_executed: bool | None = None
    preliminary: bool | None = None


_request = msgspec.json.Decoder(_Request)
_message = msgspec.json.Decoder(_Message)
_kind = msgspec.json.Decoder(_Kind)
_text = msgspec.json.Decoder(_Text)
_file = msgspec.json.Decoder(_File)
_tool_part = msgspec.json.Decoder(_ToolPart)
_call_body = msgspec.json.Decoder(CallBody)
_anything = msgspec.json.Decoder()


def decode_request(body: bytes, limits: InputLimits) -> TurnInput:
    """Read what `DefaultChatTransport` posts, whole history or last message only."""
    request = decode_json(_request, body)
    last = _newest(request)
    regenerate = request.trigger == "regenerate-message"
    if last is None and not (regenerate and request.message_id):
        raise Unprocessable("The request has no message.", hint='Send {"id", "messages": [...]} or {"id", "message"}.')
    newest = decode_json(_message, last) if last is not None else None
    if newest is not None and newest.role == "assistant" and not regenerate:
        # Clients name the answered message in `messageId` too: nothing is replaced.
        answers = _answers(newest)
        return TurnInput(check_chat_id(request.id), request.trigger, None, None, request.client, answers)
    message = _user_message(newest, limits) if newest is not None else None
    replaces = _checked_message_id(request.message_id) if request.message_id else None
    left = None if regenerate or replaces else _left_behind(request)
    return TurnInput(check_chat_id(request.id), request.trigger, message, replaces, request.client, left)


def decode_call_answer(body: bytes) -> CallBody:
    """Read what the calls route is sent: one answer to one call, which does not contradict itself."""
    said = decode_json(_call_body, body)
    if problem := _contradiction(said):
        raise Unprocessable(problem)
    return msgspec.structs.replace(
        said, args=storable(said.args), payload=storable(said.payload), output=storable(said.output)
    )


def _contradiction(said: CallBody) -> str | None:
    ran = said.output is not UNSET or said.error is not None
    if said.approved is None and not ran:
        return "The answer says nothing: give `approved`, or the `output` or `error` of a browser's call."
    if said.output is not UNSET and said.error is not None:
        return "A call has an `output` or an `error`, not both."
    changed = said.args is not None or said.payload is not None or said.scope != "once"
    if said.approved is False and (ran or changed):
        return "A call that is not approved takes a `reason` and nothing else."
    if said.args is not None and ran:
        return "`args` change a call before it runs: they cannot come with its `output` or `error`."
    return None


def _newest(request: _Request) -> bytes | None:
    if _is_single(request):
        return bytes(request.message)
    return bytes(request.messages[-1]) if request.messages else None


def _is_single(request: _Request) -> bool:
    return bytes(request.message) not in (b"", b"null")


def check_chat_id(chat: str) -> str:
    """A chat id goes into paths and keys, so it is kept plain."""
    if not _CHAT_ID.fullmatch(chat) or not chat.strip("."):
        raise Unprocessable("A chat id is 1 to 128 letters, digits or any of _ . : - and not dots only.")
    return chat


def _user_message(message: _Message, limits: InputLimits) -> UserMessage:
    if message.role != "user":
        raise Unprocessable(
            f"The last message must be the user's, not the {message.role}'s.",
            hint="An answer is made anew from the user's message before it; system messages are never taken.",
        )
    if message.content is not None and message.parts is None:
        parts: tuple[str | Media, ...] = (_checked_text(message.content, limits),)
    else:
        parts = _parts(message.parts or [], limits)
    if not any(part.strip() if isinstance(part, str) else True for part in parts):
        raise Unprocessable("The message is empty.")
    return UserMessage(_checked_message_id(message.id) if message.id else "", parts)


def _parts(raw: list[Raw], limits: InputLimits) -> tuple[str | Media, ...]:
    if len(raw) > limits.max_parts:
        raise TooLarge(f"A message may have at most {limits.max_parts} parts; this one has {len(raw)}.")
    return tuple(part for part in (_part(bytes(one), limits) for one in raw) if part is not None)


def _part(raw: bytes, limits: InputLimits) -> str | Media | None:
    kind = decode_json(_kind, raw).type
    if kind == "text":
        return _checked_text(decode_json(_text, raw).text, limits) or None
    if kind == "file":
        part = decode_json(_file, raw)
        return read_data_url(
            part.url,
            declared=part.media_type,
            filename=part.filename,
            max_bytes=limits.max_part_bytes,
            max_pixels=limits.max_image_pixels,
        )
    return None


def _left_behind(request: _Request) -> Answers | None:
    """The browser's outputs in the answer that the user typed over: the page may not have sent them before."""
    history = request.messages or []
    before = bytes(history[-2]) if len(history) > 1 and not _is_single(request) else b""
    if not (b"output-available" in before or b"output-error" in before):
        return None
    try:
        message = decode_json(_message, before)
        answers = _answers(message)
    except RequestError:
        return None
    outputs = tuple(call for call in answers.calls if call.output is not UNSET or call.error is not None)
    return Answers(answers.message, outputs) if outputs and message.role == "assistant" else None


def _answers(message: _Message) -> Answers:
    message_id = _checked_message_id(message.id)
    found: dict[str, CallAnswer | None] = {}
    for answer in filter(None, map(_answer, _tool_parts(message))):
        first = found.setdefault(answer.call, answer)
        if first is not None and not same_value(msgspec.to_builtins(first), msgspec.to_builtins(answer)):
            found[answer.call] = None  # It says two things: neither counts.
    denied = tuple(filter(None, map(_denied, _tool_parts(message))))
    return Answers(message_id, tuple(answer for answer in found.values() if answer is not None), denied)


def _denied(raw: bytes) -> str | None:
    """The call of a part that says it was denied."""
    part = _tool_part_of(raw)
    return part.tool_call_id if part is not None and part.state == "output-denied" else None


def _tool_parts(message: _Message) -> list[bytes]:
    """The calls of the last step: what came before was answered, or the message would not have gone on."""
    parts = message.parts or []
    if len(parts) > _MAX_PARTS:
        raise TooLarge(f"An answered message may have at most {_MAX_PARTS} parts; this one has {len(parts)}.")
    tools: list[bytes] = []
    for raw in map(bytes, parts):
        kind = _kind_of(raw)
        if kind == "step-start":
            tools = []
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            tools.append(raw)
    if len(tools) > _MAX_TOOL_PARTS:
        raise TooLarge(f"An answered message may have at most {_MAX_TOOL_PARTS} calls; this one has {len(tools)}.")
    return tools


def _kind_of(raw: bytes) -> str:
    try:
        return decode_json(_kind, raw).type
    except RequestError:
        return ""


def _answer(raw: bytes) -> CallAnswer | None:
    """What a tool's part answers; None when it answers nothing, or is not as a client would have it."""
    part = _tool_part_of(raw)
    try:
        return _checked_answer(part) if part and not (part.provider_executed or part.preliminary) else None
    except RequestError:
        return None


def _tool_part_of(raw: bytes) -> _ToolPart | None:
    try:
        return decode_json(_tool_part, raw)
    except RequestError:
        return None


def _checked_answer(part: _ToolPart) -> CallAnswer | None:
    tool = part.tool_name if part.type == "dynamic-tool" else part.type.removeprefix("tool-")
    approval = part.approval
    verdict = approval.approved if approval is not None else None
    answers = verdict is not None if part.state == "approval-responded" else part.state in _OUTPUTS
    if not tool or not answers:
        return None
    return CallAnswer(
        call=part.tool_call_id,
        tool=tool,
        input=_value(part.input),
        approval=approval.id if approval is not None else None,
        approved=verdict,
        reason=approval.reason[:_MAX_REASON] if approval is not None and approval.reason else None,
        output=_value(part.output) if part.state == "output-available" else UNSET,
        error=(part.error_text or _NO_ERROR_TEXT) if part.state == "output-error" else None,
    )


def _value(raw: Raw) -> Json:
    return storable(decode_json(_anything, bytes(raw)))


def _checked_text(text: str, limits: InputLimits) -> str:
    if len(text.encode()) > limits.max_part_bytes:
        raise TooLarge(f"A text part may have at most {limits.max_part_bytes} bytes.")
    return text


def _checked_message_id(message_id: str) -> str:
    if not _MESSAGE_ID.fullmatch(message_id):
        raise Unprocessable("A message needs an id of 1 to 128 printable characters.")
    return message_id


def decode_json(decoder: "msgspec.json.Decoder[T]", raw: bytes) -> T:
    """JSON of the expected form, or a refusal that says what is wrong with it."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"The request does not have the expected form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mended = _without_half_characters(raw)
        if mended is None:
            raise BadRequest(f"The body is not JSON: {error}") from None
    return decode_json(decoder, mended)


def _without_half_characters(raw: bytes) -> bytes | None:
    """JavaScript may send half a surrogate pair, as an escape that strict JSON forbids; None when that is not it."""
    mended = _HALF_PAIR.sub(rb"\1\\ufffd", raw)
    return mended if mended != raw else None
