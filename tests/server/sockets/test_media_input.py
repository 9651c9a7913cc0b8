"""Audio and pictures of one client on their way to the model."""

import asyncio

from adkwire.server.sockets.media_input import Camera, Microphone
from adkwire.wire.socket.live_frames_in import AudioFrame, VideoFrame
from tests.patience import PATIENCE


def test_long_pieces_and_new_rates_count_for_more() -> None:
    microphone = Microphone(20)  # 100 pieces at once, of 20 ms each
    second = AudioFrame(bytes(32_000), 16_000)
    assert [bool(microphone.convert(second)) for _ in range(3) if microphone.admit()] == [True, True]
    other = Microphone(20)
    rates = (48_000, 24_000, 48_000, 24_000, 48_000)
    heard_pieces = [other.convert(AudioFrame(bytes(2 * rate // 50), rate)) for rate in rates if other.admit()]
    assert [bool(pcm) for pcm in heard_pieces] == [True, True, True, False, True]
    assert (microphone.dropped, other.dropped) == (1, 1)
    assert not microphone.flooded


async def test_a_camera_shows_the_newest_picture() -> None:
    sent: list[bytes] = []
    second = asyncio.Event()

    def show(frame: VideoFrame) -> None:
        sent.append(frame.data)
        if len(sent) == 2:
            second.set()

    camera = Camera(show)
    for data in (b"a", b"b", b"c", b"d"):
        camera.add(VideoFrame(data, "image/png"))
    assert (sent, camera.dropped) == ([b"a"], 2)
    async with asyncio.timeout(PATIENCE):
        await second.wait()
    assert sent == [b"a", b"d"]
    camera.close()
