"""An agent whose words are numbered: what is lost, doubled or out of order shows in the text itself.

`count T W` thinks T words and says W. `tell T A B C` thinks T words, says A, looks something up, says B more, pays what
a person must approve, and says the last C. Every payment that is really made leaves a line in LEDGER.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adkwire.testing import Call, Say, ScriptedModel, Step, Think
from tests.faults.cuts_words import numbered

LEDGER = Path(os.environ["LEDGER"])
PACE = 0.003
"""Seconds from word to word: a model thinks, and a fault wants to come in between."""
SEARCH = 0.02


class SlowModel(ScriptedModel):
    """A scripted model that takes its time."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(super().generate_content_async(llm_request, stream)) as responses:
            async for response in responses:
                await asyncio.sleep(PACE)
                yield response


def script(request: LlmRequest) -> Iterator[Step]:
    """Return the next step for the last user message."""
    wish, answered = "", set[str]()
    for part in (part for content in request.contents for part in content.parts or ()):
        if part.text and part.text.startswith(("count ", "tell ")):
            wish, answered = part.text, set[str]()
        elif part.function_response is not None:
            answered.add(part.function_response.name or "")
    return _steps(wish.split(" "), answered)


def _steps(wish: list[str], answered: set[str]) -> Iterator[Step]:
    thoughts, first, *more = map(int, wish[1:])
    if not answered:
        yield Think(numbered("t", 0, thoughts))
        yield Say(numbered("w", 0, first))
        if more:
            yield Call("look_up", {"what": "prices"})
    elif "pay" not in answered:
        yield Say(numbered("w", first, more[0]))
        yield Call("pay", {"amount": sum(more)})
    else:
        yield Say(numbered("w", first + more[0], more[1]))


async def look_up(what: str) -> dict[str, str]:
    """Looks something up."""
    await asyncio.sleep(SEARCH)
    return {"found": what}


def pay(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays."""
    line = {"chat": tool_context.session.id, "call": tool_context.function_call_id, "amount": amount}
    with LEDGER.open("a") as ledger:
        ledger.write(f"{json.dumps(line)}\n")
    return {"paid": amount}


root_agent = LlmAgent(
    name="counter",
    model=SlowModel(script=script),
    tools=[look_up, FunctionTool(pay, require_confirmation=True)],
)
