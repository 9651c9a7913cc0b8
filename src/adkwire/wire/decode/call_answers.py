"""Answers to calls: those in an assistant message that a client posts, and those that the calls route takes.

Nothing in them is trusted yet: the gate checks that the call is pending and was sent like this. A part of a message
that no client would send is skipped.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from adkwire.errors import RequestError, TooLarge, Unprocessable
from adkwire.wire.chunks import Json
from adkwire.wire.decode.request_json import decode_json, part_type
from adkwire.wire.javascript import same_value, storable

_MAX_PARTS = 10_000
_MAX_TOOL_PARTS = 128
_MAX_REASON = 1_000
"""Characters of a person's reason that are kept."""
_OUTPUT_STATES = ("output-available", "output-error")
_NO_ERROR_TEXT = "The browser reported an error without a text."

AnswerScope = Literal["once", "chat", "always"]
"""How long an approval counts: for this call, for this chat, or for all chats of the user."""
_Id = Annotated[str, Meta(min_length=1, max_length=256)]


class CallAnswer(msgspec.Struct, frozen=True):
    """The answer to a call in an assistant message: a verdict, an output or an error, or a verdict with one of them."""

    call: str
    tool: str
    input: Json = None
    """The arguments of the call as the client has them."""
    approval: str | None = None
    """The id of the approval request."""
    approved: bool | None = None
    """The verdict; None when the part has an output without a verdict."""
    reason: str | None = None
    output: Json | UnsetType = UNSET
    """The result of a browser tool, which may be null; UNSET when there is none."""
    error: str | None = None
    """The error of a browser tool."""

    @property
    def is_executed(self) -> bool:
        """True when the client has executed the call."""
        return self.output is not UNSET or self.error is not None


class CallAnswers(NamedTuple):
    """The answers to the calls of one assistant message, at most one for each call."""

    message: str
    calls: tuple[CallAnswer, ...]
    denied: tuple[str, ...] = ()
    """The ids of calls that the client shows as denied; it has nothing to answer about them any more."""

    @property
    def executed(self) -> frozenset[str]:
        """The ids of the calls that the client has executed."""
        return frozenset(answer.call for answer in self.calls if answer.is_executed)


class CallBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to the calls route: the answer to one call."""

    approved: bool | None = None
    reason: Annotated[str, Meta(max_length=_MAX_REASON)] | None = None
    args: dict[str, Json] | None = None
    payload: Json = None
    scope: AnswerScope = "once"
    output: Json | UnsetType = UNSET
    """The result of a browser tool, which may be null; UNSET when there is none."""
    error: str | None = None
    approval_id: str | None = msgspec.field(name="approvalId", default=None)
    """The id of the approval request, for clients that want to be sure: some models use call ids again."""


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


_tool_part = msgspec.json.Decoder(_ToolPart)
_call_body = msgspec.json.Decoder(CallBody)
_anything = msgspec.json.Decoder()


def decode_call_answer(body: bytes) -> CallBody:
    """Read the body of a request to the calls route, and refuse an answer that contradicts itself."""
    answer = decode_json(_call_body, body)
    if problem := _contradiction(answer):
        raise Unprocessable(problem)
    return msgspec.structs.replace(
        answer, args=storable(answer.args), payload=storable(answer.payload), output=storable(answer.output)
    )


def _contradiction(answer: CallBody) -> str | None:
    is_executed = answer.output is not UNSET or answer.error is not None
    if answer.approved is None and not is_executed:
        return "The answer says nothing: send `approved`, or the `output` or `error` of a browser call."
    if answer.output is not UNSET and answer.error is not None:
        return "A call has an `output` or an `error`, not both."
    is_changed = answer.args is not None or answer.payload is not None or answer.scope != "once"
    if answer.approved is False and (is_executed or is_changed):
        return "A call that is not approved takes a `reason` and nothing else."
    if answer.args is not None and is_executed:
        return "`args` change a call before it runs: they cannot come with its `output` or `error`."
    return None


def answers_in(message_id: str, parts: list[Raw]) -> CallAnswers:
    """Return the answers in the parts of an assistant message."""
    tool_parts = [part for raw in _last_tool_parts(parts) if (part := _read_tool_part(raw)) is not None]
    found: dict[str, CallAnswer | None] = {}
    for answer in filter(None, map(_answer, tool_parts)):
        first = found.setdefault(answer.call, answer)
        if first is not None and not same_value(msgspec.to_builtins(first), msgspec.to_builtins(answer)):
            found[answer.call] = None  # Two different answers to one call: neither counts.
    denied = tuple(part.tool_call_id for part in tool_parts if part.state == "output-denied")
    return CallAnswers(message_id, tuple(answer for answer in found.values() if answer is not None), denied)


def _last_tool_parts(parts: list[Raw]) -> list[bytes]:
    """Return the tool parts of the last step. Earlier steps are answered, or the message would not have gone on."""
    if len(parts) > _MAX_PARTS:
        raise TooLarge(f"An answered message may have at most {_MAX_PARTS} parts; this one has {len(parts)}.")
    tools: list[bytes] = []
    for raw in map(bytes, parts):
        kind = _type_or_empty(raw)
        if kind == "step-start":
            tools = []
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            tools.append(raw)
    if len(tools) > _MAX_TOOL_PARTS:
        raise TooLarge(f"An answered message may have at most {_MAX_TOOL_PARTS} calls; this one has {len(tools)}.")
    return tools


def _type_or_empty(raw: bytes) -> str:
    try:
        return part_type(raw)
    except RequestError:
        return ""


def _read_tool_part(raw: bytes) -> _ToolPart | None:
    try:
        return decode_json(_tool_part, raw)
    except RequestError:
        return None


def _answer(part: _ToolPart) -> CallAnswer | None:
    """Return the answer in a tool part; None when it has none, or when no client would send the part like this."""
    tool = part.tool_name if part.type == "dynamic-tool" else part.type.removeprefix("tool-")
    approval = part.approval
    verdict = approval.approved if approval is not None else None
    is_answer = verdict is not None if part.state == "approval-responded" else part.state in _OUTPUT_STATES
    if not tool or not is_answer or part.provider_executed or part.preliminary:
        return None
    try:
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
    except RequestError:
        return None


def _value(raw: Raw) -> Json:
    return storable(decode_json(_anything, bytes(raw)))
