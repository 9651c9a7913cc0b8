"""An agent whose tools ask in every way that the page can show. It runs offline: its model plays a script."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, Field

from adkwire.testing import Call, Say, ScriptedModel, Step


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    city: str


async def ship_parcel(
    item: str,
    count: Annotated[int, Field(ge=1, le=10, description="How many, at most ten.")],
    express: bool,
    service: Literal["letter", "box", "pallet"],
    country: Literal["AT", "CH", "DE", "FR", "IT", "JP", "US"],
    tags: list[str],
    to: Address,
    weight: float = 1.5,
    note: str | None = None,
) -> dict[str, Any]:
    """Send a parcel."""
    place = to if isinstance(to, dict) else to.model_dump()
    await asyncio.sleep(0.3)  # the page shows how long a call took; nothing waits for this
    return {"item": item, "count": count, "express": express, "service": service, "country": country} | {
        "tags": tags,
        "to": place,
        "weight": weight,
        "note": note,
    }


async def book_table(guests: int, *, tool_context: ToolContext) -> dict[str, Any]:
    """Book a table."""
    answer = tool_context.tool_confirmation
    if answer is None:
        wishes = {"day": ["Friday", "Saturday"], "name": "Eve", "seats": 2, "outside": False}
        tool_context.request_confirmation(hint="Which day?", payload=wishes)
        return {"status": "waiting"}
    return {"guests": guests, "booked": answer.payload}


async def ping(host: str) -> dict[str, Any]:
    """Look whether a host is there."""
    return {"host": host, "alive": True}


async def fail(why: str) -> dict[str, Any]:
    """Fail."""
    raise RuntimeError(why)


PARCEL: dict[str, Any] = {
    "item": "Tea",
    "count": 2,
    "express": False,
    "service": "box",
    "country": "DE",
    "tags": ["fragile"],
    "to": {"street": "Main 1", "city": "Ulm"},
}
CALLS = {
    "ship": [Call("ship_parcel", PARCEL)],
    "book": [Call("book_table", {"guests": 2})],
    "ping": [Call("ping", {"host": "db-1"})],
    "twice": [Call("ping", {"host": "db-1"}), Call("ping", {"host": "db-1"})],
    "fail": [Call("fail", {"why": "The printer is on fire."})],
}


def script(request: LlmRequest) -> Iterator[Step]:
    """Make the calls that the user's message names, then answer with their results."""
    parts = request.contents[-1].parts or []
    results = [part.function_response for part in parts if part.function_response]
    if results:
        yield Say(" ".join(f"{result.name}: {result.response}." for result in results))
        return
    words = " ".join(part.text or "" for part in parts).split()
    calls = [call for word in words for call in CALLS.get(word, [])]
    yield from calls or [Say("Try: ship, book, ping, twice, fail.")]


root_agent = LlmAgent(
    name="clerk",
    model=ScriptedModel(script=script),
    tools=[
        FunctionTool(ship_parcel, require_confirmation=True),
        book_table,
        FunctionTool(ping, require_confirmation=True),
        fail,
    ],
)
