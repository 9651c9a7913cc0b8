"""The tools of the demo agent: some run in the server, some in the browser, and some ask for approval."""

import asyncio
import hashlib
import math
from typing import Any, Literal

from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from adkwire import client_tool
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
    # Drawing takes a while; in a thread it does not block other chats.
    png = await asyncio.to_thread(paint, subject)
    return {"subject": subject, "image": types.Part(inline_data=types.Blob(mime_type="image/png", data=png))}


async def process_payment(
    amount: float, recipient: str, currency: str = "USD", *, tool_context: ToolContext
) -> dict[str, Any]:
    """Pay money to someone. The user is asked before anything is paid.

    Args:
        amount: How much to pay, more than 0.
        recipient: Who gets the money.
        currency: The ISO code of the currency.
    """
    if not 0 < amount < math.inf:
        return {"success": False, "error": f"The amount must be more than 0, not {amount}. Nothing was paid."}
    # The call's id is the idempotency key: a call that is run again after a crash is the same transaction.
    key = hashlib.sha256((tool_context.function_call_id or "").encode()).hexdigest()
    return {
        "success": True,
        "amount": amount,
        "recipient": recipient,
        "currency": currency,
        "transaction_id": f"TX-{key[:12].upper()}",
    }


class Location(TypedDict):
    """The position of a device."""

    latitude: float
    longitude: float
    accuracy: float


class Playing(TypedDict):
    """The state of the background music after a change."""

    success: bool
    track: int


class LocalTime(TypedDict):
    """The time zone and local time of a device."""

    timezone: str
    local_time: str


@client_tool(require_confirmation=True)
def get_location() -> Location:
    """Get the position of the user's device: latitude and longitude in degrees, accuracy in metres."""
    raise NotImplementedError


@client_tool(require_confirmation=True)
def change_bgm(track: Literal[0, 1]) -> Playing:
    """Change the background music of the page.

    Args:
        track: Which of the two tracks to play.
    """
    raise NotImplementedError


@client_tool
def get_timezone() -> LocalTime:
    """Get the time zone and the local time of the user's device."""
    raise NotImplementedError
