"""Tools that ask or run in the browser, and what became of them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import TypedDict

from adkwire import client_tool
from adkwire.testing import ScriptedModel
from tests.patience import PATIENCE
from tests.runs.chats import assert_legal
from tests.runs.pages import Page


class Till:
    """Pays, and knows what was paid. A payment in `held` begins and waits until it is let go."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.begun: dict[int, asyncio.Event] = {}
        self.held: dict[int, asyncio.Event] = {}
        self.payloads: list[Any] = []

    @property
    def pay(self) -> FunctionTool:
        return FunctionTool(self._pay_tool(), require_confirmation=True)

    @property
    def plain(self) -> Any:
        return self._pay_tool()

    def hold(self, amount: int) -> asyncio.Event:
        """Let this payment wait in its middle; set the event to let it go on."""
        self.begun[amount], self.held[amount] = asyncio.Event(), asyncio.Event()
        return self.held[amount]

    async def until_begun(self, amount: int) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.begun[amount].wait()

    def _pay_tool(self) -> Any:
        async def pay(amount: int) -> dict[str, int]:
            """Pay."""
            self.paid.append(amount)
            if amount in self.held:
                self.begun[amount].set()
                await self.held[amount].wait()
            return {"paid": amount}

        return pay

    def haggle(self, amount: int, tool_context: ToolContext) -> dict[str, Any]:
        """Ask how much of it is granted, and pay that."""
        confirmation = tool_context.tool_confirmation
        if confirmation is None:
            tool_context.request_confirmation(hint=f"How much of {amount}?", payload={"granted": 0})
            return {"status": "asked"}
        if not confirmation.confirmed:
            return {"error": "nothing was granted"}
        self.payloads.append(confirmation.payload)
        granted: dict[str, Any] = confirmation.payload or {}
        self.paid.append(granted.get("granted", 0))
        return {"paid": granted.get("granted", 0)}


class Place(TypedDict):
    city: str


@client_tool
def clock(zone: str) -> dict[str, Any]:
    """Read the clock of the device."""
    raise NotImplementedError


@client_tool(require_confirmation=True)
def where(exact: bool) -> Place:
    """Find the device."""
    raise NotImplementedError


def responses(request: Sequence[types.Content]) -> dict[str, Any]:
    """What the model was told about each call, in a request that is legal."""
    assert_legal(request)
    parts = [part for content in request for part in content.parts or ()]
    return {
        part.function_response.id or "": part.function_response.response for part in parts if part.function_response
    }


async def agree(page: Page, model: ScriptedModel) -> None:
    """History is what the page shows, and every request that the model got was legal."""
    assert await page.stored() == page.last
    for request in model.requests:
        assert_legal(request)
