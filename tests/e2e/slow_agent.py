"""The demo agent with a weather tool that waits until a file named `weather` exists in the server's folder."""

import asyncio
import time
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool

from adkwire.demo import tools
from adkwire.demo.offline_model import OfflineModel

WEATHER = Path("weather")


def wait_for_the_file() -> None:
    while not WEATHER.exists():
        time.sleep(0.02)


async def get_weather(location: str) -> dict[str, Any]:
    """Get the current weather of a place."""
    await asyncio.to_thread(wait_for_the_file)
    return await tools.get_weather(location)


root_agent = LlmAgent(
    name="demo",
    model=OfflineModel(),
    tools=[get_weather, FunctionTool(tools.process_payment, require_confirmation=True)],
)
