"""The queue of requests to a live model: their order, the bounds, and how long ADK has not read it."""

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


def label(request: LiveRequest) -> str:
    """Return the text or data of a request, or the name of its mark."""
    if request.blob is not None:
        return (request.blob.data or b"").decode()
    if request.content is not None:
        return (request.content.parts or [])[0].text or ""
    if request.activity_start is not None:
        return "start"
    return "end" if request.activity_end is not None else "close"


async def remaining(queue: LiveQueue) -> list[str]:
    """Close the queue and return the labels of all requests in it."""
    queue.close()
    labels: list[str] = []
    while (request := await queue.get()) and not request.close:
        labels.append(label(request))
    return labels


async def test_requests_keep_their_order() -> None:
    queue = LiveQueue()
    queue.send_content(words("hi"))
    queue.send_activity_start()
    queue.send_sound(b"one")
    queue.send_realtime(picture(b"face"))
    queue.send_sound(b"two")
    queue.send_activity_end()
    assert await remaining(queue) == ["hi", "start", "one", "face", "two", "end"]
    assert queue.dropped == 0


async def test_sound_is_what_the_model_expects() -> None:
    queue = LiveQueue()
    queue.send_sound(b"\1\2")
    blob = (await queue.get()).blob
    assert blob is not None
    assert (blob.data, blob.mime_type) == (b"\1\2", "audio/pcm;rate=16000")


async def test_the_oldest_sound_is_dropped() -> None:
    queue = LiveQueue()
    for at in range(BOUND + 3):
        queue.send_sound(str(at).encode())
    assert queue.dropped == 3
    assert await remaining(queue) == [str(at) for at in range(3, BOUND + 3)]


async def test_only_the_newest_picture_is_kept() -> None:
    queue = LiveQueue()
    for name in (b"old", b"older", b"new"):
        queue.send_realtime(picture(name))
    assert queue.dropped == 2
    assert await remaining(queue) == ["new"]


async def test_contents_and_activity_marks_are_never_dropped() -> None:
    queue = LiveQueue()
    queue.send_activity_start()
    for _ in range(2 * BOUND):
        queue.send_sound(b"la")
        queue.send_content(words("hi"))
    queue.send_activity_end()
    labels = await remaining(queue)
    assert (labels[0], labels[-1]) == ("start", "end")
    assert (labels.count("hi"), labels.count("la")) == (2 * BOUND, BOUND)


async def test_sound_that_was_taken_makes_room() -> None:
    queue = LiveQueue()
    for _ in range(3 * BOUND):
        queue.send_sound(b"la")
        await queue.get()
    assert queue.dropped == 0


async def test_a_waiting_get_returns_the_next_request() -> None:
    queue = LiveQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.send_content(words("hi"))
    assert label(await waiting) == "hi"


async def test_neglect_counts_from_the_oldest_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(live_queue, "time", SimpleNamespace(monotonic=lambda: now))
    queue = LiveQueue()
    now += 5
    assert queue.neglected() == 0, "no request waits"
    queue.send_content(words("a"))
    now += 5
    queue.send_content(words("b"))
    assert queue.neglected() == 5, "later requests do not reset it"
    await queue.get()
    assert queue.neglected() == 0, "a request was taken"
    now += 2
    assert queue.neglected() == 2


async def test_neglect_counts_until_the_next_get(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(live_queue, "time", SimpleNamespace(monotonic=lambda: now))
    queue = LiveQueue()
    queue.send_content(words("a"))
    await queue.get()
    now += 5
    assert queue.neglected() == 5, "ADK does not ask for the next one"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    now += 50
    assert queue.neglected() == 0, "ADK waits for the next one"
    queue.send_content(words("b"))
    await waiting


async def test_dropping_sound_does_not_count_as_taking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(live_queue, "time", SimpleNamespace(monotonic=lambda: now))
    queue = LiveQueue()
    for _ in range(3 * BOUND):
        queue.send_sound(b"la")
        now += 0.02
    assert queue.neglected() == pytest.approx(6)  # pyright: ignore[reportUnknownMemberType]


actions = st.lists(st.sampled_from(["la", "face", "hi", "start", "end", "take"]), max_size=400)


@given(actions)
@settings(max_examples=100, deadline=None)
def test_the_queue_against_a_list(actions: list[str]) -> None:
    async def play() -> None:
        queue, expected = LiveQueue(), list[str]()
        for at, action in enumerate(actions):
            if action == "take":
                if expected:
                    assert label(await queue.get()) == expected.pop(0)
                continue
            name = action if action in ("start", "end") else f"{action}{at}"
            _send(queue, action, name)
            expected.append(name)
            _trim(expected, action)
        assert await remaining(queue) == expected

    asyncio.run(play())


def _send(queue: LiveQueue, action: str, name: str) -> None:
    match action:
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


def _trim(expected: list[str], action: str) -> None:
    """Drop the oldest sound or picture when there are too many."""
    most = {"la": BOUND, "face": 1}.get(action)
    same = [name for name in expected if name.startswith(action)]
    if most is not None and len(same) > most:
        expected.remove(same[0])
