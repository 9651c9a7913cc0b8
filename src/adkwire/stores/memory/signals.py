"""Leases and messages between workers of one process."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress

MAX_LAST_HOLDERS = 10_000
"""Released leases whose last holders are remembered. An older one counts as never held: the next holder then reads the
chat again, which costs time and nothing else."""


class SharedSignals:
    """The leases, listeners and waiting workers that several `MemorySignals` of one process share."""

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.last_holders: OrderedDict[str, str] = OrderedDict()
        """Who released a lease, for leases that nobody holds, in the order in which they were released."""
        self.listeners: dict[str, set[asyncio.Queue[bytes | None]]] = {}
        """The queue of every listener, by topic."""
        self.waiting: dict[str, set[asyncio.Queue[bytes | None]]] = {}
        """The queue of every worker that waits for a lease to become free, by the lease's name."""


class MemorySignals:
    """`Signals` among workers that share a `SharedSignals`; without one, of a worker that is alone."""

    def __init__(self, shared: SharedSignals | None = None) -> None:
        self._shared = shared or SharedSignals()
        self._worker = secrets.token_hex(8)
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        """The queues of this worker, which end with None when it is closed."""

    @property
    def worker(self) -> str:
        """The name of this worker."""
        return self._worker

    async def acquire(self, name: str) -> str | None:
        """Take or keep a lease."""
        holder = self._shared.holders.get(name)
        if holder is not None:
            return holder if holder == self._worker else None
        self._shared.holders[name] = self._worker
        return self._shared.last_holders.pop(name, "")

    async def release(self, name: str) -> None:
        """Release a lease."""
        if self._shared.holders.get(name) == self._worker:
            del self._shared.holders[name]
            self._shared.last_holders[name] = self._worker
            if len(self._shared.last_holders) > MAX_LAST_HOLDERS:
                self._shared.last_holders.popitem(last=False)
            for queue in self._shared.waiting.get(name, ()):
                queue.put_nowait(b"")

    async def holder(self, name: str) -> str | None:
        """Return the living worker that holds a lease."""
        return self._shared.holders.get(name)

    async def wait_free(self, name: str, seconds: float) -> bool:
        """Wait until no other worker holds a lease; return False when `seconds` have passed before."""
        with self._receiving(self._shared.waiting, name) as queue, suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_free(name):
                    if await queue.get() is None:
                        return False
        return self._is_free(name)

    async def forget(self, name: str) -> None:
        """Release a lease and forget its last holder."""
        await self.release(name)
        if name not in self._shared.holders:
            self._shared.last_holders.pop(name, None)

    async def send(self, topic: str, message: bytes) -> None:
        """Send a message to all listeners of a topic."""
        for queue in self._shared.listeners.get(topic, ()):
            queue.put_nowait(message)

    async def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a topic from the first step of the iteration on, until this worker is closed."""
        with self._receiving(self._shared.listeners, topic) as queue:
            while (message := await queue.get()) is not None:
                yield message

    async def close(self) -> None:
        """Give all leases back and end what listens and what waits."""
        for name in [name for name, holder in self._shared.holders.items() if holder == self._worker]:
            await self.release(name)
        for queue in self._queues:
            queue.put_nowait(None)

    def _is_free(self, name: str) -> bool:
        """Return whether no other worker holds a lease."""
        return self._shared.holders.get(name) in (None, self._worker)

    @contextmanager
    def _receiving(
        self, queues: "dict[str, set[asyncio.Queue[bytes | None]]]", name: str
    ) -> "Generator[asyncio.Queue[bytes | None]]":
        """A new queue of this worker, listed under a name as long as it is used."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        queues.setdefault(name, set()).add(queue)
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)
            queues[name].discard(queue)
            if not queues[name]:
                del queues[name]
