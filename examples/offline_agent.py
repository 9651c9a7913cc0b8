"""An agent that needs no key and no network: its model plays a script.

adkwire serve examples/offline_agent.py
"""

from collections.abc import Iterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest

from adkwire.testing import Call, Say, ScriptedModel, Step, Think


async def roll(sides: int) -> dict[str, Any]:
    """Roll a die that always shows its highest number.

    Args:
        sides: How many sides the die has.
    """
    return {"sides": sides, "shows": sides}


def script(request: LlmRequest) -> Iterator[Step]:
    """Roll a die for every message, then answer with the number."""
    results = [part.function_response for part in request.contents[-1].parts or [] if part.function_response]
    if results:
        number = (results[0].response or {})["shows"]
        yield Say(f"The die shows {number}.")
    else:
        yield Think("A die has six sides.")
        yield Call("roll", {"sides": 6})


root_agent = LlmAgent(name="dice", model=ScriptedModel(script=script), tools=[roll])
