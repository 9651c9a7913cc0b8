"""The demo agent with a key: its real model talks to the emulator, which answers as the offline one does."""

from collections.abc import Iterable
from typing import Any, cast

from emulated import MODEL, emulator, scripts
from google.adk.models.llm_request import LlmRequest

from adkwire.demo.agent import build_agent
from adkwire.demo.offline_model import answer, read_turn
from adkwire.testing import Step

root_agent = build_agent({**emulator.environment, "ADKWIRE_MODEL": MODEL, "ADKWIRE_LIVE_MODEL": MODEL})
TOOLS = cast("list[Any]", getattr(root_agent, "tools"))  # noqa: B009 - its type is not known as a whole
NAMES = {getattr(tool, "name", None) or tool.__name__ for tool in TOOLS}


def _script(request: LlmRequest) -> Iterable[Step]:
    return answer(read_turn(request.contents), NAMES)


scripts[root_agent.name] = _script
