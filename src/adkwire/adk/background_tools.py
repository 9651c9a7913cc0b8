"""BackgroundTools: lets a live run call tools in the background, so that a held call does not stop the model.

ADK reads the tool's `behavior` when the model calls it, and also sends it to the model, which not every model accepts.
So it is changed in the request, in a place that only ADK reads, by a toolset that stands last in each agent; the model
reads the declarations as they were. It is put into copies: the user's own agents and tools stay as they are.
"""

import copy
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

_HANDS_OVER = frozenset({"transfer_to_agent", "task_completed", "finish_task"})
"""Tools that end the turn of an agent: nothing may run beside them."""


class BackgroundTools(BaseToolset):
    """A toolset without tools that lets the other tools of its agent be called in the background."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return no tools."""
        return []

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Swap the tools of a request for copies that ADK calls in the background; the model reads no difference."""
        swapped: set[str] = set()
        for name, tool in llm_request.tools_dict.items():
            if name not in _HANDS_OVER and tool.behavior is None and tool.response_scheduling is None:
                copied = copy.copy(tool)
                copied.behavior = types.Behavior.NON_BLOCKING
                llm_request.tools_dict[name] = copied
                swapped.add(name)
        declared: list[Any] = getattr(llm_request.config, "tools", None) or []
        for tools in declared:
            if isinstance(tools, types.Tool) and tools.function_declarations:
                tools.function_declarations = [
                    _plain(each) if each.name in swapped else each for each in tools.function_declarations
                ]


class _PlainDeclaration(types.FunctionDeclaration):
    """A declaration whose `behavior` ADK cannot set."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "behavior":
            super().__setattr__(name, value)


def _plain(declaration: types.FunctionDeclaration) -> types.FunctionDeclaration:
    """Return a copy of a declaration that keeps the `behavior` it has."""
    return _PlainDeclaration(**{name: getattr(declaration, name) for name in declaration.model_fields_set})
