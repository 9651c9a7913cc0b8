"""A payment call that asks for approval, and a payment tool that a crash interrupts while it executes."""

import asyncio
from dataclasses import dataclass, field

from google.adk.tools.tool_context import ToolContext

from adkwire import Policy, Rule
from adkwire.testing import Call, Say, ScriptedModel
from tests.patience import PATIENCE
from tests.support.fixtures import Make
from tests.support.pages import Page

PAY = Call("pay", {"amount": 5}, "c1")


def model_calling(*calls: Call) -> ScriptedModel:
    """Return a model that makes these calls first, and answers in text twice after that."""
    return ScriptedModel(turns=[list(calls), [Say("Done.")], [Say("Bye.")]])


@dataclass
class Payments:
    """A payment tool that may be executed again for the same call. Its first execution never returns."""

    ran: list[str | None] = field(default_factory=list[str | None])
    """The call's id for every execution."""
    _begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def pay(self, amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Pay, once for each id."""
        self.ran.append(tool_context.function_call_id)
        self._begun.set()
        if len(self.ran) == 1:
            await asyncio.Event().wait()
        return {"paid": amount}

    async def cut_off(self, make: Make, model: ScriptedModel) -> Page:
        """Return a page on a restarted server; the server before it died while the approved payment executed."""
        policy = Policy([Rule("pay", "ask", retry=True)])
        page = Page(make(model, self.pay, policy=policy, drain=0.01))
        await page.say("pay")
        await page.approve("c1").post()
        async with asyncio.timeout(PATIENCE):
            await self._begun.wait()
        return page.after_restart(make(model, self.pay, policy=policy))
