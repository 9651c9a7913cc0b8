"""An agent for what the demo cannot show: every user text below names a script of its model."""

import asyncio
import base64
import json
import math
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent  # pyright: ignore[reportDeprecated]
from google.adk.agents.sequential_agent import SequentialAgent  # pyright: ignore[reportDeprecated]
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel

from adkwire.testing import Call, Cite, ErrorCode, Fail, Raw, Say, ScriptedModel, Show, Source, Step, Think, Wait

SAMPLES = json.loads(Path(__file__).with_name("samples.json").read_text())
PNG = base64.b64decode(SAMPLES["png"])
MEGABYTE = SAMPLES["long"] * 65_536


class Forecast(BaseModel):
    """An object that a tool returns."""

    place: str
    degrees: float
    note: str | None = None


def boom() -> str:
    """Raises."""
    raise RuntimeError("the tool broke")


def nothing() -> None:
    """Returns nothing."""


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def look(place: str) -> dict[str, Any]:
    """Looks."""
    return {"place": place, "seen": True}


def odd_numbers() -> dict[str, Any]:
    """Returns numbers that JSON does not have."""
    return {"nan": math.nan, "up": math.inf, "down": -math.inf, "nested": [math.nan, 1.5], "big": 2**53}


def raw_bytes() -> dict[str, Any]:
    """Returns bytes."""
    return {"raw": b"\x00\xff\xfe>?"}


def an_object() -> Forecast:
    """Returns an object."""
    return Forecast(place="Oslo", degrees=-3.5)


def odd_values() -> dict[str, Any]:
    """Returns values that only Python has."""
    noon = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
    return {
        "set": {1},
        "tuple": (1, 2),
        "object": Forecast(place="Rome", degrees=21.0),
        "none": None,
        "local": noon.replace(tzinfo=None),
        "utc": noon,
        "day": noon.date(),
        "span": timedelta(minutes=90),
        "price": Decimal("1.50"),
        "uuid": UUID(int=1),
        "path": Path("a") / "b",
    }


def a_picture() -> types.Part:
    """Returns an image."""
    return types.Part(inline_data=types.Blob(mime_type="image/png", data=PNG))


def remember(tool_context: ToolContext) -> str:
    """Writes state."""
    tool_context.state["mood"] = "good"
    tool_context.state["temp:secret"] = "not shown"
    return "remembered"


async def store(tool_context: ToolContext) -> str:
    """Writes an artifact."""
    await tool_context.save_artifact("note.txt", types.Part(text="kept"))
    return "stored"


async def progress() -> AsyncGenerator[Event | dict[str, int], None]:
    """Tells how far it is, then what came of it: ADK lets a generator speak to the user before its one output."""
    yield Event(author="progress", content=types.ModelContent("Half way. "))
    yield {"percent": 100}


async def two_outputs() -> AsyncGenerator[dict[str, int], None]:
    """Gives more than the one output that ADK allows."""
    yield {"percent": 50}
    yield {"percent": 100}


def last_word(tool_context: ToolContext) -> str:
    """Is the end of the turn: the model is not asked again."""
    tool_context.actions.skip_summarization = True
    return "that is all"


def start_job() -> dict[str, str]:
    """Begins something that ends later."""
    return {"status": "pending"}


async def hang() -> str:
    """Never returns."""
    await asyncio.Event().wait()
    return "never"


gates: dict[str, asyncio.Event] = {}


def gate(name: str) -> asyncio.Event:
    """The event that a held answer waits for and `release NAME` sets."""
    return gates.setdefault(name, asyncio.Event())


def _raw(*parts: types.Part, **fields: Any) -> Raw:
    return Raw(LlmResponse(content=types.Content(role="model", parts=list(parts)), partial=False, **fields))


CITATION = types.CitationMetadata(citations=[types.Citation(uri="https://example.org/c", title="Cited")])
CODE = (
    types.Part(executable_code=types.ExecutableCode(code="print(6 * 7)", language=types.Language.PYTHON)),
    types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="42\n")),
    types.Part(text="It is 42."),
)
LINKED = types.Part(file_data=types.FileData(file_uri="https://example.org/a.pdf", mime_type="application/pdf"))
SOURCES = (Source("https://example.org/a", "A"), Source("https://example.org/b", "B"))

SCRIPTS: Mapping[str, Sequence[Sequence[Step]]] = {
    "hello": [[Say("Hello to you.")]],
    "tool raises": [[Call("boom")], [Say("The tool failed.")]],
    "tool returns none": [[Call("nothing")], [Say("Nothing came.")]],
    "unknown tool": [[Call("no_such_tool", {"a": 1})], [Say("There is no such tool.")]],
    "bad arguments": [[Call("add", {"a": 1})], [Say("An argument was missing.")]],
    "fail in mid-text": [[Say("One two three "), Fail(RuntimeError("the model broke"))]],
    "fail at once": [[Fail(RuntimeError("the model broke"))]],
    "fail after a tool": [[Call("add", {"a": 1, "b": 2})], [Fail(RuntimeError("the model broke"))]],
    "error code": [[ErrorCode("SAFETY", "The answer was blocked.")]],
    "empty": [[]],
    "empty after a tool": [[Call("add", {"a": 1, "b": 2})], []],
    "too long": [[_raw(types.Part(text="It goes on"), finish_reason=types.FinishReason.MAX_TOKENS)]],
    "two tools": [[Call("add", {"a": 1, "b": 2}), Call("look", {"place": "Rome"})], [Say("Both done.")]],
    "same tool twice": [[Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4})], [Say("3 and 7.")]],
    "one of two raises": [[Call("boom"), Call("add", {"a": 1, "b": 2})], [Say("One failed.")]],
    "several steps": [
        [Say("First. "), Call("add", {"a": 1, "b": 2})],
        [Say("Second. "), Call("look", {"place": "Rome"})],
        [Say("Third.")],
    ],
    "thoughts between": [
        [Think("I should add. "), Call("add", {"a": 1, "b": 2})],
        [Think("It is three. "), Say("Three.")],
    ],
    "thoughts and text mixed": [[Think("Hm. "), Say("One. "), Think("And then. "), Say("Two.")]],
    "only a thought": [[Think("I had better say nothing.")]],
    "generator": [[Call("progress")], [Say("All the way.")]],
    "two outputs": [[Call("two_outputs")], [Say("That was one too many.")]],
    "image": [[Say("Here: "), Show("image/png", PNG)]],
    "image from a tool": [[Call("a_picture")], [Say("A picture.")]],
    "sources": [[Say("As they say."), Cite(SOURCES)]],
    "citations": [[_raw(types.Part(text="As it is written."), citation_metadata=CITATION)]],
    "code": [[_raw(*CODE)]],
    "megabyte": [[Say(MEGABYTE, chunk=16_384)]],
    "unicode": [[Say(SAMPLES["unicode"], chunk=1)]],
    "transfer": [[Call("transfer_to_agent", {"agent_name": "helper"})]],
    "state": [[Call("remember")], [Say("Noted.")]],
    "artifact": [[Call("store")], [Say("Stored.")]],
    "odd numbers": [[Call("odd_numbers")], [Say("Numbers.")]],
    "bytes": [[Call("raw_bytes")], [Say("Bytes.")]],
    "an object": [[Call("an_object")], [Say("An object.")]],
    "odd values": [[Call("odd_values")], [Say("Values.")]],
    "last word": [[Call("last_word")]],
    "job": [[Call("start_job")], [Say("It has begun.")]],
    "child": [[Call("child", {"request": "help"})], [Say("The child said so.")]],
    "pipeline": [[Call("transfer_to_agent", {"agent_name": "pipeline"})]],
    "call before text": [[Call("add", {"a": 1, "b": 2}), Say("Adding. ")], [Say("Three.")]],
    "file by address": [[_raw(types.Part(text="There: "), LINKED)]],
    "sound": [[Say("Listen: "), Show("audio/wav", b"RIFF0000WAVE")]],
    "pcm": [[Say("Listen: "), Show("audio/pcm;rate=24000", b"\x00\x01" * 240)]],
    "hang at once": [[Wait(asyncio.Event())]],
    "hang in text": [[Say("Waiting "), Wait(asyncio.Event())]],
    "hang in a thought": [[Think("Wondering "), Wait(asyncio.Event())]],
    "hang in a tool": [[Say("Working. "), Call("hang")], [Say("not reached")]],
}


def script(request: LlmRequest) -> Iterable[Step]:
    """Return the next step for the last user message, by the number of answers that the model has given to it."""
    index, text = _last_user_text(request.contents)
    verb, _, name = text.partition(" for ")
    if verb == "hold":
        return [Say("One "), Wait(gate(name)), Say("two.")]
    if verb == "team":
        return [Call("transfer_to_agent", {"agent_name": "team"})]
    if verb == "release":
        gate(name).set()
        return [Say("Released.")]
    turns = SCRIPTS[text]
    return turns[sum(content.role == "model" for content in request.contents[index:])]


def _last_user_text(contents: Sequence[types.Content]) -> tuple[int, str]:
    for index in range(len(contents) - 1, -1, -1):
        for part in contents[index].parts or ():
            if contents[index].role == "user" and part.text:
                return index, part.text
    raise LookupError("the request has no user text")


def _says(name: str, *steps: Step) -> LlmAgent:
    return LlmAgent(name=name, description=name, model=ScriptedModel(script=lambda _: steps))


def _slowly(request: LlmRequest) -> Iterable[Step]:
    """Say something, and end only when the other agent of the team has ended."""
    texts = (part.text or "" for content in request.contents for part in content.parts or ())
    return [
        Say("Slow begins "),
        Wait(gate(next(text for text in texts if text.startswith("team for ")))),
        Say("and ends. "),
    ]


def _quick_has_ended(callback_context: CallbackContext) -> None:
    parts = callback_context.user_content.parts if callback_context.user_content else None
    gate((parts[0].text if parts else None) or "").set()


slow = LlmAgent(name="slow", model=ScriptedModel(script=_slowly))
quick = LlmAgent(
    name="quick",
    model=ScriptedModel(script=lambda _: [Say("Quick is done. ")]),
    after_agent_callback=_quick_has_ended,
)
first, second = _says("first", Say("One. ")), _says("second", Say("Two."))
root_agent = LlmAgent(
    name="scripted",
    model=ScriptedModel(script=script),
    sub_agents=[
        _says("helper", Say("The helper speaks.")),
        ParallelAgent(name="team", sub_agents=[slow, quick]),  # pyright: ignore[reportDeprecated]
        SequentialAgent(name="pipeline", sub_agents=[first, second]),  # pyright: ignore[reportDeprecated]
    ],
    tools=[
        boom,
        nothing,
        add,
        look,
        odd_numbers,
        raw_bytes,
        an_object,
        odd_values,
        a_picture,
        remember,
        store,
        progress,
        two_outputs,
        last_word,
        hang,
        LongRunningFunctionTool(start_job),
        AgentTool(_says("child", Think("Hm. "), Say("I help."))),
    ],
)
