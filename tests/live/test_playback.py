"""The words of a speech that were heard, as far as clients have played its sound."""

import asyncio

import pytest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.gate.records import UncheckedAnswer
from adkwire.live.playback import HeardText, Played, TurnSound, furthest
from adkwire.testing import Call, Say, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.steps import Raw
from adkwire.wire.encode.unsaved import Unsaved
from tests.live.live_chat import LiveChat, Reader, RecordingListener, live_chat

MS = 48
"""Bytes of a millisecond of sound."""
WORDS = "alpha beta gamma delta "
AGENT, OTHER = (None, "agent"), (None, "other")
THOUGHT = Unsaved("agent", None, [("reasoning", "secret plan ")])


def transcript(text: str, author: str = "agent") -> Unsaved:
    return Unsaved(author, None, [("text", text)], speech=True)


def sound_of(*speeches: int, generation: int = 7) -> TurnSound:
    """Return the sound of speeches of so many milliseconds. The last speech is the current one."""
    sound = TurnSound(generation)
    for ms in speeches:
        sound.end_speech()
        sound.begin_speech(AGENT)
        sound.add(ms * MS)
    return sound


@pytest.mark.parametrize(
    ("sound", "played", "kept"),
    [
        pytest.param(sound_of(100), (7, 0), "", id="nothing"),
        pytest.param(sound_of(100), (7, 50), "alpha beta ", id="half"),
        pytest.param(sound_of(100), (7, 22), "alpha ", id="to the end of a word"),
        pytest.param(sound_of(100), (7, 100), None, id="all"),
        pytest.param(sound_of(100), (7, 999), None, id="more than there is"),
        pytest.param(sound_of(100), None, None, id="no report"),
        pytest.param(sound_of(100), (6, 50), None, id="of another generation"),
        pytest.param(sound_of(300, 100), (7, 100), "", id="a part of the first"),
        pytest.param(sound_of(300, 100), (7, 300), "", id="all of the first"),
        pytest.param(sound_of(300, 100), (7, 350), "alpha beta ", id="half of the second"),
        pytest.param(sound_of(300, 100, 0), (7, 350), "", id="the third has no sound yet"),
    ],
)
def test_words_that_were_heard(sound: TurnSound, played: tuple[int, int] | None, kept: str | None) -> None:
    heard = sound.heard_text([THOUGHT, transcript(WORDS)], Played(*played) if played is not None else None)
    assert heard == (None if kept is None else HeardText("agent", None, speech=True, text=kept))


def test_heard_words_of_a_language_without_spaces() -> None:
    heard = sound_of(100).heard_text([transcript("今日は晴れです")], Played(7, 43))
    assert heard is not None
    assert heard.text == "今日は"


def test_a_speech_counts_as_heard_a_moment_before_its_end() -> None:
    assert sound_of(1000).heard_text([transcript("alpha beta")], Played(7, 999)) is None


def test_positions_count_from_zero_in_a_new_generation() -> None:
    sound = sound_of(100)
    sound.interrupt()
    assert (sound.generation, sound.position, sound.ms) == (None, 0, 100)
    sound.generation = 9
    sound.begin_speech(AGENT)
    sound.add(40 * MS)
    assert (sound.position, sound.ms, sound.chunks) == (40, 140, 2)
    heard = sound.heard_text([transcript(WORDS)], Played(9, 20))
    assert heard is not None
    assert heard.text == "alpha beta "


def test_only_words_of_the_last_speaker_are_cut() -> None:
    sound = sound_of(100)
    sound.begin_speech(OTHER)
    sound.add(100 * MS)
    unsaved = [transcript("I ask another one. "), transcript(WORDS, "other")]
    heard = sound.heard_text(unsaved, Played(7, 150))
    assert heard == HeardText("other", None, speech=True, text="alpha beta ")
    assert [heard.apply(each) for each in unsaved] == [unsaved[0], transcript("alpha beta ", "other")]


def test_text_beside_sound_is_cut_and_thoughts_are_not() -> None:
    written = Unsaved("agent", None, [("text", "alpha "), ("reasoning", "hm "), ("text", "beta gamma delta ")])
    heard = sound_of(100).heard_text([written], Played(7, 50))
    assert heard is not None
    assert heard.text == "alpha beta "
    assert heard.apply(written).parts == [("text", "alpha "), ("reasoning", "hm "), ("text", "beta ")]


@pytest.mark.parametrize(
    "unsaved",
    [
        pytest.param([], id="nothing unsaved"),
        pytest.param([THOUGHT], id="a thought"),
        pytest.param([transcript(WORDS, "other")], id="of another agent"),
        pytest.param([Unsaved("agent", None, [("text", WORDS)])], id="text without sound"),
    ],
)
def test_words_outside_the_current_speech_are_not_cut(unsaved: list[Unsaved]) -> None:
    assert sound_of(100, 0).heard_text(unsaved, Played(7, 50)) is None


@pytest.mark.parametrize(
    ("before", "reported", "after"),
    [
        (None, (3, 10), (3, 10)),
        ((3, 10), (3, 20), (3, 20)),
        ((3, 20), (3, 10), (3, 20)),
        ((3, 20), (4, 10), (4, 10)),
        ((4, 10), (3, 20), (4, 10)),
        ((65535, 20), (1, 10), (1, 10)),
        ((1, 10), (65535, 20), (1, 10)),
    ],
)
def test_the_furthest_report_of_playback_counts(
    before: tuple[int, int] | None, reported: tuple[int, int], after: tuple[int, int]
) -> None:
    assert furthest(Played(*before) if before is not None else None, Played(*reported)) == after


# In a conversation. The sound of each word of the scripted model lasts 40 ms.


async def interrupt_at(chat: LiveChat, answer: Reader, ms: int) -> str | None:
    """Interrupt when so much of the last generation was played; return the words that the clients keep."""
    chat.link.played(chat.listener.sounds[-1][0], ms)
    await chat.link.interrupt()
    await answer.rest()
    return chat.listener.interruptions[-1][2]


async def texts(chat: LiveChat) -> list[str]:
    return [part["text"] for part in (await chat.messages())[-1]["parts"] if part["type"] == "text"]


@pytest.mark.parametrize(("ms", "kept"), [(240, "alpha beta "), (80, "")])
async def test_heard_words_of_the_second_speech(ms: int, kept: str) -> None:
    turns = [[Say("a b c d "), Call("weather", {"place": "x"})], [Say(WORDS), Wait(asyncio.Event())]]
    async with live_chat(turns) as chat:
        answer = await (await chat.send("speak")).until(lambda reader: "delta" in reader.text)
        assert await interrupt_at(chat, answer, ms) == kept
        assert await texts(chat) == ["a b c d ", kept][: 1 + bool(kept)]


async def test_heard_words_after_an_interruption_beside_a_held_call() -> None:
    held = asyncio.Event()
    turns = [[Call("pay", {"amount": 1})], [Say("a b c d "), Wait(held)], [Say(WORDS), Wait(held)]]
    async with live_chat(turns, manner=Manner(blocking=False, hears=lambda sound: "hm")) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.speak()
        await answer.until(lambda reader: "d " in reader.text)
        await chat.link.interrupt()
        await answer.until_break()
        await chat.answer("pay", UncheckedAnswer(approved=True))
        await answer.until(lambda reader: "delta" in reader.text)
        last = chat.listener.sounds[-1][0]
        assert [position for generation, position, *_ in chat.listener.sounds if generation == last] == [0, 40, 80, 120]
        assert await interrupt_at(chat, answer, 80) == "alpha beta "
        assert await texts(chat) == ["a b c d ", "alpha beta "]


async def test_a_thought_is_not_cut_by_an_interruption() -> None:
    thought = types.Content(role="model", parts=[types.Part(text="secret plan ", thought=True)])
    begins, ends = [Raw(LlmResponse(content=thought, partial=partial)) for partial in (True, False)]
    turns = [[begins, Say("alpha beta "), ends, Say("gamma delta "), Wait(asyncio.Event())]]
    async with live_chat(turns) as chat:
        answer = await (await chat.send("speak")).until(lambda reader: "delta" in reader.text)
        assert await interrupt_at(chat, answer, 80) == "alpha beta "
        parts = (await chat.messages())[-1]["parts"]
        texts = [(part["type"], part["text"]) for part in parts if "text" in part]
        assert texts == [("reasoning", "secret plan "), ("text", "alpha beta ")]


@pytest.mark.parametrize("other", ["an older one", "a later one"])
async def test_a_report_about_another_generation_is_ignored(other: str) -> None:
    async with live_chat([[Say("One.")], [Say(WORDS), Wait(asyncio.Event())]]) as chat:
        link = await chat.join(RecordingListener())
        await (await chat.send("hi")).rest()
        answer = await (await chat.send("speak")).until(lambda reader: "delta" in reader.text)
        first, last = chat.listener.sounds[0][0], chat.listener.sounds[-1][0]
        chat.link.played(last, 80)
        link.played(first if other == "an older one" else last + 1, 20)
        await chat.link.interrupt()
        await answer.rest()
        assert chat.listener.interruptions[-1][2] == "alpha beta "


async def test_an_interruption_after_the_end_drops_sound_and_keeps_words() -> None:
    async with live_chat([[Say(WORDS)]]) as chat:
        answer = await (await chat.send("speak")).rest()
        assert await interrupt_at(chat, answer, 80) is None
        assert len(chat.listener.interruptions) == 1
        assert await texts(chat) == [WORDS]


async def test_taking_the_microphone_ends_the_speech_of_the_other_client() -> None:
    async with live_chat([[Say("One.")], [Say("Two.")]]) as chat:
        link = await chat.join(RecordingListener())
        await chat.link.activity(start=True)
        await link.activity(start=True)
        await link.activity(start=False)
        connection = await chat.model.connected()
        await connection.until(lambda it: it.marks.count("activity_start") == 2 and it.marks[-1] == "activity_end")
        assert connection.marks == ["activity_start", "activity_end"] * 2
