"""The decoder: a request in, a `TurnInput` out. The client is not trusted, and only its newest message is read.

All other messages that a client posts are skipped without being parsed: the history is read from the session.
There is one exception. The browser's outputs in the message before a new user message are read too, because the user
may have typed before the page could send them.

Of an assistant message only the answers to calls are read (`call_answers.py`).
"""

import re
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw

from adkwire.errors import RequestError, TooLarge, Unprocessable
from adkwire.wire.decode.call_answers import CallAnswers, answers_in
from adkwire.wire.decode.request_json import decode_json, part_type
from adkwire.wire.media import Media, read_data_url

_CHAT_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_MESSAGE_ID = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_MAX_MESSAGES = 100_000

Trigger = Literal["submit-message", "regenerate-message"]


class InputLimits(NamedTuple):
    """The most that one message of a user may carry."""

    max_parts: int
    max_part_bytes: int
    max_image_pixels: int


class UserMessage(NamedTuple):
    """A message of the user: the client's id of it (empty when it has none), and texts and files in their order."""

    id: str
    parts: tuple[str | Media, ...]


class TurnInput(NamedTuple):
    """A decoded request."""

    chat: str
    trigger: Trigger
    message: UserMessage | None
    """The user's message; None when the request only names one in `replaces`, or answers calls."""
    replaces: str | None
    """The message to go back to: an edited user message, or an assistant message to generate again."""
    client: str | None = None
    """The release that the client declares, such as `ai/7.0.169`."""
    answers: CallAnswers | None = None
    """Answers to calls. Beside a user's message these are only outputs of the browser."""


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


class _Text(msgspec.Struct):
    text: str


class _File(msgspec.Struct, rename="camel"):
    url: str
    media_type: str = ""
    filename: str | None = None


_request = msgspec.json.Decoder(_Request)
_message = msgspec.json.Decoder(_Message)
_text = msgspec.json.Decoder(_Text)
_file = msgspec.json.Decoder(_File)


def decode_request(body: bytes, limits: InputLimits) -> TurnInput:
    """Read the body that `DefaultChatTransport` posts, with all messages or with the last one only."""
    request = decode_json(_request, body)
    last = _newest(request)
    regenerate = request.trigger == "regenerate-message"
    if last is None and not (regenerate and request.message_id):
        raise Unprocessable("The request has no message.", hint='Send {"id", "messages": [...]} or {"id", "message"}.')
    newest = decode_json(_message, last) if last is not None else None
    if newest is not None and newest.role == "assistant" and not regenerate:
        # `messageId` names the answered message here: nothing is replaced.
        answers = _answers(newest)
        return TurnInput(check_chat_id(request.id), request.trigger, None, None, request.client, answers)
    message = _user_message(newest, limits) if newest is not None else None
    replaces = _checked_message_id(request.message_id) if request.message_id else None
    outputs = None if regenerate or replaces else _unsent_outputs(request)
    return TurnInput(check_chat_id(request.id), request.trigger, message, replaces, request.client, outputs)


def _newest(request: _Request) -> bytes | None:
    if _has_single_message(request):
        return bytes(request.message)
    return bytes(request.messages[-1]) if request.messages else None


def _has_single_message(request: _Request) -> bool:
    return bytes(request.message) not in (b"", b"null")


def check_chat_id(chat: str) -> str:
    """Return a chat id, or refuse it. Only plain characters are allowed, because it goes into paths and keys."""
    if not _CHAT_ID.fullmatch(chat) or not chat.strip("."):
        raise Unprocessable("A chat id is 1 to 128 letters, digits or any of _ . : - and not dots only.")
    return chat


def _user_message(message: _Message, limits: InputLimits) -> UserMessage:
    if message.role != "user":
        raise Unprocessable(
            f"The last message must be the user's, not the {message.role}'s.",
            hint="To regenerate an answer, send the user's message before it; system messages are not accepted.",
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
    kind = part_type(raw)
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


def _unsent_outputs(request: _Request) -> CallAnswers | None:
    """Return the browser's outputs in the message before the user's, which the page may not have sent yet."""
    messages = request.messages or []
    before = bytes(messages[-2]) if len(messages) > 1 and not _has_single_message(request) else b""
    if not (b"output-available" in before or b"output-error" in before):
        return None
    try:
        message = decode_json(_message, before)
        answers = _answers(message)
    except RequestError:
        return None
    outputs = tuple(answer for answer in answers.calls if answer.is_executed)
    return CallAnswers(answers.message, outputs) if outputs and message.role == "assistant" else None


def _answers(message: _Message) -> CallAnswers:
    return answers_in(_checked_message_id(message.id), message.parts or [])


def _checked_text(text: str, limits: InputLimits) -> str:
    if len(text.encode()) > limits.max_part_bytes:
        raise TooLarge(f"A text part may have at most {limits.max_part_bytes} bytes.")
    return text


def _checked_message_id(message_id: str) -> str:
    if not _MESSAGE_ID.fullmatch(message_id):
        raise Unprocessable("A message needs an id of 1 to 128 printable characters.")
    return message_id
