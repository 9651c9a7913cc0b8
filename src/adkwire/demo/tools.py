"""The tools of the demo agent."""

import asyncio
import hashlib
from typing import Any

from google.genai import types

from adkwire.demo.picture import paint

_CONDITIONS = ("sunny", "partly cloudy", "cloudy", "rainy", "windy")


async def get_weather(location: str) -> dict[str, Any]:
    """Get the current weather of a place.

    Args:
        location: The name of a city or region, for example "Tokyo".
    """
    digest = hashlib.sha256(location.strip().casefold().encode()).digest()
    temperature = digest[0] % 36 - 3
    condition = "snowy" if temperature <= 0 else _CONDITIONS[digest[1] % len(_CONDITIONS)]
    return {
        "location": location,
        "temperature": temperature,
        "condition": condition,
        "humidity": 35 + digest[2] % 56,
    }


async def draw(subject: str) -> dict[str, Any]:
    """Draw a picture and show it to the user.

    Args:
        subject: What to draw, for example "a cat".
    """
    # Painting takes a while; in a thread other chats go on.
    png = await asyncio.to_thread(paint, subject)
    return {"subject": subject, "image": types.Part(inline_data=types.Blob(mime_type="image/png", data=png))}
