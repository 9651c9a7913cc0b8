"""RunServices: what runs and live conversations of a bridge share."""

from collections.abc import Callable
from dataclasses import dataclass

from adkwire.adk.runner import AgentRunner
from adkwire.gate.gate import ToolGate
from adkwire.runs.chat_events import ChatEvents
from adkwire.runs.chats import Chats
from adkwire.runs.run import Source
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey, Signals, StreamLog
from adkwire.wire.failures import Explain


@dataclass(frozen=True)
class RunServices:
    """The services that every run of a bridge uses. One value per bridge; nothing in it is ever replaced."""

    settings: Settings
    runner: AgentRunner
    gate: ToolGate
    log: StreamLog
    signals: Signals
    chats: Chats
    events: ChatEvents
    explain: Explain
    """Turns a failure into the text that a client reads."""
    clock: Callable[[], float]
    tap: Callable[[ChatKey, Source], Source]
    """Returns a source of the same ADK events that also records them; the same source when recording is off."""
