"""An agent whose tools write every execution to a ledger.

What the user types is what the model does: a JSON list of steps, each a list of calls. After the last step, and for
any other text, it says what came of it.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import TypedDict

from adkwire import client_tool
from adkwire.gate.policy import Policy, Rule
from adkwire.testing import Call, Say, ScriptedModel, Step, Wait

PAYMENT: dict[str, Any] = {
    "amount": 5.0,
    "currency": "EUR",
    "to": {"name": "Zoë", "accounts": [{"iban": "DE02", "number": 12345678901234567}]},
}
LIMIT = 1000
POLICY = Policy(
    [
        Rule("pay", "deny", when={"amount": {"gt": LIMIT}}),
        Rule("once", "ask", grant="never"),
        Rule("soon", "ask", timeout=0.05),
        Rule("again", "ask", retry=True),
    ]
)


class Line(NamedTuple):
    """One execution."""

    user: str
    chat: str
    call: str
    tool: str
    args: dict[str, Any]


class Place(TypedDict):
    """The position of a device."""

    latitude: float
    longitude: float


@client_tool(require_confirmation=True)
def where() -> Place:
    """Find out where the user is."""
    raise NotImplementedError


@client_tool
def music(track: Literal[0, 1]) -> dict[str, int]:
    """Play a track.

    Args:
        track: Which one.
    """
    raise NotImplementedError


@dataclass
class Till:
    """The agent, and what its tools did."""

    ledger: list[Line] = field(default_factory=list[Line])
    looked: list[str] = field(default_factory=list[str])
    begun: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    """By chat: a tool that takes its time has begun."""
    released: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    """By chat: it may end."""
    model: ScriptedModel = field(init=False)
    agent: LlmAgent = field(init=False)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(script=self._script)
        gated = (self.pay, self.nothing, self.slow)
        ruled = (self.once, self.soon, self.again)
        tools = [*(FunctionTool(tool, require_confirmation=True) for tool in gated), *map(FunctionTool, ruled)]
        self.agent = LlmAgent(name="till", model=self.model, tools=[*tools, self.look, where, music])

    def pay(
        self, amount: float, currency: str, to: dict[str, Any], tool_context: ToolContext, memo: str = ""
    ) -> dict[str, Any]:
        """Pays."""
        args = {"amount": amount, "currency": currency, "to": to} | ({"memo": memo} if memo else {})
        self._did(tool_context, "pay", args)
        return {"paid": amount}

    def nothing(self, tool_context: ToolContext) -> dict[str, Any]:
        """Takes no arguments."""
        self._did(tool_context, "nothing", {})
        return {"done": True}

    def once(self, amount: float, tool_context: ToolContext) -> dict[str, Any]:
        """Pays; each time is asked about."""
        self._did(tool_context, "once", {"amount": amount})
        return {"paid": amount}

    def soon(self, amount: float, tool_context: ToolContext) -> dict[str, Any]:
        """Pays, if a person is quick."""
        self._did(tool_context, "soon", {"amount": amount})
        return {"paid": amount}

    async def slow(self, amount: float, tool_context: ToolContext) -> dict[str, Any]:
        """Pays, in its own time."""
        return await self._take_time(tool_context, "slow", amount)

    async def again(self, amount: float, tool_context: ToolContext) -> dict[str, Any]:
        """Pays, in its own time, and may be tried again."""
        return await self._take_time(tool_context, "again", amount)

    def look(self, item: str) -> dict[str, str]:
        """Looks something up; nobody is asked."""
        self.looked.append(item)
        return {"item": item}

    async def _take_time(self, context: ToolContext, tool: str, amount: float) -> dict[str, Any]:
        self._did(context, tool, {"amount": amount})
        self.begun[context.session.id].set()
        await self.released[context.session.id].wait()
        return {"paid": amount}

    def _did(self, context: ToolContext, tool: str, args: dict[str, Any]) -> None:
        self.ledger.append(Line(context.user_id, context.session.id, context.function_call_id or "", tool, args))

    def _script(self, request: LlmRequest) -> Iterable[Step]:
        at, text = _last_user_text(request.contents)
        steps: list[list[dict[str, Any]]] = json.loads(text) if text.startswith("[") else []
        index = sum(content.role == "model" for content in request.contents[at:])
        if index < len(steps):
            return [self._step(call) for call in steps[index]]
        return [Say(_outcome(request.contents[at:]))]

    def _step(self, call: dict[str, Any]) -> Step:
        return Wait(self.released[call["hold"]]) if "hold" in call else Call(**call)


def calls(*wanted: tuple[str, dict[str, Any]] | str) -> str:
    """Return the text that makes the model do these calls in one step."""
    nothing: dict[str, Any] = {}
    pairs = [(one, nothing) if isinstance(one, str) else one for one in wanted]
    return json.dumps([[{"name": name, "args": args} for name, args in pairs]])


PAY = calls(("pay", PAYMENT))
"""The text that makes the model call one payment that needs an approval."""


def _last_user_text(contents: Sequence[types.Content]) -> tuple[int, str]:
    for index in range(len(contents) - 1, -1, -1):
        for part in contents[index].parts or ():
            if contents[index].role == "user" and part.text:
                return index, part.text
    raise LookupError("the request has no user text")


def _outcome(contents: Sequence[types.Content]) -> str:
    """Return the results of the calls as the model gets them."""
    found = [part.function_response for content in contents for part in content.parts or ()]
    return "; ".join(f"{each.name} {json.dumps(each.response, sort_keys=True)}" for each in found if each) or "ok"
