"""ADK stores an event before it is shown: whatever somebody does just then, page and history agree."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from google.adk.events.event import Event
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session

from adkwire.testing import Say
from adkwire.testing.speech import Manner
from tests.runs.live_house import CHAT, ME, House, Modality, Reader, house

Moment = Callable[[Event], bool]


def is_final(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or []
    said = event.output_transcription is not None or any(part.text for part in parts)
    return event.author != "user" and said


def is_end(event: Event) -> bool:
    return event.turn_complete is True


class Eventful(InMemorySessionService):
    """Begins to do something when a certain event was stored, before anybody has seen it."""

    def __init__(self) -> None:
        super().__init__()
        self.when: Moment = lambda event: False
        self.act: Callable[[], Awaitable[None]] | None = None
        self.done: asyncio.Task[None] | None = None

    async def append_event(self, session: Session, event: Event) -> Event:
        stored = await super().append_event(session, event)
        if self.act is not None and self.done is None and self.when(event):
            self.done = asyncio.ensure_future(self.act())
            await asyncio.sleep(0)
        return stored


@pytest.mark.parametrize("turn", ["first", "second"])
@pytest.mark.parametrize("modality", ["text", "audio"])
@pytest.mark.parametrize("when", [is_final, is_end], ids=["words", "end"])
@pytest.mark.parametrize("how", ["interrupt", "stop", "type", "speak"])
async def test_cut_between_storing_and_showing(how: str, when: Moment, modality: Modality, turn: str) -> None:
    sessions, before = Eventful(), [[Say("Zero.")]] if turn == "second" else []
    turns = [*before, [Say("One two three.")], [Say("Next.")]]
    async with house(turns, modality, manner=Manner(hears=lambda sound: "hm"), sessions=sessions) as here:
        for _ in before:
            await (await here.say("hi")).rest()
        after: list[Reader] = []
        sessions.when, sessions.act = when, lambda: cut(here, how, answer, after)
        answer = await here.say("count")
        await answer.rest()
        assert sessions.done is not None
        await sessions.done
        if how == "speak":
            await here.ear.until(lambda ear: ear.turns)
            after.append(Reader(here.bridge, here.ear.turns[0][0]))
        elif not after:
            after.append(await here.say("go on"))
        await after[0].rest()
        assert (answer.text, after[0].text) == ("One two three.", "Next.")
        await here.agrees_with(answer, after[0])
        assert [message["role"] for message in await here.messages()] == ["user", "assistant"] * len(turns)


async def cut(here: House, how: str, answer: Reader, after: list[Reader]) -> None:
    match how:
        case "interrupt":
            await here.link.interrupt()
        case "stop":
            await here.bridge.stop(ME, CHAT, answer.run.id)
        case "type":
            after.append(await here.say("go on"))
        case _:
            await here.link.activity(start=True)
            here.link.audio(bytes(3200))
            await here.link.activity(start=False)
