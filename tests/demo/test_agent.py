import asyncio
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.models.google_llm import Gemini
from google.adk.tools.function_tool import FunctionTool
from google.genai import Client, types

from adkwire.demo import agent as demo
from adkwire.demo.offline_model import SOURCES, OfflineModel, OfflineModelError
from adkwire.demo.tools import draw, get_weather
from adkwire.testing import GeminiEmulator, Say
from tests.testing.agent_live_run import AgentLiveRun, words
from tests.testing.agent_session import AgentSession, calls, parts, results, texts


def demo_agent() -> LlmAgent:
    agent = demo.build_agent({})
    assert isinstance(agent.model, OfflineModel)
    agent.model.delay = 0
    return agent


@pytest.fixture
def session() -> AgentSession:
    return AgentSession(demo_agent())


def called(events: Sequence[Event]) -> list[tuple[str | None, dict[str, Any] | None]]:
    return [(call.name, call.args) for call in calls(events)]


async def test_weather(session: AgentSession) -> None:
    events = await session.say("weather in Tokyo")
    assert called(events) == [("get_weather", {"location": "Tokyo"})]
    [result] = results(events)
    assert result.response == await get_weather("Tokyo")
    assert result.response is not None
    answer = texts(events)[-1]
    assert answer == "".join(texts(events, partial=True))
    assert str(result.response["temperature"]) in answer
    assert str(result.response["humidity"]) in answer


async def test_weather_in_japanese_in_a_resumable_app() -> None:
    events = await AgentSession(demo_agent(), resumable=True).say("東京とパリの天気")
    assert called(events) == [("get_weather", {"location": "Tokyo"}), ("get_weather", {"location": "Paris"})]
    assert len([event for event in events if event.get_function_responses()]) == 1
    [answer] = texts(events)
    assert answer.startswith("東京は現在")
    assert "。パリは現在" in answer


async def test_weather_is_the_same_in_every_process() -> None:
    assert await get_weather("Tokyo") == {
        "location": "Tokyo",
        "temperature": 28,
        "condition": "windy",
        "humidity": 48,
    }
    assert await get_weather(" tokyo ") == {**await get_weather("Tokyo"), "location": " tokyo "}


async def test_a_drawing_comes_as_media_of_the_tool_response(session: AgentSession) -> None:
    events = await session.say("draw a cat")
    assert called(events) == [("draw", {"subject": "cat"})]
    [result] = results(events)
    assert result.response == {"subject": "cat"}
    assert result.parts
    image = result.parts[0].inline_data
    assert image
    assert image.mime_type == "image/png"
    assert texts(events) == ["Here is the picture you asked for: cat."]


@pytest.mark.parametrize("subject", ["cat", "猫", "the sea", ""])
async def test_a_drawing_is_a_png(subject: str) -> None:
    png = (await draw(subject))["image"].inline_data.data
    assert len(png) < 60_000
    pixels = _decoded(png)
    assert len(pixels) == 320 * (1 + 512 * 3)
    assert len(set(pixels)) > 50
    assert png == (await draw(subject))["image"].inline_data.data


def _decoded(png: bytes) -> bytes:
    """The raw scanlines of a PNG, checksums verified."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(kind + body),)
        if kind == b"IHDR":
            assert struct.unpack_from(">IIBB", body) == (512, 320, 8, 2)
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    return zlib.decompress(data)


async def test_pictures_differ() -> None:
    png = [(await draw(subject))["image"].inline_data.data for subject in ("cat", "sea", "house")]
    assert len(set(png)) == 3


async def test_counting_is_one_chunk_per_number(session: AgentSession) -> None:
    events = await session.say("count to 12")
    pieces = texts(events, partial=True)
    assert [piece.strip() for piece in pieces] == [str(number) for number in range(1, 13)]
    assert texts(events) == ["1 2 3 4 5 6 7 8 9 10 11 12"]


async def test_thinking_is_reasoning_then_text(session: AgentSession) -> None:
    events = await session.say("think about rain")
    [final] = [event for event in events if not event.partial]
    assert [bool(part.thought) for part in parts([final])] == [True, False]
    assert "rain" in "".join(texts(events, partial=True, thought=True))
    assert "rain" in texts(events)[0]


async def test_cite_has_two_sources(session: AgentSession) -> None:
    final = (await session.say("cite"))[-1]
    assert final.grounding_metadata
    pages = [chunk.web for chunk in final.grounding_metadata.grounding_chunks or []]
    assert [(page.uri, page.title) for page in pages if page] == [(s.uri, s.title) for s in SOURCES]
    assert len(pages) == 2


async def test_fail_raises_and_the_chat_goes_on(session: AgentSession) -> None:
    with pytest.raises(OfflineModelError):
        await session.say("fail")
    assert texts(await session.say("count to 1")) == ["1"]


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + bytes(9)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
# An application segment, then a fill byte, come before the frame header.
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", 480, 640)
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + bytes(7) + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 639 | 479 << 14)
WEBP_EXTENDED = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


def attached(media_type: str, data: bytes) -> types.Part:
    return types.Part(inline_data=types.Blob(mime_type=media_type, data=data))


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", PNG),
        ("image/gif", GIF),
        ("image/jpeg", JPEG),
        ("image/webp", WEBP_LOSSY),
        ("image/webp", WEBP_LOSSLESS),
        ("image/webp", WEBP_EXTENDED),
    ],
)
async def test_an_attached_image_is_described(session: AgentSession, media_type: str, data: bytes) -> None:
    events = await session.say("look", attached(media_type, data))
    assert texts(events) == [f"You attached {media_type}, {len(data)} bytes, 640×480 pixels."]


@pytest.mark.parametrize("data", [PNG[:18], JPEG[:9], b"\xff\xd8\xff", WEBP_LOSSY[:20], b"RIFF", b"hello", b"x"])
async def test_a_broken_image_has_no_dimensions(session: AgentSession, data: bytes) -> None:
    events = await session.say("見て", attached("image/png", data))
    assert texts(events) == [f"添付ファイルはimage/png、{len(data)}バイトです。"]


async def test_an_image_and_a_wish_in_one_message(session: AgentSession) -> None:
    events = await session.say(attached("image/png", PNG), "weather in Rome")
    assert texts(events)[0].startswith("You attached image/png")
    assert called(events) == [("get_weather", {"location": "Rome"})]
    assert texts(events)[1].startswith("In Rome")


async def test_anything_else_names_what_the_agent_can_do(session: AgentSession) -> None:
    [english] = texts(await session.say("hello"))
    assert "weather in Tokyo" in english
    assert "draw a cat" in english
    assert "pay 50 to Hanako" in english
    [japanese] = texts(await session.say("こんにちは"))
    assert "東京の天気" in japanese


async def test_a_tool_the_agent_does_not_have_is_named() -> None:
    session = AgentSession(LlmAgent(name="demo", model=OfflineModel(delay=0), tools=[get_weather]))
    assert "pay" not in texts(await session.say("hello"))[0]
    assert texts(await session.say("pay 5 to Eve")) == [
        "This agent does not have the tool process_payment, so I cannot do that."
    ]
    assert texts(await session.say("BGMを1に")) == [
        "このエージェントには change_bgm というツールがないため、対応できません。"
    ]
    events = await session.say("where am I and weather in Paris")
    assert "get_location" in texts(events)[0]
    assert called(events) == [("get_weather", {"location": "Paris"})]


def process_payment(amount: float, recipient: str, currency: str = "USD") -> dict[str, Any]:
    """Pay someone."""
    return {"amount": amount, "recipient": recipient, "currency": currency, "transaction_id": "T-1"}


def get_timezone() -> dict[str, Any]:
    """Tell the time."""
    return {"timezone": "Asia/Tokyo", "local_time": "12:34"}


def full_agent(*, asks: bool = False) -> LlmAgent:
    payment = FunctionTool(process_payment, require_confirmation=asks)
    return LlmAgent(name="demo", model=OfflineModel(delay=0), tools=[get_weather, payment, get_timezone, broken])


def broken() -> None:
    """Unused: an agent may have tools the model has no words for."""


async def test_three_kinds_of_call_in_one_step() -> None:
    events = await AgentSession(full_agent()).say("pay 5 to Eve, what time is it and weather in Paris")
    [step] = [event for event in events if not event.partial and event.get_function_calls()]
    assert called([step]) == [
        ("process_payment", {"amount": 5, "recipient": "Eve"}),
        ("get_timezone", {}),
        ("get_weather", {"location": "Paris"}),
    ]
    [answer] = texts(events)
    assert answer.startswith("I paid 5 USD to Eve (transaction T-1). It is 12:34 where you are (Asia/Tokyo). In Paris ")


async def test_then_means_a_later_step() -> None:
    events = await AgentSession(full_agent(), resumable=True).say("weather in Paris, then pay 5 to Eve")
    steps = [event for event in events if not event.partial and event.get_function_calls()]
    assert [called([step])[0][0] for step in steps] == ["get_weather", "process_payment"]
    first, second = texts(events)
    assert first.startswith("In Paris")
    assert second == "I paid 5 USD to Eve (transaction T-1)."


@pytest.mark.parametrize(
    ("sentence", "approved", "expected"),
    [
        ("pay 5 to Eve", True, "I paid 5 USD to Eve (transaction T-1)."),
        ("pay 5 to Eve", False, "You refused, so I did not make the payment."),
        ("花子に50ドル送金", False, "許可されなかったため、送金は行いませんでした。"),
    ],
)
async def test_a_verdict_is_answered_in_one_sentence(sentence: str, approved: bool, expected: str) -> None:
    session = AgentSession(full_agent(asks=True), resumable=True)
    [ask] = [call for call in calls(await session.say(sentence)) if call.name == "adk_request_confirmation"]
    verdict = types.FunctionResponse(id=ask.id, name=ask.name, response={"confirmed": approved})
    [answer] = texts(await session.say(types.Part(function_response=verdict)))
    assert answer == expected


async def test_one_model_serves_chats_at_the_same_time() -> None:
    agent = demo_agent()
    places = ["Tokyo", "Paris", "Rome"]
    sessions = [AgentSession(agent, session_id=place) for place in places]
    outcomes = await asyncio.gather(
        *(session.say(f"weather in {place}") for session, place in zip(sessions, places, strict=True))
    )
    assert [texts(events)[0].split()[1] for events in outcomes] == places


def test_a_key_switches_to_gemini() -> None:
    assert demo.is_offline({})
    assert demo.is_offline({"GOOGLE_API_KEY": ""})
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        agent = demo.build_agent({key: "k"})
        assert not demo.is_offline({key: "k"})
        assert isinstance(agent.canonical_model, Gemini)
        assert agent.canonical_model.model == demo.DEFAULT_MODEL


@pytest.mark.parametrize(
    ("chosen", "writes", "speaks"),
    [
        ({}, demo.DEFAULT_MODEL, demo.DEFAULT_LIVE_MODEL),
        (
            {"ADKWIRE_MODEL": "gemini-x", "ADKWIRE_LIVE_MODEL": "gemini-3.9-live-x"},
            "gemini-x",
            "gemini-3.9-live-x",
        ),
    ],
)
async def test_gemini_uses_one_model_for_text_and_another_for_live(
    chosen: dict[str, str], writes: str, speaks: str
) -> None:
    agent = demo.build_agent({"GOOGLE_API_KEY": "k", **chosen})
    assert isinstance(agent.model, Gemini)
    async with GeminiEmulator([[Say("Written.")]], live=[[Say("Spoken.")]]) as gemini:
        with Client(**gemini.model_kwargs["client_kwargs"]) as client:
            agent.model.client = client
            async with client.aio, AgentLiveRun(agent, "AUDIO") as run:
                assert texts(await AgentSession(agent).say("hi"))[-1] == "Written."
                run.type("hi")
                events = await run.until(lambda event: event.turn_complete)
    assert [words(event) for event in events if event.output_transcription and not event.partial] == ["Spoken."]
    assert [request.model for request in gemini.requests] == [writes]
    assert [session.model for session in gemini.live.sessions] == [speaks]


def test_the_module_has_a_root_agent_as_adk_expects() -> None:
    assert demo.root_agent is demo.root_agent
    assert demo.root_agent.name == "demo"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = demo.no_such_name
