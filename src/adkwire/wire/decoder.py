"""A request in, a `TurnInput` out. The client is not trusted: only its newest message is read.

Of the history a client posts, everything but the last message is skipped without being parsed: the session is the
only truth about what was said.
"""

import re
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Raw

from adkwire.errors import BadRequest, TooLarge, Unprocessable
from adkwire.wire.media import Media, read_data_url

_CHAT_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_MESSAGE_ID = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_HALF_PAIR = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_MAX_MESSAGES = 100_000

T = TypeVar("T")
Trigger = Literal["submit-message", "regenerate-message"]


class InputLimits(NamedTuple):
    """How much one message may carry."""

    max_parts: int
    max_part_bytes: int
    max_image_pixels: int


class UserMessage(NamedTuple):
    """What the user said: an id of the client's making (empty: it has none), and text and files in their order."""

    id: str
    parts: tuple[str | Media, ...]


class TurnInput(NamedTuple):
    """One request, as far as it is believed."""

    chat: str
    trigger: Trigger
    message: UserMessage | None
    """The user's message; None when the request only names one by `replaces`."""
    replaces: str | None
    """The message to go back to: an edited user message, or the answer to make anew."""
    client: str | None = None
    """What the client says it is, such as `ai/7.0.169`."""


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


_request = msgspec.json.Decoder(_Request)
_message = msgspec.json.Decoder(_Message)
_kind = msgspec.json.Decoder(_Kind)
_text = msgspec.json.Decoder(_Text)
_file = msgspec.json.Decoder(_File)


def decode_request(body: bytes, limits: InputLimits) -> TurnInput:
    """Read what `DefaultChatTransport` posts, whole history or last message only."""
    request = decode_json(_request, body)
    last = _newest(request)
    regenerate = request.trigger == "regenerate-message"
    if last is None and not (regenerate and request.message_id):
        raise Unprocessable("The request has no message.", hint='Send {"id", "messages": [...]} or {"id", "message"}.')
    message = _user_message(decode_json(_message, last), limits) if last is not None else None
    replaces = _checked_message_id(request.message_id) if request.message_id else None
    return TurnInput(check_chat_id(request.id), request.trigger, message, replaces, request.client)


def _newest(request: _Request) -> bytes | None:
    message = bytes(request.message)
    if message and message != b"null":
        return message
    return bytes(request.messages[-1]) if request.messages else None


def check_chat_id(chat: str) -> str:
    """A chat id goes into paths and keys, so it is kept plain."""
    if not _CHAT_ID.fullmatch(chat) or not chat.strip("."):
        raise Unprocessable("A chat id is 1 to 128 letters, digits or any of _ . : - and not dots only.")
    return chat


def _user_message(message: _Message, limits: InputLimits) -> UserMessage:
    if message.role != "user":
        raise Unprocessable(
            f"The last message must be the user's, not the {message.role}'s.",
            hint="Answers to tool calls are not taken yet; system messages never are.",
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
