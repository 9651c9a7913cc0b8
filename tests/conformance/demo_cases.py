"""Scenarios on the offline demo agent: what its table of intents promises, and the ways a person uses a chat."""

import base64
from typing import Any

from tests.conformance.cases import Case, say
from tests.conformance.expected import ANY, PNG, Check, every, says, speaks, was_stopped
from tests.conformance.records import Record, parts_of, text_of

IMAGE = {
    "type": "file",
    "mediaType": "image/png",
    "filename": "dot.png",
    "url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
}
COUNTED = " ".join(str(n) for n in range(1, 31))
TEA = "I have thought about tea: start small, look closely, and keep going."
SEEN = "You attached image/png, 70 bytes, 1×1 pixels."
CUT = frozenset({"page"})
JAPANESE = {
    "Tokyo": "東京",
    "Paris": "パリ",
    "sunny": "晴れ",
    "partly cloudy": "晴れ時々曇り",
    "cloudy": "曇り",
    "rainy": "雨",
    "windy": "強風",
    "snowy": "雪",
}


def _weather(*places: str, japanese: bool = False, steps: int = 1) -> Check:
    def check(record: Record) -> None:
        answer = record.page.answer
        calls = parts_of(answer, "tool-get_weather")
        assert [part["input"] for part in calls] == [{"location": place} for place in places]
        for part, place in zip(calls, places, strict=True):
            assert part["output"] == {"location": place, "temperature": ANY, "condition": ANY, "humidity": ANY}
        last = calls[-len(places) // steps :]
        assert parts_of(answer, "text")[-1]["text"] == _report([part["output"] for part in last], japanese)
        assert [part["type"] for part in answer["parts"]].count("step-start") == steps + 1

    return check


def _report(found: list[dict[str, Any]], japanese: bool) -> str:
    if japanese:
        return "".join(
            f"{JAPANESE[one['location']]}は現在{one['temperature']}°C、"
            f"{JAPANESE[one['condition']]}、湿度は{one['humidity']}%です。"
            for one in found
        )
    return " ".join(
        f"In {one['location']} it is {one['temperature']} °C and {one['condition']}, with {one['humidity']}% humidity."
        for one in found
    )


def _thinks(record: Record) -> None:
    kinds = [part["type"] for part in record.page.answer["parts"]]
    assert kinds == ["step-start", "reasoning", "text"]


def _draws(record: Record) -> None:
    kinds = [part["type"] for part in record.page.answer["parts"]]
    assert kinds == ["step-start", "tool-draw", "file", "step-start", "text"]
    (picture,) = parts_of(record.page.answer, "file")
    assert picture["mediaType"] == "image/png"
    assert base64.b64decode(picture["url"].partition(",")[2]).startswith(b"\x89PNG")


def _cites(record: Record) -> None:
    assert len(parts_of(record.page.answer, "source-url")) == 2


def _streams(record: Record) -> None:
    deltas = [chunk for chunk in record.page.chunks if chunk["type"] == "text-delta"]
    assert len(deltas) > 5, "an answer comes in pieces"


def _error_is_clean(record: Record) -> None:
    assert "Traceback" not in (record.page.error or "")


def _same_once(record: Record) -> None:
    first, second = record.pages["page"], record.pages["again"]
    assert first.runs == second.runs, "the same message runs once"
    assert first.answer == second.answer


def _regenerated(record: Record) -> None:
    before, after = record.seen["before"], record.page.messages
    assert [m["id"] for m in before[:-1]] == [m["id"] for m in after[:-1]]
    assert before[-1]["id"] != after[-1]["id"], "a new answer is a new message"
    assert text_of(before[-1]) == text_of(after[-1])


def _edited(record: Record) -> None:
    before, after = record.seen["before"], record.page.messages
    assert len(after) == 2
    assert after[0]["id"] == before[0]["id"]
    _weather("Paris")(record)


def _edited_later(record: Record) -> None:
    before, after = record.seen["before"], record.page.messages
    assert before[:2] == after[:2]
    assert [message["id"] for message in after[:3]] == [message["id"] for message in before[:3]]
    _weather("Paris")(record)


def _regenerated_earlier(record: Record) -> None:
    before, after = record.seen["before"], record.page.messages
    assert len(after) == 2
    assert after[0] == before[0]
    assert after[1]["id"] != before[1]["id"]
    _weather("Tokyo")(record)


def _resumed(record: Record) -> None:
    assert record.pages["second"].text == COUNTED
    assert [request["method"] for request in record.pages["second"].requests] == ["GET"]


def _nothing_to_resume(record: Record) -> None:
    assert [request["status"] for request in record.pages["second"].requests] == [204]


def _stopped(record: Record) -> None:
    was_stopped(record)
    counted = text_of(record.history["messages"][1])
    assert counted.startswith("1 2 3")
    assert "30" not in counted
    assert record.seen["stopped"]["history"]["active"] is None


def _stop_was_idle(record: Record) -> None:
    assert record.seen["stop"] == {"status": 202, "body": {"stopped": False}}


CASES = [
    say("weather", "weather in Tokyo", check=_weather("Tokyo")),
    say("weather in Japanese", "東京の天気", check=_weather("Tokyo", japanese=True)),
    say("weather of two cities", "weather in Tokyo and Paris", check=_weather("Tokyo", "Paris")),
    say("weather of two cities in Japanese", "東京とパリの天気", check=_weather("Tokyo", "Paris", japanese=True)),
    say("weather, then weather", "weather in Tokyo then weather in Paris", check=_weather("Tokyo", "Paris", steps=2)),
    say(
        "think",
        "think about tea",
        check=every(_thinks, says(TEA)),
    ),
    say("think in Japanese", "お茶について考えて", check=_thinks),
    say("draw", "draw a cat", check=_draws),
    say("draw in Japanese", "猫の絵を描いて", check=_draws),
    say("count", "count to 30", check=every(says(COUNTED), _streams)),
    say("count in Japanese", "30まで数えて", check=says(COUNTED)),
    say("cite", "cite", check=_cites),
    say("cite in Japanese", "出典は?", check=_cites),
    say("fail", "fail", check=_error_is_clean, error="The agent could not answer"),
    say("fail in Japanese", "失敗して", check=_error_is_clean, error="The agent could not answer"),
    say("anything else", "purple monkey dishwasher", check=speaks),
    say("anything else in Japanese", "こんにちは", check=speaks),
    Case(
        "image",
        "attach",
        {"text": "what is this?", "files": [IMAGE]},
        says(SEEN),
    ),
    Case("image alone", "attach", {"text": "", "files": [IMAGE]}, says(SEEN)),
    say("second turn", "weather in Tokyo", "weather in Paris", check=_weather("Paris")),
    Case(
        "fail, then go on",
        "say",
        {"texts": ["fail", "weather in Tokyo"]},
        _weather("Tokyo"),
        {"page": 2},
        error="The agent could not answer",
        recovers=True,
    ),
    Case("regenerate", "regenerate", {"texts": ["weather in Tokyo", "count to 3"]}, _regenerated, {"page": 3}),
    Case("regenerate the first", "regenerate", {"texts": ["weather in Tokyo"]}, _regenerated, {"page": 2}),
    Case(
        "regenerate after a failure",
        "regenerate",
        {"texts": ["fail"]},
        requests={"page": 2},
        error="The agent could not answer",
    ),
    Case(
        "edit",
        "edit",
        {"texts": ["weather in Tokyo", "count to 3"], "index": 0, "text": "weather in Paris"},
        _edited,
        {"page": 3},
    ),
    Case(
        "edit a later message",
        "edit",
        {"texts": ["count to 3", "weather in Tokyo"], "index": 2, "text": "weather in Paris"},
        _edited_later,
        {"page": 3},
    ),
    Case(
        "regenerate an earlier answer",
        "regenerate",
        {"texts": ["weather in Tokyo", "count to 3"], "index": 1},
        _regenerated_earlier,
        {"page": 3},
    ),
    Case(
        "last message only",
        "say",
        {"texts": ["weather in Tokyo", "weather in Paris"], "lastOnly": True},
        _weather("Paris"),
        {"page": 2},
    ),
    Case(
        "last message only, regenerate",
        "regenerate",
        {"texts": ["count to 3", "weather in Tokyo"], "lastOnly": True},
        _regenerated,
        {"page": 3},
    ),
    Case(
        "last message only, edit",
        "edit",
        {"texts": ["weather in Tokyo", "count to 3"], "index": 0, "text": "weather in Paris", "lastOnly": True},
        _edited,
        {"page": 3},
    ),
    Case("retry after the answer", "retry-after", {"text": "weather in Tokyo"}, _same_once),
    Case("retry at once", "retry-at-once", {"text": "count to 30"}, _same_once),
    Case("resume on load", "resume-running", {"text": "count to 30", "after": "2", "named": True}, _resumed),
    Case("resume when idle", "resume-idle", {"text": "weather in Tokyo"}, _nothing_to_resume),
    Case("close the tab", "disconnect", {"text": "count to 30", "after": "2", "named": True}, _resumed, cut=CUT),
    Case(
        "stop",
        "stop",
        {"text": "count to 1000", "after": "1 2 3", "next": "weather in Tokyo"},
        every(_stopped, _weather("Tokyo")),
        {"page": 2},
        cut=CUT,
    ),
    Case(
        "stop when idle",
        "stop-idle",
        {"text": "count to 3"},
        _stop_was_idle,
    ),
    Case(
        "type over a running answer",
        "replace",
        {"text": "count to 1000", "after": "1 2 3", "next": "weather in Tokyo"},
        _weather("Tokyo"),
        {"page": 2},
        cut=CUT,
    ),
]
