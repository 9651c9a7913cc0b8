"""JSON of a client: decoded strictly, or refused with an error that says what is wrong."""

import re
from typing import TypeVar

import msgspec

from adkwire.errors import BadRequest, Unprocessable

T = TypeVar("T")

_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


class _Typed(msgspec.Struct):
    type: str


_typed = msgspec.json.Decoder(_Typed)


def decode_json(decoder: "msgspec.json.Decoder[T]", raw: bytes) -> T:
    """Decode JSON of the expected form; `BadRequest` when it is not JSON, `Unprocessable` when the form is wrong."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"The request does not have the expected form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mended = _without_lone_surrogates(raw)
        if mended is None:
            raise BadRequest(f"The body is not JSON: {error}") from None
    return decode_json(decoder, mended)


def part_type(raw: bytes) -> str:
    """Return the type of a message part."""
    return decode_json(_typed, raw).type


def _without_lone_surrogates(raw: bytes) -> bytes | None:
    """Replace lone surrogates, which JavaScript may send as escapes and strict JSON forbids; None if there are none."""
    mended = _LONE_SURROGATE.sub(rb"\1\\ufffd", raw)
    return mended if mended != raw else None
