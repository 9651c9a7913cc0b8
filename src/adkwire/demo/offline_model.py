"""The offline model: matches a message to intents and streams the answer as a real model does, without a network.

The answer depends only on the request: the user's last message, the tool results since then, and the agent's tools.
"""

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, assert_never

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.demo import known_names, replies, tones
from adkwire.demo.intents import CiteSources, Count, Crash, Intent, Ponder, Use, understand
from adkwire.testing.live_responses import INPUT_RATE, Manner
from adkwire.testing.model_connection import ModelConnection
from adkwire.testing.steps import Call, Cite, Fail, Say, Source, Step, Think, play
from adkwire.testing.turn_player import ModelConversation

SOURCES = (
    Source("https://google.github.io/adk-docs/", "Agent Development Kit"),
    Source("https://ai-sdk.dev/docs/ai-sdk-ui/overview", "AI SDK UI"),
)


class OfflineModelError(RuntimeError):
    """Raised when the user asks the offline model to fail."""


class OfflineModel(BaseLlm):
    """A model that understands a few sentences in English and Japanese; `replies.capabilities` lists them."""

    model: str = "offline"
    offline: ClassVar[bool] = True
    delay: float = 0.03
    """Seconds before each streamed piece, so that streaming, stop and resume can be watched."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer the request."""
        steps = answer(read_turn(llm_request.contents), llm_request.tools_dict)
        tokens = weigh(llm_request.contents)
        playing = play(steps, stream=stream, model=self.model, delay=self.delay, prompt_tokens=tokens)
        async with aclosing(playing) as responses:
            async for response in responses:
                yield response

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[ModelConnection]:
        """Open a live connection."""
        manner = Manner(delay=self.delay, speaks=tones.tone)
        connection = OfflineConnection(llm_request, self.model, manner, ModelConversation())
        try:
            yield connection
        finally:
            await connection.close()


class OfflineConnection(ModelConnection):
    """A live connection to the offline model. It transcribes speech as its length, and speaks in tones."""

    def answer(self, request: LlmRequest) -> list[Step]:
        """Return the steps of the answer to the user's last message."""
        return answer(read_turn(request.contents), request.tools_dict)

    def hear(self, sound: bytes) -> str:
        """Return the length of the audio as a transcript, in the language of the conversation."""
        return replies.sound(len(sound) / (INPUT_RATE * 2), read_turn(self.conversation.contents).language)

    def weigh(self, contents: Sequence[types.Content]) -> int:
        """Return the approximate number of tokens in a prompt."""
        return weigh(contents)


@dataclass(frozen=True)
class UserTurn:
    """The user's last message, and the tool results since the model's last step."""

    text: str
    files: tuple[types.Blob, ...]
    results: tuple[types.FunctionResponse, ...]
    stage: int
    """The number of steps with tool calls that the model has made in this turn."""

    @property
    def language(self) -> replies.Language:
        """The language to answer in."""
        return "ja" if known_names.is_japanese(self.text) else "en"


def read_turn(contents: Sequence[types.Content]) -> UserTurn:
    """Return the current turn, which is the end of the contents of a request."""
    start = max((i for i, content in enumerate(contents) if _is_user_message(content)), default=None)
    if start is None:
        return UserTurn("", (), (), 0)
    parts = contents[start].parts or []
    since = contents[start + 1 :]
    calling = [i for i, content in enumerate(since) if any(part.function_call for part in content.parts or [])]
    # On a live connection a user message may come while a tool runs: the tool's response then follows the message.
    later = since[calling[-1] + 1 :] if calling else since
    return UserTurn(
        text="\n".join(part.text for part in parts if part.text),
        files=tuple(part.inline_data for part in parts if part.inline_data),
        results=tuple(p.function_response for content in later for p in content.parts or [] if p.function_response),
        stage=len(calling),
    )


def weigh(contents: Sequence[types.Content]) -> int:
    """Return the approximate number of tokens in a prompt."""
    return sum(len(part.text or "") for content in contents for part in content.parts or []) // 4


def answer(turn: UserTurn, tools: Collection[str]) -> list[Step]:
    """Return the steps of the model's next answer in this turn."""
    results = [replies.result(each.name or "", each.response or {}, turn.language) for each in turn.results]
    steps: list[Step] = _sentences(results, turn.language)
    stages = _stages(turn, tools)
    if turn.stage < len(stages):
        steps += stages[turn.stage]
    return list(_in_paragraphs(steps))


def _stages(turn: UserTurn, tools: Collection[str]) -> list[list[Step]]:
    """Return the steps of the whole turn in stages. A stage ends with calls: the model waits for their results."""
    language = turn.language
    files = [replies.attachment(f.mime_type or "application/octet-stream", f.data or b"", language) for f in turn.files]
    current = _sentences(files, language)
    if seconds := replies.seconds_heard(turn.text):
        return [[Say(replies.heard(seconds, language))]]
    asked = understand(turn.text)
    if not asked and not files:
        return [[Say(replies.capabilities(tools, language))]]
    stages: list[list[Step]] = []
    for intents in asked:
        steps = [step for intent in intents for step in _steps(intent, tools, language)]
        # A model's answer has its calls last, even if the user named them first.
        current += sorted(steps, key=lambda step: isinstance(step, Call))
        if any(isinstance(step, Call) for step in steps):
            stages.append(current)
            current = []
    return [*stages, current] if current else stages


def _steps(intent: Intent, tools: Collection[str], language: replies.Language) -> Iterator[Step]:
    match intent:
        case Use(tool, args) if tool in tools:
            yield Call(tool, args)
        case Use(tool):
            yield Say(replies.missing_tool(tool, language))
        case Count(to):
            yield Say(" ".join(str(number) for number in range(1, to + 1)))
        case Ponder(topic):
            reasoning, conclusion = replies.thought(topic, language)
            yield Think(reasoning)
            yield Say(conclusion)
        case CiteSources():
            yield Say(replies.quotation(language))
            yield Cite(SOURCES)
        case Crash():
            yield Fail(OfflineModelError("The offline model failed, as it was asked to."))
        case _:
            assert_never(intent)


def _sentences(sentences: Sequence[str], language: replies.Language) -> list[Step]:
    return [Say(("" if language == "ja" else " ").join(sentences))] if sentences else []


def _in_paragraphs(steps: Sequence[Step]) -> Iterator[Step]:
    has_text = False
    for step in steps:
        yield Say("\n\n" + step.text) if has_text and isinstance(step, Say) else step
        has_text = has_text or isinstance(step, Say)


def _is_user_message(content: types.Content) -> bool:
    return content.role == "user" and any(part.text or part.inline_data for part in content.parts or [])
