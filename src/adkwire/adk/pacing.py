"""Pacing of partial text before ADK sees it: fewer, larger partial events with the same text.

ADK spends 300 to 390 us on every partial event, whatever it holds, and a screen cannot show more than some thirty
changes a second. So partial text is joined before ADK sees it: the first piece at once, then what has come since, at
most `rate` times a second. Thoughts and text are never mixed, everything else passes untouched and in order.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.tasks import end


def paced_generate(own: type[BaseLlm], rate: float) -> Callable[..., AsyncGenerator[LlmResponse, None]]:
    """Return a `generate_content_async` for a copy of a model of class `own`: at most `rate` partial texts a second."""

    async def generate_content_async(
        self: BaseLlm, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        source = own.generate_content_async(self, llm_request, stream)
        async with aclosing(_join(source, 1 / rate) if stream else source) as responses:
            async for response in responses:
                yield response

    return generate_content_async


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
                response, behind = _joined_with_arrived(response, arrived)
                due = loop.time() + period
            yield response
            response = behind[0] if behind else await arrived.get()
        await pump
    finally:
        await end(pump)


async def _pump(source: AsyncGenerator[LlmResponse, None], arrived: "asyncio.Queue[LlmResponse | None]") -> None:
    """Read responses of the model as fast as it yields them; put None at the end. An error stays in the task."""
    try:
        async with aclosing(source):
            async for response in source:
                arrived.put_nowait(response)
    finally:
        arrived.put_nowait(None)


def _joined_with_arrived(
    first: LlmResponse, arrived: "asyncio.Queue[LlmResponse | None]"
) -> tuple[LlmResponse, list[LlmResponse | None]]:
    """Return `first` joined with the text that has arrived behind it, and the item that ended the row, if any."""
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
