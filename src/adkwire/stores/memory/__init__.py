"""Stores in the memory of one process."""

from adkwire.stores.memory.gate import MemoryGateStore
from adkwire.stores.memory.signals import MemorySignals, SharedSignals
from adkwire.stores.memory.streams import MemoryStreamLog

__all__ = ["MemoryGateStore", "MemorySignals", "MemoryStreamLog", "SharedSignals"]
