"""Plays the steps of a live model's turns into a queue of responses, and keeps the model's conversation."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.testing.live_responses import Manner, TurnResponses
from adkwire.testing.steps import (
    Call,
    Cite,
    Drop,
    ErrorCode,
    Fail,
    GoAway,
    Raw,
    Resumption,
    Say,
    Show,
    Step,
    Think,
    Wait,
    drop,
    parts_of,
)


@dataclass
class ModelConversation:
    """The contents that user and model have exchanged, and the calls that have no response yet."""

    contents: list[types.Content] = field(default_factory=list[types.Content])
    waiting: list[types.FunctionCall] = field(default_factory=list[types.FunctionCall])

    def copy(self) -> list[types.Content]:
        """Return a copy of the contents."""
        return [content.model_copy(deep=True) for content in self.contents]

    def respond(self, parts: list[types.Part]) -> None:
        """Add tool responses. Responses that come one by one become one content, as they are in a request."""
        for part in parts:
            if part.function_response and not part.function_response.will_continue:
                self._remove_waiting(part.function_response)
        last = self.contents[-1] if self.contents else None
        if last and last.parts and is_response(last):
            last.parts = [*last.parts, *parts]
        else:
            self.contents.append(types.Content(role="user", parts=parts))

    def _remove_waiting(self, response: types.FunctionResponse) -> None:
        # A call without an id gets one from ADK, which is not known here: such a call is found by its name.
        same_id = [call for call in self.waiting if call.id is not None and call.id == response.id]
        same_name = [call for call in self.waiting if call.id is None and call.name == response.name]
        for answered in (same_id or same_name)[:1]:
            self.waiting = [call for call in self.waiting if call is not answered]


def is_response(content: types.Content) -> bool:
    """Return whether a content has only tool responses."""
    return bool(content.parts) and all(part.function_response for part in content.parts or [])


class TurnPlayer:
    """Plays turns: their responses go into the queue `out`, the model's contents into the conversation."""

    def __init__(self, model: str, manner: Manner, conversation: ModelConversation, *, audio_output: bool) -> None:
        self.out: asyncio.Queue[LlmResponse | Exception | None] = asyncio.Queue()
        """Responses to receive, an exception to raise, or None when the connection is closed."""
        self.lost: Drop | None = None
        """Code and reason with which the connection was lost."""
        self.late_transcripts: list[LlmResponse] = []
        """Transcripts of the user that are sent during or after the next turn."""
        self.handle: Callable[[], str | None] = lambda: None
        """Returns a new handle to resume the conversation by."""
        self._model = model
        self._manner = manner
        self._audio_output = audio_output
        self._conversation = conversation
        self._turn: TurnResponses | None = None
        """The turn that is being played."""
        self._content = types.Content(role="model")

    @property
    def in_turn(self) -> bool:
        """True while a turn is being played."""
        return self._turn is not None

    def put(self, *responses: LlmResponse) -> None:
        """Add responses to the queue."""
        for response in responses:
            self.out.put_nowait(response)

    def fail(self, error: Exception) -> None:
        """End the turn with an exception, which `receive` raises."""
        self._turn = None
        self.out.put_nowait(error)

    def interrupt(self) -> None:
        """End the turn, whose task must be cancelled already, as interrupted by the user."""
        if turn := self._turn:
            self._send_late_transcripts()
            self.put(*turn.interrupt())
            self._turn = None

    async def turn(self, steps: Iterable[Step], prompt_tokens: int) -> None:
        """Play a turn to its end. A turn that has only steps like `Raw` is not ended by other responses."""
        turn = self._turn = TurnResponses(
            self._model, self._manner, audio_output=self._audio_output, prompt_tokens=prompt_tokens
        )
        self._content = types.Content(role="model")
        raw = False
        for step in steps:
            if not isinstance(step, Call):
                self._send(turn, turn.send_calls())
            raw = raw or isinstance(step, Raw | GoAway | Resumption)
            await self._step(turn, step)
            if isinstance(step, ErrorCode):
                break
        else:
            self._end(turn, raw=raw)
        self._turn = None

    async def _step(self, turn: TurnResponses, step: Step) -> None:
        match step:
            case Fail(error):
                raise error
            case Drop(code, reason):
                self.lost = step
                drop(code, reason)
            case ErrorCode() | Raw() | GoAway() | Resumption():
                self._send_unchanged(step)
            case Wait(event):
                await event.wait()
            case Cite(sources):
                turn.answer.sources += sources
            case Say() | Think() | Call() | Show():
                for part in parts_of(step):
                    await asyncio.sleep(self._manner.delay)
                    self._send(turn, turn.add(part))
            case _:
                assert_never(step)

    def _send_unchanged(self, step: ErrorCode | Raw | GoAway | Resumption) -> None:
        match step:
            case ErrorCode(code, message):
                failed = LlmResponse(error_code=code, error_message=message, partial=False, model_version=self._model)
                self.put(failed, LlmResponse(turn_complete=True, model_version=self._model))
            case Raw(response):
                self._add_raw_content(response)
                self.put(response.model_copy(deep=True))
            case GoAway(seconds):
                self.put(LlmResponse(go_away=types.LiveServerGoAway(time_left=f"{seconds}s")))
            case Resumption():
                update = self._resumption_update(step)
                self.put(LlmResponse(live_session_resumption_update=update, model_version=self._model))

    def _resumption_update(self, step: Resumption) -> types.LiveServerSessionResumptionUpdate:
        handle = self.handle() if step.resumable else None
        return types.LiveServerSessionResumptionUpdate(new_handle=handle, resumable=handle is not None)

    def _end(self, turn: TurnResponses, *, raw: bool) -> None:
        if not (raw and turn.empty):
            if self._manner.transcript != "behind":
                self._send_late_transcripts()
            self._send(turn, turn.end())
            self._send_late_transcripts()

    def _send(self, turn: TurnResponses, responses: list[LlmResponse]) -> None:
        self._conversation.waiting += [call for response in responses for call in response.get_function_calls()]
        if turn.answer.parts:
            self._set_content(turn.answer.parts)
        self.put(*responses)
        if responses and self._manner.transcript == "late":
            self._send_late_transcripts()

    def _set_content(self, parts: list[types.Part]) -> None:
        if not self._content.parts:
            self._conversation.contents.append(self._content)
        self._content.parts = list(parts)

    def _add_raw_content(self, response: LlmResponse) -> None:
        if response.content and response.content.role == "model" and not response.partial:
            self._conversation.contents.append(response.content.model_copy(deep=True))
            self._conversation.waiting += response.get_function_calls()

    def _send_late_transcripts(self) -> None:
        transcripts, self.late_transcripts = self.late_transcripts, []
        self.put(*transcripts)
