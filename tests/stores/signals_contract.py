"""The contract tests of every `Signals`. The test module of a store inherits them and has a fixture for the store."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from adkwire.stores.base import Signals
from tests.stores.contract import PATIENCE

HELLO = b"hello"


class Heard:
    """The messages of a topic since the listener has surely begun."""

    def __init__(self, messages: AsyncGenerator[bytes, None]) -> None:
        self.messages = messages

    async def next(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await anext(self.messages)
                if message != HELLO:
                    return message


@contextlib.asynccontextmanager
async def listening(signals: Signals, topic: str) -> AsyncGenerator[Heard, None]:
    """Listen to a topic, and send greetings until one arrives: only that shows that the listener has begun."""
    messages = signals.listen(topic)
    first = asyncio.ensure_future(anext(messages))
    async with asyncio.timeout(PATIENCE):
        while not first.done():
            await signals.send(topic, HELLO)
            await asyncio.wait([first], timeout=0.01)
    assert await first == HELLO
    async with contextlib.aclosing(messages):
        yield Heard(messages)


@contextlib.asynccontextmanager
async def waiting(signals: Signals, name: str) -> AsyncGenerator["asyncio.Future[bool]", None]:
    """Wait in a task for a lease that another worker holds."""
    wait = asyncio.ensure_future(signals.wait_free(name, 100 * PATIENCE))
    done, _ = await asyncio.wait([wait], timeout=0.02)
    assert not done
    try:
        async with asyncio.timeout(PATIENCE):
            yield wait
    finally:
        wait.cancel()
        await asyncio.wait([wait])


class SignalsContract:
    """The tests. `signals` and `other` are fixtures of the module that inherits: two living workers."""

    async def test_every_worker_has_its_own_name(self, signals: Signals, other: Signals) -> None:
        assert signals.worker
        assert signals.worker == signals.worker != other.worker

    async def test_a_lease_nobody_had_is_given_at_once(self, signals: Signals, other: Signals) -> None:
        assert await signals.holder("chat") is None
        assert await signals.acquire("chat") == ""
        assert await signals.holder("chat") == await other.holder("chat") == signals.worker

    async def test_a_lease_is_one_workers_until_it_gives_it_back(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        assert await other.acquire("chat") is None
        assert await other.acquire("chat") is None
        assert await other.acquire("another") == ""
        await signals.release("chat")
        assert await signals.holder("chat") is None
        assert await other.acquire("chat") == signals.worker
        assert await signals.acquire("chat") is None
        assert await signals.holder("chat") == other.worker

    async def test_a_worker_keeps_its_lease(self, signals: Signals) -> None:
        await signals.acquire("chat")
        assert await signals.acquire("chat") == signals.worker
        await signals.release("chat")
        assert await signals.acquire("chat") == signals.worker

    async def test_nobody_gives_anothers_lease_back(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        await other.release("chat")
        await other.forget("chat")
        assert await other.acquire("chat") is None
        assert await signals.acquire("chat") == signals.worker

    async def test_giving_back_what_nobody_has_is_fine(self, signals: Signals) -> None:
        await signals.release("chat")
        await signals.forget("chat")
        assert await signals.acquire("chat") == ""
        await signals.release("chat")
        await signals.release("chat")

    async def test_a_forgotten_lease_was_nobodys(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        await signals.forget("chat")
        assert await signals.holder("chat") is None
        assert await other.acquire("chat") == ""
        await other.release("chat")
        await signals.forget("chat")
        assert await other.acquire("chat") == ""

    async def test_of_many_who_want_a_lease_one_gets_it(self, signals: Signals, other: Signals) -> None:
        for number in range(10):
            name = f"chat {number}"
            first, second = await asyncio.gather(signals.acquire(name), other.acquire(name))
            assert [first, second].count("") == 1
            assert [first, second].count(None) == 1
            assert await signals.holder(name) == (other if first is None else signals).worker

    async def test_closing_gives_all_leases_back(self, signals: Signals, other: Signals) -> None:
        for name in ("one", "two"):
            await signals.acquire(name)
        await other.acquire("three")
        await signals.close()
        assert [await other.holder(name) for name in ("one", "two", "three")] == [None, None, other.worker]
        assert await other.acquire("one") == signals.worker
        await signals.close()

    async def test_nobody_waits_for_a_lease_that_is_free_or_its_own(self, signals: Signals, other: Signals) -> None:
        assert await signals.wait_free("chat", 0)
        await signals.acquire("chat")
        assert await signals.wait_free("chat", 0)
        assert not await other.wait_free("chat", 0)
        await signals.release("chat")
        assert await other.wait_free("chat", 0)

    async def test_waiting_for_a_lease_ends_when_the_time_is_over(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        assert not await other.wait_free("chat", 0.05)
        assert await signals.holder("chat") == signals.worker

    async def test_a_release_ends_every_wait_whenever_it_began(self, signals: Signals, other: Signals) -> None:
        """The lease is released a few steps of the loop after the wait began: no moment is the wrong one."""
        for steps in range(12):
            await signals.acquire("chat")
            waits = [asyncio.ensure_future(other.wait_free("chat", 100 * PATIENCE)) for _ in range(2)]
            for _ in range(steps):
                await asyncio.sleep(0)
            await signals.release("chat")
            async with asyncio.timeout(PATIENCE):
                assert await asyncio.gather(*waits) == [True, True]

    async def test_a_lease_that_is_forgotten_or_whose_worker_is_closed_is_free(
        self, signals: Signals, other: Signals
    ) -> None:
        for give_up in (signals.forget("chat"), signals.close()):
            await signals.acquire("chat")
            async with waiting(other, "chat") as wait:
                await give_up
                assert await wait

    async def test_waiting_takes_no_lease(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        async with waiting(other, "chat") as wait:
            await signals.release("chat")
            assert await wait
        assert await signals.acquire("chat") == signals.worker

    async def test_other_leases_do_not_end_a_wait(self, signals: Signals, other: Signals) -> None:
        for name in ("chat", "chat 2"):
            await signals.acquire(name)
        async with waiting(other, "chat") as wait, waiting(other, "chat 2") as next_wait:
            await signals.release("chat 2")
            await other.release("chat")
            assert await next_wait
            assert not wait.done()

    async def test_closing_ends_the_waits_of_a_worker(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        async with waiting(other, "chat") as wait:
            await other.close()
            assert not await wait

    async def test_a_cancelled_wait_disturbs_no_other(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        async with waiting(other, "chat") as wait:
            async with waiting(other, "chat"):
                pass
            await signals.release("chat")
            assert await wait

    async def test_a_release_is_no_message_of_a_topic(self, signals: Signals, other: Signals) -> None:
        for topic in ("chat", "release chat", "message chat"):
            async with listening(other, topic) as heard:
                await signals.acquire("chat")
                await signals.release("chat")
                await signals.send(topic, b"message")
                assert await heard.next() == b"message"

    async def test_names_may_be_anything(self, signals: Signals, other: Signals) -> None:
        odd = (
            "",
            "Chat",
            "chat",
            "é",
            "e\u0301",
            "東京 🗼\u2028",
            "'; DROP TABLE adkwire_leases; --",
            "%_*?",
            "x" * 5000,
        )
        for name in odd:
            assert await signals.acquire(name) == ""
            assert await other.acquire(name) is None

    async def test_a_message_reaches_all_who_listen_on_every_worker(self, signals: Signals, other: Signals) -> None:
        async with listening(signals, "topic") as one, listening(other, "topic") as two, listening(other, "topic") as a:
            for message in (b"first", b"", b"\x00\xff\r\n", b"x" * 100_000):
                await signals.send("topic", message)
                for heard in (one, two, a):
                    assert await heard.next() == message

    async def test_messages_come_in_order(self, signals: Signals, other: Signals) -> None:
        sent = [b"%d" % number for number in range(30)]
        async with listening(other, "topic") as heard:
            for message in sent:
                await signals.send("topic", message)
            assert [await heard.next() for _ in sent] == sent

    async def test_a_topic_is_apart_from_others(self, signals: Signals, other: Signals) -> None:
        async with listening(other, "topic") as heard, listening(signals, "other") as elsewhere:
            await signals.send("other", b"for others")
            await signals.send("topic", b"for us")
            assert await heard.next() == b"for us"
            assert await elsewhere.next() == b"for others"

    async def test_nothing_is_kept_for_those_who_come_later(self, signals: Signals, other: Signals) -> None:
        await signals.send("topic", b"too early")
        async with listening(other, "topic") as first:
            await signals.send("topic", b"for the first")
            async with listening(other, "topic") as second:
                await signals.send("topic", b"for both")
                assert await second.next() == b"for both"
            assert [await first.next(), await first.next()] == [b"for the first", b"for both"]

    async def test_a_listener_that_leaves_disturbs_no_other(self, signals: Signals, other: Signals) -> None:
        async with listening(signals, "topic") as staying:
            async with listening(signals, "topic"):
                pass
            waiting = asyncio.ensure_future(anext(signals.listen("topic")))
            await asyncio.wait([waiting], timeout=0.01)
            waiting.cancel()
            await asyncio.wait([waiting])
            await other.send("topic", b"message")
            assert await staying.next() == b"message"

    async def test_closing_ends_what_listens(self, signals: Signals, other: Signals) -> None:
        async with listening(signals, "topic") as heard, listening(other, "topic") as elsewhere:
            ending = asyncio.ensure_future(_rest(heard))
            await signals.close()
            async with asyncio.timeout(PATIENCE):
                await ending
            await other.send("topic", b"still here")
            assert await elsewhere.next() == b"still here"

    async def test_a_closed_worker_can_be_used_again(self, signals: Signals, other: Signals) -> None:
        await signals.acquire("chat")
        await signals.close()
        assert await signals.acquire("chat") == signals.worker
        assert await other.acquire("chat") is None
        async with listening(signals, "topic") as heard:
            await other.send("topic", b"message")
            assert await heard.next() == b"message"


async def _rest(heard: Heard) -> list[bytes]:
    return [message async for message in heard.messages]
