"""The chat list and the history of a chat as they are on the wire, made from ADK sessions."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from msgspec import UNSET, UnsetType

from adkwire.adk.events import (
    LOST,
    Response,
    answer_event,
    output_of,
    output_part,
    output_stamp,
    response_if_over,
    verdict_event,
)
from adkwire.adk.runner import CREATED, TITLE
from adkwire.adk.turns import LaterEvents, Turn, text_and_files, turns, user_parts
from adkwire.errors import Unprocessable
from adkwire.gate.grants import Grant
from adkwire.gate.records import OVER, AnswerScope, CallRecord, State
from adkwire.runs.ending import unanswered_calls_of
from adkwire.wire.chunks import Json
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import Phase
from adkwire.wire.failures import Explain, explain_briefly
from adkwire.wire.javascript import iso
from adkwire.wire.messages import TextPart, UIMessage

_LONGEST_TITLE = 60
_CURSOR = re.compile(r"[0-9]{10}\.[0-9]{6}~.+", re.ASCII)


class ChatSummary(msgspec.Struct, rename="camel"):
    """One line of the chat list."""

    id: str
    title: str
    updated_at: str
    active: bool
    pending: int = 0


class ChatList(msgspec.Struct):
    """A page of the chat list; `next` is the cursor of the page behind it."""

    chats: list[ChatSummary]
    next: str | UnsetType = UNSET


class ActiveRun(msgspec.Struct):
    """The run that is writing in a chat."""

    run: str


class Pending(msgspec.Struct, kw_only=True, rename="camel"):
    """A pending call: a person has to approve it, or with kind `client` the browser has to execute it."""

    tool_call_id: str
    tool: str
    input: Json
    kind: Literal["approval", "client"]
    approval_id: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    payload: Json | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    scopes: tuple[AnswerScope, ...] | UnsetType = UNSET
    schema: dict[str, Json] | UnsetType = UNSET


class StandingGrant(msgspec.Struct, kw_only=True, rename="camel"):
    """A standing grant of the user: for a chat, or with scope `always` for all of them."""

    id: str
    tool: str
    scope: AnswerScope
    same_arguments: bool
    chat: str | UnsetType = UNSET
    chat_title: str | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    at: str | UnsetType = UNSET


class GrantList(msgspec.Struct):
    """A page of the user's standing grants; `next` is the cursor of the page behind it."""

    grants: list[StandingGrant]
    next: str | UnsetType = UNSET


class ChatHistory(msgspec.Struct, rename="camel"):
    """A chat with its messages, without the one that is being written: its stream brings that."""

    id: str
    title: str
    created_at: str
    updated_at: str
    active: ActiveRun | None
    messages: list[UIMessage]
    pending: list[Pending]
    retryable: list[str] = []
    """The ids of calls of unknown fate that a person may let run again."""
    next: str | UnsetType = UNSET


def summary(session: Session, active: bool, pending: int) -> ChatSummary:
    """Return a chat as a line of the chat list; `pending` is its number of pending calls."""
    return ChatSummary(session.id, title_of(session), iso(session.last_update_time), active, pending)


def stored_user_message(session: Session | None, message_id: str) -> UserMessage:
    """Return a user message as the session has it; without content when it is not stored."""
    stored = turns(session.events) if session is not None else []
    event = next((turn.user_event for turn in stored if turn.user_id == message_id), None)
    return UserMessage(message_id, tuple(text_and_files(event)) if event is not None else ())


def pending(call: CallRecord) -> Pending:
    """Return a pending call as a page needs it to show its card again."""
    asked = call.state is State.ASKED
    return Pending(
        tool_call_id=call.call,
        tool=call.tool,
        input=call.final_args if call.browser else call.input,
        kind="approval" if asked else "client",
        approval_id=call.ask if asked and call.ask is not None else UNSET,
        hint=call.hint or UNSET,
        payload=UNSET if call.payload is None else call.payload,
        expires_at=UNSET if call.expires_at is None else iso(call.expires_at),
        scopes=call.scopes if asked else UNSET,
        schema=UNSET if call.parameters is None else call.parameters,
    )


def retryable(session: Session | None, calls: Sequence[CallRecord]) -> list[str]:
    """Return the ids of the calls that a person may let run again: of the last turn, and without a response in it."""
    unknown = {call.call: call.message for call in calls if call.can_be_retried}
    last = turns(session.events)[-1:] if session is not None and unknown else []
    unsettled = [(turn, call) for turn in last for call, _ in turn.encoder()[0].unsettled_calls()]
    return [call for turn, call in unsettled if unknown.get(call) == turn.message_id]


def standing_grant(grant: Grant, title: str) -> StandingGrant:
    """Return a grant as a page lists it, with the title of its chat."""
    here = grant.scope == "chat"
    return StandingGrant(
        id=str(grant.id),
        tool=grant.tool,
        scope=grant.scope,
        same_arguments=grant.same_arguments,
        chat=grant.chat if here else UNSET,
        chat_title=title if here and title else UNSET,
        input=grant.input,
        at=UNSET if grant.at is None else iso(grant.at),
    )


def messages_of(
    session: Session | None,
    writing: Sequence[UserMessage],
    calls: Sequence[CallRecord] = (),
    explain: Explain = explain_briefly,
) -> list[UIMessage]:
    """Return the messages of a chat; of the turns that are being written only the user messages, which are `writing`.

    The last message has the outcomes and answers of `calls` that are at the gate and not in the session yet.
    """
    open_turns = {message.id: message for message in writing}
    messages: list[UIMessage] = []
    stored = turns(session.events) if session is not None else []
    for turn in stored:
        if turn.user_id in open_turns:
            break
        messages += turn.messages(_events_at_gate(calls) if turn is stored[-1] else None, explain)
    by_id = {turn.user_id: turn for turn in stored}
    return messages + [
        shown for message in open_turns.values() for shown in _user_message(message, by_id.get(message.id))
    ]


def _user_message(message: UserMessage, turn: Turn | None) -> list[UIMessage]:
    """Return the user message of a turn that is being written. Only the session has the transcript of a spoken one."""
    if turn is not None and (turn.spoken or not message.parts):
        return turn.user_message()
    return [UIMessage(id=message.id, role="user", parts=user_parts(message.parts) or [TextPart(text="")])]


def _events_at_gate(calls: Sequence[CallRecord]) -> LaterEvents:
    records = {call.call: call for call in calls}
    return lambda turn, encoder: (_sealed_at_gate(turn, encoder, records), _answered_at_gate(turn, encoder, records))


def page(messages: list[UIMessage], limit: int | None, before: str | None) -> tuple[list[UIMessage], str | UnsetType]:
    """Return the newest `limit` messages before the message `before`, and the cursor of the next older page."""
    if before is not None:
        at = next((i for i, message in enumerate(messages) if message.id == before), None)
        if at is None:
            raise Unprocessable("`before` names no message of this chat.")
        messages = messages[:at]
    if limit is None or len(messages) <= limit:
        return messages, UNSET
    return messages[-limit:], messages[-limit].id


def title_for(message: UserMessage) -> str:
    """Return a title made of the first words of a message."""
    text = next((part for part in message.parts if isinstance(part, str)), "Image" if message.parts else "")
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1].rstrip() + "…"


def title_of(session: Session | None) -> str:
    """Return the title of a session."""
    return str(session.state.get(TITLE) or "") if session is not None else ""


def created_at(session: Session | None) -> str:
    """Return when a chat began; empty when that is not known."""
    created = session.state.get(CREATED) if session is not None else None
    if isinstance(created, int | float):
        return iso(created)
    return iso(session.events[0].timestamp) if session is not None and session.events else ""


def cursor(session: Session) -> str:
    """Return the sort key of a chat in the chat list: its last change, then its id."""
    return f"{session.last_update_time:017.6f}~{session.id}"


def check_cursor(text: str) -> str:
    """Return a cursor that a client has sent; raise `Unprocessable` if it is none."""
    if _CURSOR.fullmatch(text) is None:
        raise Unprocessable("`before` is no place in the list of chats: take the `next` of the page before.")
    return text


def calls_without_verdict(encoder: Encoder) -> set[str]:
    """Return the ids of calls that were asked about and whose verdict is not in the session yet."""
    return {call.id for call in encoder.pending_calls() if call.phase is Phase.ASKED}


def _sealed_at_gate(turn: Turn, encoder: Encoder, records: Mapping[str, CallRecord]) -> list[Event]:
    """Return synthetic results, not in the session yet, for calls of a turn that nobody can answer any more."""
    waiting = {call.id for call in encoder.pending_calls()}
    responses: dict[str, Response] = {}
    for call, _ in encoder.unsettled_calls():
        record = records.get(call)
        response = response_if_over(record) if record is not None else ({"error": LOST} if call in waiting else None)
        responses |= {call: response} if response is not None else {}
    return unanswered_calls_of(turn, encoder).sealed(responses, otherwise=None, running=False)


def _answered_at_gate(turn: Turn, encoder: Encoder, records: Mapping[str, CallRecord]) -> list[Event]:
    """Return answers that are not in the session yet, because other calls of the step are still pending."""
    events: list[Event] = []
    asked = calls_without_verdict(encoder)
    for waiting in encoder.pending_calls():
        call = records.get(waiting.id)
        if call is None or call.answer is None or call.state in OVER:
            continue
        if call.call in asked:
            events.append(verdict_event(call, turn.stamp))
        if call.browser and output_of(call) is not None:
            events.append(answer_event(call, output_part(call), {**turn.stamp, **output_stamp([call])}))
    return events
