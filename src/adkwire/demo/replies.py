"""The sentences of the offline model's answers, in English and Japanese. Pure: facts in, text out."""

import json
import math
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal, cast

from adkwire.demo import known_names
from adkwire.wire.media import dimensions, sniff

Language = Literal["en", "ja"]

_DONE: dict[str, dict[Language, str]] = {
    "get_weather": {
        "en": "In {location} it is {temperature} °C and {condition}, with {humidity}% humidity.",
        "ja": "{location}は現在{temperature}°C、{condition}、湿度は{humidity}%です。",
    },
    "process_payment": {
        "en": "I paid {amount} {currency} to {recipient} (transaction {transaction_id}).",
        "ja": "{recipient}さんに{amount} {currency}を送金しました(取引番号 {transaction_id})。",
    },
    "get_location": {
        "en": "You are at latitude {latitude}, longitude {longitude}, within {accuracy} m.",
        "ja": "現在地は緯度{latitude}、経度{longitude}です(誤差{accuracy} m)。",
    },
    "get_timezone": {
        "en": "It is {local_time} where you are ({timezone}).",
        "ja": "現在の時刻は{local_time}です({timezone})。",
    },
    "change_bgm": {"en": "Track {track} is playing now.", "ja": "トラック{track}を再生しています。"},
    "draw": {"en": "Here is the picture you asked for: {subject}.", "ja": "「{subject}」の絵を描きました。"},
}

_TASKS: dict[str, dict[Language, str]] = {
    "get_weather": {"en": "get the weather", "ja": "天気の取得"},
    "process_payment": {"en": "make the payment", "ja": "送金"},
    "get_location": {"en": "find your location", "ja": "現在地の取得"},
    "get_timezone": {"en": "find your local time", "ja": "時刻の取得"},
    "change_bgm": {"en": "change the music", "ja": "BGMの変更"},
    "draw": {"en": "draw the picture", "ja": "絵の作成"},
}

# Sentences for a call that was not executed, or whose outcome is unknown, by a pattern of the error in its result.
_UNEXECUTED: list[tuple[str, dict[Language, str]]] = [
    (
        r"(?:user|person) (?:refused|rejected|denied) (?:this|the) (?:tool )?call\b|\btool call is rejected",
        {
            "en": "You refused, so I did not {task}{reason}.",
            "ja": "許可されなかったため、{task}は行いませんでした{reason}。",
        },
    ),
    (
        r"\bnobody answered\b|\bcall (?:has )?expired\b",
        {
            "en": "Nobody answered in time, so I did not {task}.",
            "ja": "時間内に回答がなかったため、{task}は行いませんでした。",
        },
    ),
    (
        r"\bwent on without\b|\bsuperseded\b",
        {
            "en": "You went on without answering, so I did not {task}.",
            "ja": "回答がないまま会話が進んだため、{task}は行いませんでした。",
        },
    ),
    (
        r"\bwent on before\b",
        {
            "en": "You went on before it ran, so I did not {task}.",
            "ja": "実行前に会話が進んだため、{task}は行いませんでした。",
        },
    ),
    (
        r"\b(?:outcome|fate)\b.*\bunknown\b|\bis not known\b",
        {
            "en": "I do not know whether I could {task}: please check before you try again.",
            "ja": "{task}が完了したかどうか分かりません。もう一度行う前に確認してください。",
        },
    ),
]

_EXAMPLES: list[tuple[str | None, dict[Language, str]]] = [
    ("get_weather", {"en": "weather in Tokyo", "ja": "東京の天気"}),
    ("draw", {"en": "draw a cat", "ja": "猫を描いて"}),
    ("process_payment", {"en": "pay 50 to Hanako", "ja": "花子に50ドル送金"}),
    ("get_location", {"en": "where am I", "ja": "今どこ"}),
    ("get_timezone", {"en": "what time is it", "ja": "何時"}),
    ("change_bgm", {"en": "play track 1", "ja": "BGMを1に"}),
    (None, {"en": "count to 20", "ja": "20まで数えて"}),
    (None, {"en": "think about the sea", "ja": "海について考えて"}),
    (None, {"en": "cite", "ja": "出典"}),
]

_SOUND = re.compile(r"\((?P<seconds>\d+\.\d)(?: seconds of sound|秒の音声)\)")

_CONDITIONS = {
    "sunny": "晴れ",
    "partly cloudy": "晴れ時々曇り",
    "cloudy": "曇り",
    "rainy": "雨",
    "windy": "強風",
    "snowy": "雪",
}


def result(tool: str, response: Mapping[str, Any], language: Language) -> str:
    """Return a sentence about the result of a tool."""
    facts = {key: _readable(key, value) for key, value in _unwrapped(response).items()}
    if "error" in facts or facts.get("success") is False:
        return _failure(tool, facts, language)
    if language == "ja":
        facts = _localised(facts)
    try:
        return _DONE[tool][language].format_map(facts)
    except KeyError:
        result_json = json.dumps(facts, ensure_ascii=False, default=str)
        return f"{tool} gave: {result_json}." if language == "en" else f"{tool} の結果: {result_json}。"


def missing_tool(tool: str, language: Language) -> str:
    """Return a sentence that says that the agent does not have a tool."""
    if language == "ja":
        return f"このエージェントには {tool} というツールがないため、対応できません。"
    return f"This agent does not have the tool {tool}, so I cannot do that."


def capabilities(tools: Collection[str], language: Language) -> str:
    """Return a sentence with examples of what a user can type when the agent has these tools."""
    examples = [example[language] for tool, example in _EXAMPLES if tool is None or tool in tools]
    if language == "ja":
        return (
            "オフラインのデモモデルです。たとえば"
            + "".join(f"「{one}」" for one in examples)
            + "と入力してみてください。"
        )
    return "I am the offline demo model. Try: " + ", ".join(f"“{one}”" for one in examples) + "."


def attachment(media_type: str, data: bytes, language: Language) -> str:
    """Return a sentence with type, size and, for an image, dimensions of an attached file."""
    kind = sniff(data)
    size = dimensions(kind, data) if kind is not None else None
    if language == "ja":
        pixels = f"、{size[0]}×{size[1]}ピクセル" if size else ""
        return f"添付ファイルは{media_type}、{len(data)}バイト{pixels}です。"
    pixels = f", {size[0]}×{size[1]} pixels" if size else ""
    return f"You attached {media_type}, {len(data)} bytes{pixels}."


def sound(seconds: float, language: Language) -> str:
    """Return the transcript of speech: its length, because the offline model does not recognise speech."""
    return f"({seconds:.1f}秒の音声)" if language == "ja" else f"({seconds:.1f} seconds of sound)"


def seconds_heard(text: str) -> str | None:
    """Return the length of the speech if a message is a transcript of `sound`, else None."""
    found = _SOUND.fullmatch(text)
    return found and found["seconds"]


def heard(seconds: str, language: Language) -> str:
    """Return a sentence about the length of the speech, and what to do instead of speaking."""
    if language == "ja":
        return f"{seconds}秒の音声が聞こえましたが、言葉は聞き取れません。文字で入力してください。"
    return f"I heard {seconds} seconds of sound, but I do not understand speech: please type what you want."


def thought(topic: str, language: Language) -> tuple[str, str]:
    """Return a thought about a topic, and the answer that follows from it."""
    if language == "ja":
        return (
            f"{topic}について考えます。まず知っていることを整理し、次に大切な点を選びます。",
            f"{topic}について考えました。小さく始めて、よく見て、続けることが大切だと思います。",
        )
    return (
        f"The question is {topic}. First I collect what is known, then I look for what matters most.",
        f"I have thought about {topic}: start small, look closely, and keep going.",
    )


def quotation(language: Language) -> str:
    """Return a text that has two sources."""
    if language == "ja":
        return "ADKはエージェントを作るための枠組みで、AI SDKはその画面を作るための道具です。"
    return "ADK is a framework for building agents, and AI SDK is a toolkit for building their user interfaces."


def _failure(tool: str, facts: Mapping[str, Any], language: Language) -> str:
    causes = [str(facts[key]).rstrip(".。") for key in ("error", "reason", "message") if facts.get(key)]
    cause = "; ".join(dict.fromkeys(causes))
    task = _TASKS.get(tool, {"en": f"use {tool}", "ja": tool})[language]
    for pattern, sentence in _UNEXECUTED:
        if re.search(pattern, str(facts.get("error")), re.IGNORECASE):
            reason = str(facts.get("reason") or "").rstrip(".。")
            return sentence[language].format(task=task, reason=_in_brackets(reason, language))
    if language == "ja":
        return f"申し訳ありません、{task}はできませんでした" + (f"({cause})。" if cause else "。")
    return f"Sorry, I could not {task}" + (f": {cause}." if cause else ".")


def _in_brackets(reason: str, language: Language) -> str:
    if not reason:
        return ""
    return f"(理由: {reason})" if language == "ja" else f" ({reason})"


def _readable(key: str, value: Any) -> Any:
    """Return a fact as a person writes it: 5.0 as 5, a time of day without the date."""
    match key, value:
        case "local_time", str():
            return _time_of_day(value)
        case (("latitude" | "longitude"), float()):
            return round(value, 5)
        case "accuracy", float() if math.isfinite(value):
            return round(value)
        case _, float() if value.is_integer():
            return int(value)
        case _:
            return value


def _time_of_day(moment: str) -> str:
    try:
        return f"{datetime.fromisoformat(moment):%H:%M}"
    except ValueError:
        return moment


def _unwrapped(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object in `result` if it is the only key: ADK and browsers may wrap a result so."""
    inner = response.get("result")
    return dict(cast("dict[str, Any]", inner) if isinstance(inner, dict) and len(response) == 1 else response)


def _localised(facts: Mapping[str, Any]) -> dict[str, Any]:
    localised = dict(facts)
    if isinstance(place := facts.get("location"), str):
        localised["location"] = known_names.in_japanese(place)
    if isinstance(condition := facts.get("condition"), str):
        localised["condition"] = _CONDITIONS.get(condition, condition)
    return localised
