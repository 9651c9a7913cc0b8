"""What was heard of what is being said, by the sound of it."""

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
from tests.live.live_house import Ear, House, Reader, house

MS = 48
WORDS = "alpha beta gamma delta "
ME, OTHER = (None, "agent"), (None, "other")
THOUGHT = Unsaved("agent", None, [("reasoning", "secret plan ")])


def aloud(text: str, author: str = "agent") -> Unsaved:
    return Unsaved(author, None, [("text", text)], speech=True)


def spoken(*speeches: int, generation: int = 7) -> TurnSound:
    """TurnSound of so many milliseconds, of which the last is being said."""
    turn = TurnSound(generation)
    for ms in speeches:
        turn.end_speech()
        turn.begin_speech(ME)
        turn.add(ms * MS)
    return turn


@pytest.mark.parametrize(
    ("turn", "played", "kept"),
    [
        pytest.param(spoken(100), (7, 0), "", id="nothing"),
        pytest.param(spoken(100), (7, 50), "alpha beta ", id="half"),
        pytest.param(spoken(100), (7, 22), "alpha ", id="to the end of a word"),
        pytest.param(spoken(100), (7, 100), None, id="all"),
        pytest.param(spoken(100), (7, 999), None, id="more than there is"),
        pytest.param(spoken(100), None, None, id="nobody says"),
        pytest.param(spoken(100), (6, 50), None, id="of another generation"),
        pytest.param(spoken(300, 100), (7, 100), "", id="not even all of the first"),
        pytest.param(spoken(300, 100), (7, 300), "", id="just the first"),
        pytest.param(spoken(300, 100), (7, 350), "alpha beta ", id="half of the second"),
        pytest.param(spoken(300, 100, 0), (7, 350), "", id="it does not sound yet"),
    ],
)
def test_what_is_kept(turn: TurnSound, played: tuple[int, int] | None, kept: str | None) -> None:
    cut = turn.heard_text([THOUGHT, aloud(WORDS)], Played(*played) if played is not None else None)
    assert cut == (None if kept is None else HeardText("agent", None, speech=True, text=kept))


def test_words_without_spaces() -> None:
    cut = spoken(100).heard_text([aloud("今日は晴れです")], Played(7, 43))
    assert cut is not None
    assert cut.text == "今日は"


def test_all_of_a_speech_may_be_heard_a_moment_before_its_end() -> None:
    assert spoken(1000).heard_text([aloud("alpha beta")], Played(7, 999)) is None


def test_places_begin_anew_with_a_generation_and_the_sum_goes_on() -> None:
    turn = spoken(100)
    turn.interrupt()
    assert (turn.generation, turn.position, turn.ms) == (None, 0, 100)
    turn.generation = 9
    turn.begin_speech(ME)
    turn.add(40 * MS)
    assert (turn.position, turn.ms, turn.chunks) == (40, 140, 2)
    cut = turn.heard_text([aloud(WORDS)], Played(9, 20))
    assert cut is not None
    assert cut.text == "alpha beta "


def test_who_takes_the_floor_says_something_else() -> None:
    turn = spoken(100)
    turn.begin_speech(OTHER)
    turn.add(100 * MS)
    unsaved = [aloud("I ask another one. "), aloud(WORDS, "other")]
    cut = turn.heard_text(unsaved, Played(7, 150))
    assert cut == HeardText("other", None, speech=True, text="alpha beta ")
    assert [cut.apply(each) for each in unsaved] == [unsaved[0], aloud("alpha beta ", "other")]


def test_what_is_written_while_it_sounds_is_cut_and_thoughts_are_not() -> None:
    written = Unsaved("agent", None, [("text", "alpha "), ("reasoning", "hm "), ("text", "beta gamma delta ")])
    cut = spoken(100).heard_text([written], Played(7, 50))
    assert cut is not None
    assert cut.text == "alpha beta "
    assert cut.apply(written).parts == [("text", "alpha "), ("reasoning", "hm "), ("text", "beta ")]


@pytest.mark.parametrize(
    "unsaved",
    [
        pytest.param([], id="all is stored"),
        pytest.param([THOUGHT], id="it thinks"),
        pytest.param([aloud(WORDS, "other")], id="somebody else's"),
        pytest.param([Unsaved("agent", None, [("text", WORDS)])], id="written, and not said"),
    ],
)
def test_what_is_not_being_said_is_not_cut(unsaved: list[Unsaved]) -> None:
    assert spoken(100, 0).heard_text(unsaved, Played(7, 50)) is None


@pytest.mark.parametrize(
    ("known", "told", "then"),
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
def test_who_has_heard_most_counts(known: tuple[int, int] | None, told: tuple[int, int], then: tuple[int, int]) -> None:
    assert furthest(Played(*known) if known is not None else None, Played(*told)) == then


# In a conversation: each word of the scripted model sounds for 40 ms.


async def cut_at(here: House, answer: Reader, ms: int) -> str | None:
    """Interrupt when so much was heard of the last generation; what the clients are told to keep."""
    here.link.played(here.ear.sounds[-1][0], ms)
    await here.link.interrupt()
    await answer.rest()
    return here.ear.interruptions[-1][2]


async def texts(here: House) -> list[str]:
    return [part["text"] for part in (await here.messages())[-1]["parts"] if part["type"] == "text"]


@pytest.mark.parametrize(("ms", "kept"), [(240, "alpha beta "), (80, "")])
async def test_what_was_heard_of_the_second_speech(ms: int, kept: str) -> None:
    turns = [[Say("a b c d "), Call("weather", {"place": "x"})], [Say(WORDS), Wait(asyncio.Event())]]
    async with house(turns) as here:
        answer = await (await here.say("speak")).until(lambda me: "delta" in me.text)
        assert await cut_at(here, answer, ms) == kept
        assert await texts(here) == ["a b c d ", kept][: 1 + bool(kept)]


async def test_what_was_heard_after_a_hush() -> None:
    held = asyncio.Event()
    turns = [[Call("pay", {"amount": 1})], [Say("a b c d "), Wait(held)], [Say(WORDS), Wait(held)]]
    async with house(turns, manner=Manner(blocking=False, hears=lambda sound: "hm")) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.activity(start=True)
        here.link.audio(bytes(640))
        await here.link.activity(start=False)
        await answer.until(lambda me: "d " in me.text)
        await here.link.interrupt()
        await answer.until_break()
        await here.answer("pay", UncheckedAnswer(approved=True))
        await answer.until(lambda me: "delta" in me.text)
        last = here.ear.sounds[-1][0]
        assert [position for generation, position, *_ in here.ear.sounds if generation == last] == [0, 40, 80, 120]
        assert await cut_at(here, answer, 80) == "alpha beta "
        assert await texts(here) == ["a b c d ", "alpha beta "]


async def test_a_thought_stays_a_thought() -> None:
    thought = types.Content(role="model", parts=[types.Part(text="secret plan ", thought=True)])
    begins, ends = [Raw(LlmResponse(content=thought, partial=partial)) for partial in (True, False)]
    turns = [[begins, Say("alpha beta "), ends, Say("gamma delta "), Wait(asyncio.Event())]]
    async with house(turns) as here:
        answer = await (await here.say("speak")).until(lambda me: "delta" in me.text)
        assert await cut_at(here, answer, 80) == "alpha beta "
        parts = (await here.messages())[-1]["parts"]
        said = [(part["type"], part["text"]) for part in parts if "text" in part]
        assert said == [("reasoning", "secret plan "), ("text", "alpha beta ")]


@pytest.mark.parametrize("other", ["an older one", "one that is yet to come"])
async def test_another_window_is_at_another_generation(other: str) -> None:
    async with house([[Say("One.")], [Say(WORDS), Wait(asyncio.Event())]]) as here:
        link = await here.join(Ear())
        await (await here.say("hi")).rest()
        answer = await (await here.say("speak")).until(lambda me: "delta" in me.text)
        first, last = here.ear.sounds[0][0], here.ear.sounds[-1][0]
        here.link.played(last, 80)
        link.played(first if other == "an older one" else last + 1, 20)
        await here.link.interrupt()
        await answer.rest()
        assert here.ear.interruptions[-1][2] == "alpha beta "


async def test_what_was_said_to_its_end_is_kept_and_its_sound_is_void() -> None:
    async with house([[Say(WORDS)]]) as here:
        answer = await (await here.say("speak")).rest()
        assert await cut_at(here, answer, 80) is None
        assert len(here.ear.interruptions) == 1
        assert await texts(here) == [WORDS]


async def test_the_microphone_is_taken_in_mid_sentence() -> None:
    async with house([[Say("One.")], [Say("Two.")]]) as here:
        link = await here.join(Ear())
        await here.link.activity(start=True)
        await link.activity(start=True)
        await link.activity(start=False)
        connection = await here.model.connected()
        await connection.until(lambda it: it.marks.count("activity_start") == 2 and it.marks[-1] == "activity_end")
        assert connection.marks == ["activity_start", "activity_end"] * 2
