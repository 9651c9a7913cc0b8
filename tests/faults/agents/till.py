"""An agent whose process can be made to die at a named moment.

What the user types is what the model does: `pay 5 + pay 6` calls `pay` twice in one step. Anything else is answered
with all that the model was told about its calls. A tool that really runs leaves a line in LEDGER. The file ARMED says
where the process dies, once: `POINT CHAT`, or `sql N`: before the N-th statement that SQLite is given from then on. Or
it says `hold`: then chats called `POINT.something` come no further than that point, until somebody kills the process.
"""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkwire import client_tool
from adkwire.testing import Call, Say, ScriptedModel, Step

ARMED = Path(os.environ["ARMED"])
HELD = Path(os.environ["HELD"])
LEDGER = Path(os.environ["LEDGER"])
TOOLS = ("pay", "charge", "lend", "trust", "soon")


def order() -> list[str]:
    """Return the order in ARMED; usually none."""
    try:
        return ARMED.read_text().split()
    except FileNotFoundError:
        return []


def die() -> None:
    """Kill this process with `kill -9`, and remove the order."""
    ARMED.unlink()
    os.kill(os.getpid(), signal.SIGKILL)


async def reach(point: str, chat: str) -> None:
    """Kill the process or wait at this point, if ARMED orders it."""
    now = order()
    if now == [point, chat]:
        die()
    if now == ["hold"] and chat.partition(".")[0] == point:
        append(HELD, chat)
        await asyncio.Event().wait()


class Statements:
    """Counts the statements of SQLite on all connections."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.seen = 0

    def before(self, statement: str) -> None:
        now = order()
        if now != self.order:
            self.order, self.seen = now, 0
        if now[:1] == ["sql"]:
            self.seen += 1
            if self.seen == int(now[1]):
                die()


statements = Statements()
_connect = sqlite3.connect


def connect(*args: Any, **options: Any) -> sqlite3.Connection:
    """Open a connection whose statements are counted."""
    connection = _connect(*args, **options)
    connection.set_trace_callback(statements.before)
    return connection


sqlite3.connect = cast("Any", connect)


def append(path: Path, line: str) -> None:
    """Append a line in one write."""
    with path.open("a") as file:
        file.write(f"{line}\n")


def write(what: str, context: ToolContext) -> None:
    """Write that a tool ran to the ledger."""
    line = {"what": what, "chat": context.session.id, "call": context.function_call_id}
    append(LEDGER, json.dumps(line))


def is_paid(amount: int, context: ToolContext) -> bool:
    """Return True if the ledger has a charge with this call's id."""
    charge = {"what": f"charge {amount}", "chat": context.session.id, "call": context.function_call_id}
    return charge in map(json.loads, LEDGER.read_text().splitlines())


async def spend(name: str, amount: int, context: ToolContext) -> dict[str, int]:
    await reach("tool_begins", context.session.id)
    write(f"{name} {amount}", context)
    await reach("tool_paid", context.session.id)
    await reach(f"paid_{amount}", context.session.id)
    return {"paid": amount}


async def pay(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays."""
    return await spend("pay", amount, tool_context)


async def lend(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Lends; an approval of it may stand."""
    return await spend("lend", amount, tool_context)


async def trust(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Lends too, by a name of its own: standing approvals of one tool do not cover the other."""
    return await spend("trust", amount, tool_context)


async def soon(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays, if a person is quick."""
    return await spend("soon", amount, tool_context)


async def charge(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays once for a call, however often it is run: the call's id is the idempotency key."""
    await reach("tool_begins", tool_context.session.id)
    write("began", tool_context)
    if not is_paid(amount, tool_context):
        write(f"charge {amount}", tool_context)
    await reach("tool_paid", tool_context.session.id)
    return {"paid": amount}


@client_tool
def clock() -> dict[str, str]:
    """Find out what time it is where the user is."""
    raise NotImplementedError


class Faults(BasePlugin):
    """A plugin that reaches its points before adkwire's own plugin."""

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        await reach("user_message", invocation_context.session.id)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        await reach("before_claim", tool_context.session.id)

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        if any(response.name in TOOLS for response in event.get_function_responses()):
            await reach("result", invocation_context.session.id)


async def before_agent(callback_context: CallbackContext) -> None:
    await reach("before_agent", callback_context.session.id)


async def before_model(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    await reach("before_model", callback_context.session.id)


async def before_tool(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
    await reach("before_tool", tool_context.session.id)


async def after_tool(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, tool_response: object) -> None:
    await reach("after_tool", tool_context.session.id)


def script(request: LlmRequest) -> Iterable[Step]:
    """Return the calls that the user typed; once they are answered, a text with the results of all calls."""
    newest = request.contents[-1].parts or []
    text = newest[0].text or "" if newest else ""
    if text == "clock":
        return [Call("clock")]
    if text.split(" ")[0] in TOOLS:
        return [_call(*wish.split(" ")) for wish in text.split(" + ")]
    found = [part.function_response for content in request.contents for part in content.parts or ()]
    results = [f"{each.name} {json.dumps(each.response, sort_keys=True)}" for each in found if each]
    return [Say("Told: " + ("; ".join(results) or "nothing"))]


def _call(name: str, amount: str) -> Call:
    return Call(name, {"amount": int(amount)})


till = LlmAgent(
    name="till",
    model=ScriptedModel(script=script),
    tools=[clock, *(FunctionTool(tool, require_confirmation=True) for tool in (pay, charge, lend, trust, soon))],
    before_agent_callback=before_agent,
    before_model_callback=before_model,
    before_tool_callback=before_tool,
    after_tool_callback=after_tool,
)
app = App(name="till", root_agent=till, plugins=[Faults(name="faults")])
