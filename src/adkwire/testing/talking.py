"""The talking half of a live connection: plays the steps of a turn into the queue that is read."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.testing.speech import Manner, Speech
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
class Conversation:
    """What was said between user and model, and the calls that have no response yet."""

    contents: list[types.Content] = field(default_factory=list[types.Content])
    waiting: list[types.FunctionCall] = field(default_factory=list[types.FunctionCall])

    def copy(self) -> list[types.Content]:
        """The contents as they are now."""
        return [content.model_copy(deep=True) for content in self.contents]

    def respond(self, parts: list[types.Part]) -> None:
        """Add responses of tools; those that come one by one become one content, as they are in a request."""
        for part in parts:
            if part.function_response and not part.function_response.will_continue:
                self._settle(part.function_response)
        last = self.contents[-1] if self.contents else None
        if last and last.parts and is_response(last):
            last.parts = [*last.parts, *parts]
        else:
            self.contents.append(types.Content(role="user", parts=parts))

    def _settle(self, response: types.FunctionResponse) -> None:
        # The ids that ADK gives to calls without one are not known here.
        known = [call for call in self.waiting if call.id is not None and call.id == response.id]
        named = [call for call in self.waiting if call.id is None and call.name == response.name]
        for settled in (known or named)[:1]:
            self.waiting = [call for call in self.waiting if call is not settled]


def is_response(content: types.Content) -> bool:
    """Whether a content is nothing but responses of tools."""
    return bool(content.parts) and all(part.function_response for part in content.parts or [])


class Talker:
    """Plays turns. What it says goes into `out` and, as the model's content, into the conversation."""

    def __init__(self, model: str, manner: Manner, conversation: Conversation, *, aloud: bool) -> None:
        self.out: asyncio.Queue[LlmResponse | Exception | None] = asyncio.Queue()
        self.lost: Drop | None = None
        """How the connection broke, when it did."""
        self.late: list[LlmResponse] = []
        """Transcripts that are told during or after the next turn."""
        self.handle: Callable[[], str | None] = lambda: None
        """Gives a handle for the conversation as it goes on."""
        self._model = model
        self._manner = manner
        self._aloud = aloud
        self._conversation = conversation
        self._speech: Speech | None = None
        self._content = types.Content(role="model")

    @property
    def speaking(self) -> bool:
        """Whether a turn has begun and is not over."""
        return self._speech is not None

    def put(self, *responses: LlmResponse) -> None:
        """Let these be received."""
        for response in responses:
            self.out.put_nowait(response)

    def fail(self, error: Exception) -> None:
        """A connection fails where it is read."""
        self._speech = None
        self.out.put_nowait(error)

    def cut(self) -> None:
        """End the turn whose task was cancelled: the user broke in."""
        if speech := self._speech:
            self._tell_late()
            self.put(*speech.cut())
            self._speech = None

    async def turn(self, steps: Iterable[Step], prompt_tokens: int) -> None:
        """Play a turn to its end. A turn of steps that speak for themselves, `Raw` and the like, gets none."""
        speech = self._speech = Speech(self._model, self._manner, aloud=self._aloud, prompt_tokens=prompt_tokens)
        self._content = types.Content(role="model")
        raw = False
        for step in steps:
            if not isinstance(step, Call):
                self._say(speech, speech.release())
            raw = raw or isinstance(step, Raw | GoAway | Resumption)
            await self._step(speech, step)
            if isinstance(step, ErrorCode):
                break
        else:
            self._end(speech, raw=raw)
        self._speech = None

    async def _step(self, speech: Speech, step: Step) -> None:
        match step:
            case Fail(error):
                raise error
            case Drop(code, reason):
                self.lost = step
                drop(code, reason)
            case ErrorCode() | Raw() | GoAway() | Resumption():
                self._say_itself(step)
            case Wait(event):
                await event.wait()
            case Cite(sources):
                speech.answer.sources += sources
            case Say() | Think() | Call() | Show():
                for part in parts_of(step):
                    await asyncio.sleep(self._manner.delay)
                    self._say(speech, speech.add(part))
            case _:
                assert_never(step)

    def _say_itself(self, step: ErrorCode | Raw | GoAway | Resumption) -> None:
        match step:
            case ErrorCode(code, message):
                failed = LlmResponse(error_code=code, error_message=message, partial=False, model_version=self._model)
                self.put(failed, LlmResponse(turn_complete=True, model_version=self._model))
            case Raw(response):
                self._remember_raw(response)
                self.put(response.model_copy(deep=True))
            case GoAway(seconds):
                self.put(LlmResponse(go_away=types.LiveServerGoAway(time_left=f"{seconds}s")))
            case Resumption():
                update = self._update(step)
                self.put(LlmResponse(live_session_resumption_update=update, model_version=self._model))

    def _update(self, step: Resumption) -> types.LiveServerSessionResumptionUpdate:
        handle = self.handle() if step.resumable else None
        return types.LiveServerSessionResumptionUpdate(new_handle=handle, resumable=handle is not None)

    def _end(self, speech: Speech, *, raw: bool) -> None:
        if not (raw and speech.empty):
            if self._manner.transcript != "behind":
                self._tell_late()
            self._say(speech, speech.end())
            self._tell_late()

    def _say(self, speech: Speech, responses: list[LlmResponse]) -> None:
        self._conversation.waiting += [call for response in responses for call in response.get_function_calls()]
        if speech.answer.parts:
            self._remember(speech.answer.parts)
        self.put(*responses)
        if responses and self._manner.transcript == "late":
            self._tell_late()

    def _remember(self, parts: list[types.Part]) -> None:
        if not self._content.parts:
            self._conversation.contents.append(self._content)
        self._content.parts = list(parts)

    def _remember_raw(self, response: LlmResponse) -> None:
        if response.content and response.content.role == "model" and not response.partial:
            self._conversation.contents.append(response.content.model_copy(deep=True))
            self._conversation.waiting += response.get_function_calls()

    def _tell_late(self) -> None:
        told, self.late = self.late, []
        self.put(*told)
