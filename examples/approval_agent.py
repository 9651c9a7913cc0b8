"""An agent that asks before it acts. It needs no key and no network: its model plays a script.

adkwire serve examples/approval_agent.py --policy examples/policy.toml

Say `pay 50 to Eve`, `book a table`, `where am I` or `delete my account`. `pay 20 to Bob` runs without a question and
`pay 5000 to Bob` is refused: both by the policy.
"""

import re
from collections.abc import Iterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from adkwire import client_tool
from adkwire.testing import Call, Say, ScriptedModel, Step


async def process_payment(
    amount: float, recipient: str, currency: str = "USD", *, tool_context: ToolContext
) -> dict[str, Any]:
    """Pay money to someone.

    Args:
        amount: How much to pay.
        recipient: Who gets the money.
        currency: The ISO code of the currency.
    """
    # Give this key to the bank: if the call is run again, the bank recognises the same payment.
    return {"paid": amount, "currency": currency, "to": recipient, "key": tool_context.function_call_id}


async def book_table(guests: int, *, tool_context: ToolContext) -> dict[str, Any]:
    """Book a table in a restaurant.

    Args:
        guests: How many people come.
    """
    answer = tool_context.tool_confirmation
    if answer is None:
        tool_context.request_confirmation(hint="Which day?", payload={"day": ["Friday", "Saturday"]})
        return {"status": "waiting for the day"}
    if not answer.confirmed:
        return {"error": "Nothing was booked."}
    payload: dict[str, str] = answer.payload or {}
    return {"guests": guests, "day": payload.get("day", "Friday")}


async def delete_account() -> dict[str, Any]:
    """Delete the account of the user."""
    return {"deleted": True}


class Location(TypedDict):
    """The position of a device."""

    latitude: float
    longitude: float


@client_tool(require_confirmation=True)
def get_location() -> Location:
    """Get the position of the user's device."""
    raise NotImplementedError


def script(request: LlmRequest) -> Iterator[Step]:
    """Call the tool that fits the user's message, then answer with its result."""
    parts = request.contents[-1].parts or []
    results = [part.function_response for part in parts if part.function_response]
    if results:
        yield Say(" ".join(f"{result.name}: {result.response}." for result in results))
    else:
        yield _reply(" ".join(part.text or "" for part in parts))


def _reply(text: str) -> Step:
    if payment := re.search(r"pay (\d+) to (\w+)", text):
        return Call("process_payment", {"amount": int(payment[1]), "recipient": payment[2], "currency": "USD"})
    for words, tool, args in _INTENTS:
        if words in text:
            return Call(tool, args)
    return Say("Try: pay 50 to Eve, book a table, where am I, delete my account.")


_INTENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("book a table", "book_table", {"guests": 2}),
    ("where am I", "get_location", {}),
    ("delete my account", "delete_account", {}),
]

root_agent = LlmAgent(
    name="concierge",
    model=ScriptedModel(script=script),
    tools=[FunctionTool(process_payment, require_confirmation=True), book_table, delete_account, get_location],
)
