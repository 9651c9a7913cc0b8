"""The outbox of a socket: order, dropped and discarded audio, clients that do not read."""

import asyncio

import pytest
from starlette.types import Message
from starlette.websockets import WebSocket

from adkwire.server.sockets.endings import SLOW
from adkwire.server.sockets.outbox import AudioPiece, Outbox
from tests.patience import PATIENCE


class _Slow:
    """A client that takes one frame each time it is let."""

    def __init__(self) -> None:
        self.taken: list[str | bytes] = []
        self._free = asyncio.Semaphore(0)

    async def opened(self) -> WebSocket:
        async def come() -> Message:
            return {"type": "websocket.connect"}

        socket = WebSocket({"type": "websocket"}, come, self._take)
        await socket.accept()
        return socket

    def let(self, frames: int) -> None:
        for _ in range(frames):
            self._free.release()

    async def _take(self, message: Message) -> None:
        if message["type"] == "websocket.send":
            await self._free.acquire()
            self.taken.append(message.get("text") or message["bytes"])


def piece(generation: int, data: bytes) -> AudioPiece:
    return AudioPiece(generation, len(data), lambda: data)


async def test_text_frames_are_sent_before_audio() -> None:
    client = _Slow()
    outbox = Outbox(await client.opened(), 20, audio_bytes=6)
    sending = asyncio.create_task(outbox.run())
    for data in (b"aa", b"bb", b"cc", b"dd"):
        outbox.put_audio(piece(1, data))
    assert outbox.dropped == 1
    outbox.put("words")
    sent = outbox.put("first", first=True)
    client.let(1)
    await sent
    outbox.discard_audio(2)
    outbox.put_audio(piece(2, b"ee"))
    client.let(10)
    await outbox.audio_sent()
    await outbox.put("last")
    assert client.taken == ["first", "words", b"ee", "last"]
    sending.cancel()


async def test_audio_whose_function_returns_none_is_not_sent() -> None:
    client = _Slow()
    client.let(10)
    outbox = Outbox(await client.opened(), 20)
    outbox.put_audio(AudioPiece(1, 2, lambda: None))
    outbox.put_audio(piece(1, b"bb"))
    sending = asyncio.create_task(outbox.run())
    await outbox.audio_sent()
    await outbox.put("last")
    assert client.taken == [b"bb", "last"]
    sending.cancel()


async def test_a_sound_that_times_out_when_it_is_made_is_an_error_and_no_slow_reader() -> None:
    client = _Slow()
    client.let(10)
    outbox = Outbox(await client.opened(), 20)

    def made() -> bytes:
        raise TimeoutError("not made in time")

    outbox.put_audio(AudioPiece(1, 2, made))
    sending = asyncio.create_task(outbox.run())
    await outbox.audio_sent()
    words = outbox.put("words")
    await asyncio.wait([sending, words], return_when=asyncio.FIRST_COMPLETED)
    assert not words.done(), "it went on as if nothing had happened"
    with pytest.raises(TimeoutError, match="not made"):
        await sending


async def test_held_audio_waits_until_it_is_released() -> None:
    client = _Slow()
    client.let(10)
    outbox = Outbox(await client.opened(), 20)
    sending = asyncio.create_task(outbox.run())
    outbox.hold_audio()
    outbox.put_audio(piece(1, b"aa"))
    await outbox.put("start")
    assert client.taken == ["start"]
    outbox.release_audio()
    await outbox.audio_sent()
    await outbox.put("end")
    assert client.taken == ["start", b"aa", "end"]
    sending.cancel()


async def test_a_paused_outbox_sends_nothing_until_it_is_resumed() -> None:
    client = _Slow()
    client.let(10)
    outbox = Outbox(await client.opened(), 20)
    outbox.pause()
    sending = asyncio.create_task(outbox.run())
    text_sent = outbox.put("told")
    await asyncio.sleep(0)
    outbox.put("ready", first=True)
    outbox.resume()
    await text_sent
    assert client.taken == ["ready", "told"]
    sending.cancel()


async def test_a_client_that_reads_nothing_ends_the_outbox() -> None:
    async def come() -> Message:
        return {"type": "websocket.connect"}

    async def full(message: Message) -> None:
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()

    socket = WebSocket({"type": "websocket"}, come, full)
    await socket.accept()
    outbox = Outbox(socket, 0.01)
    sent = outbox.put("a", "b")
    async with asyncio.timeout(PATIENCE):
        assert await outbox.run() == SLOW
    assert not sent.done()
