"""Pacing at the model's edge: fewer, larger partial events, the same text.

ADK spends 300 to 390 us on every partial event, whatever it holds, and a screen cannot show more than some thirty
changes a second. So partial text is joined before ADK sees it: the first piece at once, then what has come since, at
most `rate` times a second. Thoughts and text are never mixed, everything else passes untouched and in order.

A paced model is a copy whose class is a subclass made on the spot, so `isinstance(model, Gemini)` still holds and the
user's own objects are left as they are.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar, cast

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

M = TypeVar("M", bound=BaseLlm)


def paced_agent(agent: BaseAgent, rate: float) -> BaseAgent:
    """A copy of an agent tree in which every model of its own is paced."""
    update: dict[str, Any] = {"sub_agents": [paced_agent(child, rate) for child in agent.sub_agents]}
    if isinstance(agent, LlmAgent) and agent.model:
        update["model"] = paced_model(agent.canonical_model, rate)
    return agent.clone(update=update)


def paced_model(model: M, rate: float) -> M:
    """A copy of a model that joins partial text to at most `rate` events a second."""
    own = type(model)

    async def generate_content_async(
        self: BaseLlm, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        source = own.generate_content_async(cast("M", self), llm_request, stream)
        async with aclosing(_join(source, 1 / rate) if stream else source) as responses:
            async for response in responses:
                yield response

    body = {"generate_content_async": generate_content_async, "__module__": own.__module__, "__doc__": own.__doc__}
    twin = model.model_copy()
    twin.__class__ = cast("type[M]", type(own.__name__, (own,), body))
    return twin


async def _join(source: AsyncGenerator[LlmResponse, None], period: float) -> AsyncGenerator[LlmResponse, None]:
    arrived: asyncio.Queue[LlmResponse | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    pump = loop.create_task(_pump(source, arrived), name="adkwire-pacing")
    due = 0.0
    try:
        response = await arrived.get()
        while response is not None:
            behind: list[LlmResponse | None] = []
            if _is_text(response):
                await asyncio.sleep(max(0.0, due - loop.time()))
                response, behind = _with_what_came(response, arrived)
                due = loop.time() + period
            yield response
            response = behind[0] if behind else await arrived.get()
        await pump
    finally:
        pump.cancel()
        await asyncio.wait([pump])


async def _pump(source: AsyncGenerator[LlmResponse, None], arrived: "asyncio.Queue[LlmResponse | None]") -> None:
    """Take from the model at its own speed; None is the end, and an error stays in the task."""
    try:
        async with aclosing(source):
            async for response in source:
                arrived.put_nowait(response)
    finally:
        arrived.put_nowait(None)


def _with_what_came(
    first: LlmResponse, arrived: "asyncio.Queue[LlmResponse | None]"
) -> tuple[LlmResponse, list[LlmResponse | None]]:
    """Join the text that waits behind `first`; also return the one item, if any, that ended the row."""
    row, behind = [first], list[LlmResponse | None]()
    while not arrived.empty() and not behind:
        item = arrived.get_nowait()
        if item is not None and _is_text(item) and _thought(item) == _thought(first):
            row.append(item)
        else:
            behind.append(item)
    return _joined(row), behind


def _joined(row: list[LlmResponse]) -> LlmResponse:
    if len(row) == 1:
        return row[0]
    text = "".join(_part(response).text or "" for response in row)
    part = types.Part(text=text, thought=_part(row[0]).thought)
    return row[-1].model_copy(update={"content": types.Content(role="model", parts=[part])})


def _is_text(response: LlmResponse) -> bool:
    parts = response.content.parts if response.partial and response.content else None
    return parts is not None and len(parts) == 1 and bool(parts[0].text) and parts[0].thought_signature is None


def _thought(response: LlmResponse) -> bool:
    return bool(_part(response).thought)


def _part(response: LlmResponse) -> types.Part:
    assert response.content is not None  # noqa: S101 - only asked of what `_is_text` took
    assert response.content.parts is not None  # noqa: S101
    return response.content.parts[0]
