"""A Gemini agent with one tool.

GOOGLE_API_KEY=... adkwire serve examples/weather_agent.py
"""

from typing import Any

from google.adk.agents import LlmAgent

_REPORTS = {"tokyo": (18, "cloudy"), "paris": (11, "rainy"), "cairo": (31, "sunny")}


async def get_weather(city: str) -> dict[str, Any]:
    """Get the current weather of a city.

    Args:
        city: The name of the city, for example "Tokyo".
    """
    report = _REPORTS.get(city.strip().casefold())
    if report is None:
        return {"error": f"There is no report for {city}."}
    temperature, condition = report
    return {"city": city, "temperature": temperature, "condition": condition}


root_agent = LlmAgent(
    name="weather",
    description="Answers questions about the weather.",
    model="gemini-3.5-flash",
    instruction="Answer questions about the weather. Use get_weather. Be brief.",
    tools=[get_weather],
)
