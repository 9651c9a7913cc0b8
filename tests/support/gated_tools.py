"""Tools that ask for approval or run in the browser, and checks of what the model and history got of their calls."""

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
from tests.support.chats import assert_legal
from tests.support.pages import Page


class Till:
    """Tools that pay, and a record of what they paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        """The amount of every execution of a payment, in order."""
        self.begun: dict[int, asyncio.Event] = {}
        """By amount: set when a paused payment has begun."""
        self.paused: dict[int, asyncio.Event] = {}
        """By amount: a payment of it waits for the event before it returns."""
        self.payloads: list[Any] = []
        """The payloads of the confirmations that `haggle` got."""

    @property
    def pay(self) -> FunctionTool:
        """The payment tool that asks for approval."""
        return FunctionTool(self._pay_tool(), require_confirmation=True)

    @property
    def plain(self) -> Any:
        """The payment tool that does not ask by itself; a policy may."""
        return self._pay_tool()

    def pause(self, amount: int) -> asyncio.Event:
        """Make payments of this amount wait while they execute; set the returned event to let them go on."""
        self.begun[amount], self.paused[amount] = asyncio.Event(), asyncio.Event()
        return self.paused[amount]

    async def until_begun(self, amount: int) -> None:
        """Wait until a paused payment of this amount executes."""
        async with asyncio.timeout(PATIENCE):
            await self.begun[amount].wait()

    def _pay_tool(self) -> Any:
        async def pay(amount: int) -> dict[str, int]:
            """Pay."""
            self.paid.append(amount)
            if amount in self.paused:
                self.begun[amount].set()
                await self.paused[amount].wait()
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


class DeviceLocation(TypedDict):
    city: str


@client_tool
def clock(zone: str) -> dict[str, Any]:
    """Read the clock of the device."""
    raise NotImplementedError


@client_tool(require_confirmation=True)
def where(exact: bool) -> DeviceLocation:
    """Find the device."""
    raise NotImplementedError


def tool_responses(request: Sequence[types.Content]) -> dict[str, Any]:
    """Return the response of each call in a request to the model, by the call's id; the request must be legal."""
    assert_legal(request)
    parts = [part for content in request for part in content.parts or ()]
    return {
        part.function_response.id or "": part.function_response.response for part in parts if part.function_response
    }


async def assert_history_matches(page: Page, model: ScriptedModel) -> None:
    """Assert that history has the page's last message as the page has it, and that every model request was legal."""
    assert await page.stored() == page.last
    for request in model.requests:
        assert_legal(request)
