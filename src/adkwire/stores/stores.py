"""Stores: the three stores of a bridge as one unit."""

from dataclasses import dataclass

from adkwire.errors import ConfigError
from adkwire.settings import Settings
from adkwire.stores.base import GateStore, Signals, StreamLog
from adkwire.stores.memory import MemoryGateStore, MemorySignals, MemoryStreamLog
from adkwire.stores.sqlite.gate import SqliteGateStore
from adkwire.stores.sqlite.signals import SqliteSignals
from adkwire.stores.sqlite.streams import SqliteStreamLog


@dataclass(frozen=True)
class Stores:
    """Where a bridge keeps what sessions do not hold.

    All three must reach the same workers: with a shared log and private signals two workers would write in one chat.
    """

    log: StreamLog
    """The chunks of runs, for readers that come back."""
    gate: GateStore
    """Pending calls, standing grants and the audit."""
    signals: Signals
    """Which worker writes in which chat, and messages between workers."""

    @classmethod
    def open(cls, settings: Settings) -> "Stores":
        """Return the stores that `settings.db` names: in one SQLite file, or in memory."""
        ttl, total, each = settings.stream_ttl, settings.stream_bytes, settings.stream_run_bytes
        path = settings.db_path
        if path is None:
            log = MemoryStreamLog(ttl=ttl, max_bytes=total, max_run_bytes=each)
            return cls(log, MemoryGateStore(), MemorySignals())
        if not path.parent.is_dir():
            raise ConfigError(f"Cannot keep chats in {path}: its folder does not exist. Make it, or choose another db.")
        log = SqliteStreamLog(path, ttl=ttl, max_bytes=total, max_run_bytes=each)
        return cls(log, SqliteGateStore(path), SqliteSignals(path))
