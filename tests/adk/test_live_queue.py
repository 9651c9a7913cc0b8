"""What goes to a live model: its order, its bounds, and whether anybody takes it."""

import asyncio
from types import SimpleNamespace

import pytest
from google.adk.agents.live_request_queue import LiveRequest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.adk import live_queue
from adkwire.adk.live_queue import LiveQueue

BOUND = 100
"""Two seconds of sound in pieces of 20 ms."""


def words(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def picture(name: bytes) -> types.Blob:
    return types.Blob(data=name, mime_type="image/jpeg")


def told(request: LiveRequest) -> str:
    """One word for what was sent."""
    if request.blob is not None:
        return (request.blob.data or b"").decode()
    if request.content is not None:
        return (request.content.parts or [])[0].text or ""
    if request.activity_start is not None:
        return "start"
    return "end" if request.activity_end is not None else "close"


async def taken(queue: LiveQueue) -> list[str]:
    """All that is left, once nothing more is sent."""
    queue.close()
    got: list[str] = []
    while (request := await queue.get()) and not request.close:
        got.append(told(request))
    return got


async def test_everything_in_its_order() -> None:
    queue = LiveQueue()
    queue.send_content(words("hi"))
    queue.send_activity_start()
    queue.send_sound(b"one")
    queue.send_realtime(picture(b"face"))
    queue.send_sound(b"two")
    queue.send_activity_end()
    assert await taken(queue) == ["hi", "start", "one", "face", "two", "end"]
    assert queue.dropped == 0


async def test_sound_is_what_the_model_expects() -> None:
    queue = LiveQueue()
    queue.send_sound(b"\1\2")
    blob = (await queue.get()).blob
    assert blob is not None
    assert (blob.data, blob.mime_type) == (b"\1\2", "audio/pcm;rate=16000")


async def test_the_oldest_sound_goes_first() -> None:
    queue = LiveQueue()
    for at in range(BOUND + 3):
        queue.send_sound(str(at).encode())
    assert queue.dropped == 3
    assert await taken(queue) == [str(at) for at in range(3, BOUND + 3)]


async def test_one_picture_is_enough() -> None:
    queue = LiveQueue()
    for name in (b"old", b"older", b"new"):
        queue.send_realtime(picture(name))
    assert queue.dropped == 2
    assert await taken(queue) == ["new"]


async def test_words_and_marks_are_never_dropped() -> None:
    queue = LiveQueue()
    queue.send_activity_start()
    for _ in range(2 * BOUND):
        queue.send_sound(b"la")
        queue.send_content(words("hi"))
    queue.send_activity_end()
    got = await taken(queue)
    assert (got[0], got[-1]) == ("start", "end")
    assert (got.count("hi"), got.count("la")) == (2 * BOUND, BOUND)


async def test_sound_that_was_taken_makes_room() -> None:
    queue = LiveQueue()
    for _ in range(3 * BOUND):
        queue.send_sound(b"la")
        await queue.get()
    assert queue.dropped == 0


async def test_who_waits_is_woken() -> None:
    queue = LiveQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.send_content(words("hi"))
    assert told(await waiting) == "hi"


async def test_nobody_takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(live_queue, "time", SimpleNamespace(monotonic=lambda: now))
    queue = LiveQueue()
    now += 5
    assert queue.neglected() == 0, "nothing waits"
    queue.send_content(words("a"))
    now += 5
    queue.send_content(words("b"))
    assert queue.neglected() == 5, "what comes later does not make it better"
    await queue.get()
    assert queue.neglected() == 0, "somebody takes"
    now += 2
    assert queue.neglected() == 2


async def test_who_has_taken_something_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(live_queue, "time", SimpleNamespace(monotonic=lambda: now))
    queue = LiveQueue()
    queue.send_content(words("a"))
    await queue.get()
    now += 5
    assert queue.neglected() == 5, "it died over what it took"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    now += 50
    assert queue.neglected() == 0, "it waits for more"
    queue.send_content(words("b"))
    await waiting


async def test_sound_that_is_dropped_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(live_queue, "time", SimpleNamespace(monotonic=lambda: now))
    queue = LiveQueue()
    for _ in range(3 * BOUND):
        queue.send_sound(b"la")
        now += 0.02
    assert queue.neglected() == pytest.approx(6)  # pyright: ignore[reportUnknownMemberType]


sent = st.lists(st.sampled_from(["la", "face", "hi", "start", "end", "take"]), max_size=400)


@given(sent)
@settings(max_examples=100, deadline=None)
def test_what_is_taken_is_what_a_list_would_give(acts: list[str]) -> None:
    async def play() -> None:
        queue, wanted = LiveQueue(), list[str]()
        for at, act in enumerate(acts):
            if act == "take":
                if wanted:
                    assert told(await queue.get()) == wanted.pop(0)
                continue
            name = act if act in ("start", "end") else f"{act}{at}"
            _send(queue, act, name)
            wanted.append(name)
            _trim(wanted, act)
        assert await taken(queue) == wanted

    asyncio.run(play())


def _send(queue: LiveQueue, act: str, name: str) -> None:
    match act:
        case "la":
            queue.send_sound(name.encode())
        case "face":
            queue.send_realtime(picture(name.encode()))
        case "hi":
            queue.send_content(words(name))
        case "start":
            queue.send_activity_start()
        case _:
            queue.send_activity_end()


def _trim(wanted: list[str], act: str) -> None:
    """The simple way: of sound and pictures only the newest stay."""
    most = {"la": BOUND, "face": 1}.get(act)
    same = [name for name in wanted if name.startswith(act)]
    if most is not None and len(same) > most:
        wanted.remove(same[0])
