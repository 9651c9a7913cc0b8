"""An agent whose tools ask, wait for the browser, or are ruled by a policy.

What the user types is what the model does: `pay 5 + where | pay 7` calls `pay` and `where` in one step, then `pay` in
the next, then tells all that came of the last step. A tool that really runs writes a line to the file named by LEDGER.
"""

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent  # pyright: ignore[reportDeprecated]
from google.adk.agents.sequential_agent import SequentialAgent  # pyright: ignore[reportDeprecated]
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import TypedDict

from adkwire import client_tool
from adkwire.testing import Call, Fail, Manner, Say, ScriptedModel, Step, Wait

LEDGER = Path(os.environ["LEDGER"])


class Signal(asyncio.Event):
    """An event that one thread sets and another waits for: a model may run in a thread of its own."""

    def __init__(self) -> None:
        self._set_future: Future[None] = Future()

    def set(self) -> None:
        """Set the event, and wake all waiting threads."""
        if not self._set_future.done():
            self._set_future.set_result(None)

    async def wait(self) -> Literal[True]:
        """Wait until the event is set."""
        await asyncio.shield(asyncio.wrap_future(self._set_future))
        return True


begun: defaultdict[str, Signal] = defaultdict(Signal)
released: defaultdict[str, Signal] = defaultdict(Signal)


def did(what: str, context: ToolContext) -> None:
    """Append a line that a tool ran, in one write, so that lines do not mix."""
    line = {"chat": context.session.id, "call": context.function_call_id, "what": what}
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps(line) + "\n")


def pay(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays."""
    did(f"pay {amount}", tool_context)
    return {"paid": amount}


def owe(amount: float, tool_context: ToolContext) -> str:
    """Writes a debt down, in numbers that JavaScript may not have."""
    did(f"owe {amount:g}", tool_context)
    return "owed"


async def slow(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays after `release`; `begun` waits until it runs."""
    did(f"slow {amount}", tool_context)
    begun[tool_context.session.id].set()
    await released[tool_context.session.id].wait()
    return {"paid": amount}


def soon(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays, if a person is quick."""
    did(f"soon {amount}", tool_context)
    return {"paid": amount}


def later(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays, if a person answers at all."""
    did(f"later {amount}", tool_context)
    return {"paid": amount}


def is_generous(amount: int, tool_context: ToolContext) -> bool:
    """Return True for a large tip. ADK calls this function with all arguments of the tool."""
    return amount > 100 and tool_context.function_call_id is not None


def tip(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pays a little without a question."""
    did(f"tip {amount}", tool_context)
    return {"tipped": amount}


def crash(tool_context: ToolContext) -> None:
    """Begins and breaks."""
    did("crash", tool_context)
    raise RuntimeError("the till is jammed")


def lend(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Lends; an approval of it may stand."""
    did(f"lend {amount}", tool_context)
    return {"lent": amount}


def order(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Orders, and the model need not wait for it."""
    did(f"order {amount}", tool_context)
    return {"ordered": amount}


def haggle(amount: int, tool_context: ToolContext) -> dict[str, Any]:
    """Asks how much of it is granted, and pays that."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint=f"How much of {amount}?", payload={"granted": 0})
        return {"status": "asked"}
    if not confirmation.confirmed:
        return {"error": "nothing was granted"}
    granted: dict[str, Any] = confirmation.payload or {}
    did(f"haggle {granted.get('granted')}", tool_context)
    return {"paid": granted.get("granted")}


def put(value: dict[str, Any], tool_context: ToolContext) -> str:
    """Puts anything anywhere."""
    did("put", tool_context)
    return json.dumps(value, sort_keys=True)


def add(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


def erase(place: str, tool_context: ToolContext) -> dict[str, str]:
    """Erases."""
    did(f"erase {place}", tool_context)
    return {"erased": place}


def forbid(tool_context: ToolContext) -> str:
    """Must never run."""
    did("forbid", tool_context)
    return "done"


def trust(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Asks by itself, but the owner allows it."""
    did(f"trust {amount}", tool_context)
    return {"trusted": amount}


class Place(TypedDict):
    """The position of a device."""

    latitude: float
    longitude: float


@client_tool(require_confirmation=True)
def where() -> Place:
    """Find out where the user is."""
    raise NotImplementedError


@client_tool
def clock() -> dict[str, str]:
    """Find out what time it is where the user is."""
    raise NotImplementedError


def is_loud(track: int) -> bool:
    """Return True for the loud track."""
    return track == 1


@client_tool(require_confirmation=is_loud)
def music(track: Literal[0, 1]) -> dict[str, int]:
    """Play a track.

    Args:
        track: Which one; the loud one asks.
    """
    raise NotImplementedError


def _amount(name: str) -> Callable[[str], Call]:
    return lambda text: Call(name, {"amount": json.loads(text)})


def _plain(name: str) -> Callable[[str], Call]:
    return lambda _: Call(name)


def _sum(text: str) -> Call:
    a, b = text.split()
    return Call("add", {"a": int(a), "b": int(b)})


OF_AN_AMOUNT = ("pay", "owe", "slow", "soon", "later", "tip", "lend", "order", "haggle", "trust")
VERBS: Mapping[str, Callable[[str], Step]] = {
    **{name: _amount(name) for name in OF_AN_AMOUNT},
    **{name: _plain(name) for name in ("crash", "forbid", "where", "clock")},
    "add": _sum,
    "put": lambda value: Call("put", {"value": json.loads(value)}),
    "erase": lambda place: Call("erase", {"place": place}),
    "music": lambda track: Call("music", {"track": int(track)}),
    "go": lambda name: Call("transfer_to_agent", {"agent_name": name}),
    "child": lambda _: Call("child", {"request": "pay"}),
    "hello": lambda _: Say("Hello to you."),
    "fail": lambda _: Fail(RuntimeError("the model broke")),
    "begun": lambda chat: Wait(begun[chat]),
    "release": lambda chat: _release(chat),
}


def _release(chat: str) -> Step:
    released[chat].set()
    return Say("Released.")


def heard(sound: bytes) -> str:
    """Return the transcript of audio in which each sample is a character."""
    return sound.decode("utf-16-le")


def script(request: LlmRequest) -> Iterable[Step]:
    """Return the next step for the last user message, by the number of answers that the model has given to it."""
    index, text = _last_user_text(request.contents)
    stages = text.split(" | ")
    # ADK stores what a live model said and what it called in one turn apart.
    at = sum(role == "model" for role, _ in groupby(content.role for content in request.contents[index:]))
    return list(_stage(stages[at])) if at < len(stages) else [Say(_outcome(request.contents))]


def _stage(stage: str) -> Iterable[Step]:
    for wish in stage.split(" + "):
        verb, _, rest = wish.partition(" ")
        if verb == "hold":
            yield from (Say("One "), Wait(released[rest]), Say("two."))
        else:
            yield VERBS[verb](rest)


def _last_user_text(contents: Sequence[types.Content]) -> tuple[int, str]:
    for index in range(len(contents) - 1, -1, -1):
        for part in contents[index].parts or ():
            if contents[index].role == "user" and part.text:
                return index, part.text
    raise LookupError("the request has no user text")


def _outcome(contents: Sequence[types.Content]) -> str:
    """Return the results of the last calls as the model gets them."""
    last = max(index for index, content in enumerate(contents) if content.role == "model")
    found = [part.function_response for content in contents[last:] for part in content.parts or ()]
    return "; ".join(sorted(f"{each.name} {json.dumps(each.response, sort_keys=True)}" for each in found if each))


def _at_the_till(request: LlmRequest) -> Iterable[Step]:
    paid = any(part.function_response for content in request.contents for part in content.parts or ())
    return [Say(_outcome(request.contents))] if paid else [Call("pay", {"amount": 8})]


def _till(name: str) -> LlmAgent:
    """An agent that does nothing but pay."""
    pays = FunctionTool(pay, require_confirmation=True)
    return LlmAgent(name=name, description="Pays.", model=ScriptedModel(script=_at_the_till), tools=[pays])


def _shop(name: str) -> SequentialAgent:  # pyright: ignore[reportDeprecated]
    """One agent after the other: the first pays."""
    closing = LlmAgent(name=f"{name}_closing", model=ScriptedModel(script=lambda _: [Say("We are closed.")]))
    return SequentialAgent(name=name, sub_agents=[_till(f"{name}_till"), closing])  # pyright: ignore[reportDeprecated]


def _in_the_background() -> FunctionTool:
    tool = FunctionTool(order, require_confirmation=True)
    tool.behavior = types.Behavior.NON_BLOCKING
    return tool


TOOLS: list[Any] = [
    *(FunctionTool(tool, require_confirmation=True) for tool in (pay, owe, put, slow, soon, later, crash, lend, trust)),
    FunctionTool(tip, require_confirmation=is_generous),
    _in_the_background(),
    haggle,
    add,
    erase,
    forbid,
    where,
    clock,
    music,
]
street = _shop("street")
square = ParallelAgent(name="square", sub_agents=[_till("left"), _till("right")])  # pyright: ignore[reportDeprecated]
"""Two other roots: ADK goes on after a question in a sequence or in parallel agents only where they are the root."""
root_agent = LlmAgent(
    name="gated",
    model=ScriptedModel(script=script, manner=Manner(hears=heard)),
    sub_agents=[
        _till("cashier"),
        _shop("shop"),
    ],
    tools=[*TOOLS, AgentTool(_till("child"))],
)
