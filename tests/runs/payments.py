"""A payment that is asked about, and one that was cut off while it ran."""

import asyncio
from dataclasses import dataclass, field

from google.adk.tools.tool_context import ToolContext

from adkwire import Policy, Rule
from adkwire.testing import Call, Say, ScriptedModel
from tests.patience import PATIENCE
from tests.runs.conftest import Make
from tests.runs.pages import Page

PAY = Call("pay", {"amount": 5}, "c1")


def calling(*calls: Call) -> ScriptedModel:
    return ScriptedModel(turns=[list(calls), [Say("Done.")], [Say("Bye.")]])


@dataclass
class Payments:
    """A tool that may be run again for the same call. The first time it never comes back."""

    ran: list[str | None] = field(default_factory=list[str | None])
    _begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def pay(self, amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Pay, once for each id."""
        self.ran.append(tool_context.function_call_id)
        self._begun.set()
        if len(self.ran) == 1:
            await asyncio.Event().wait()
        return {"paid": amount}

    async def cut_off(self, make: Make, model: ScriptedModel) -> Page:
        """The page behind a server that came back: the one before died in the payment that was approved."""
        policy = Policy([Rule("pay", "ask", retry=True)])
        page = Page(make(model, self.pay, policy=policy, drain=0.01))
        await page.say("pay")
        await page.approve("c1").post()
        async with asyncio.timeout(PATIENCE):
            await self._begun.wait()
        return page.after_restart(make(model, self.pay, policy=policy))
