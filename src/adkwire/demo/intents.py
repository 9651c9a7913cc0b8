"""Finds the intents in a message of the user, in English and Japanese. Pure: a text in, intents out.

English is cut into clauses at commas, full stops and *and*; each clause is matched with the rules `_ENGLISH`. A clause
that no rule matches may continue the one before it (`weather in Tokyo and Paris`, `pay 10 to Ann and 20 to Bob`).
Japanese has no spaces to cut at, so the rules `_JAPANESE` search the whole text; their matches are removed from it
before the English rules are tried. `then` and `それから` divide the intents into stages, one after the other.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from adkwire.demo import known_names

COUNT_LIMIT = 1000
"""The highest number that the model counts to."""
TEXT_LIMIT = 1000
"""Characters of a message that are searched: the intents of a very long message are at its beginning."""


@dataclass(frozen=True)
class Use:
    """Call a tool."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Count:
    """Count from one."""

    to: int


@dataclass(frozen=True)
class Ponder:
    """Think aloud, then answer."""

    topic: str


@dataclass(frozen=True)
class CiteSources:
    """Answer with sources."""


@dataclass(frozen=True)
class Crash:
    """Fail on purpose."""


Intent = Use | Count | Ponder | CiteSources | Crash
_Build = Callable[[re.Match[str]], Iterable[Intent]]


@dataclass(frozen=True)
class _Rule:
    """A pattern, the intents of a match, and the intents of a following clause that continues the matched one."""

    pattern: re.Pattern[str]
    build: _Build
    more: Callable[[str, Intent], Iterable[Intent]] | None = None


def understand(text: str) -> list[list[Intent]]:
    """Return the intents in a text, stage by stage; an empty list when there are none."""
    text = unicodedata.normalize("NFKC", text[:TEXT_LIMIT]).replace("’", "'")
    if thought := _THINK.search(text):
        return [[Ponder((thought["en"] or thought["ja"]).strip(" .!?。、"))]]
    stages = [_understand_stage(stage) for stage in _STAGES.split(text)]
    return [stage for stage in stages if stage]


def _understand_stage(text: str) -> list[Intent]:
    found: list[tuple[int, Intent]] = []
    for rule in _JAPANESE if known_names.is_japanese(text) else []:
        for match in rule.pattern.finditer(text):
            found += [(match.start(), intent) for intent in rule.build(match)]
        # Replaced by a clause boundary of the same length, so that the positions of later matches stay correct.
        text = rule.pattern.sub(lambda m: "." * (len(m[0]) - 1) + "\n", text)
    found += _english(text)
    return _without_repeats(intent for _, intent in sorted(found, key=lambda item: item[0]))


def _english(text: str) -> Iterator[tuple[int, Intent]]:
    previous: tuple[_Rule, Intent] | None = None
    for start, clause in _clauses(text):
        intents: list[Intent] = []
        for rule in _ENGLISH:
            if match := rule.pattern.search(clause):
                intents = list(rule.build(match))
                previous = (rule, intents[-1]) if intents else None
                break
        else:
            if previous and previous[0].more:
                intents = list(previous[0].more(clause, previous[1]))
        yield from ((start, intent) for intent in intents)


def _clauses(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for boundary in [*_BOUNDARY.finditer(text), None]:
        end = boundary.start() if boundary else len(text)
        if clause := text[start:end].strip():
            yield start, clause
        start = boundary.end() if boundary else end


def _without_repeats(intents: Iterable[Intent]) -> list[Intent]:
    """Drop repeated intents, which two rules may find in one phrase; but two equal payments are two payments."""
    kept: list[Intent] = []
    for intent in intents:
        if intent not in kept or (isinstance(intent, Use) and intent.tool == "process_payment"):
            kept.append(intent)
    return kept


_THINK = re.compile(
    r"\bthink\s+(?:\w+\s+){0,2}?(?:about|of|over)\s+(?P<en>.+)|(?P<ja>[^、。,\s]{1,40}?)について(?:\S{0,4}?)考え",
    re.IGNORECASE | re.DOTALL,
)
_STAGES = re.compile(r"[,;.]?\s*\b(?:and\s+)?then\b\s*,?|[、。]?(?:それから|その後に?|そのあとに?)、?", re.IGNORECASE)
# A comma in 1,000 and a point in 2.50 or after an abbreviation are no boundaries.
_BOUNDARY = re.compile(
    r"[;!?\n、。]|,(?!\d{3}\b)|(?<!\bSt)(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bMrs)(?<!\bno)\.(?!\d)"
    r"|\s(?:and|plus|also)\s|\s*&\s*",
    re.IGNORECASE,
)

_CURRENCIES = {
    "USD": ("$", "usd", "us$", "dollar", "dollars", "bucks", "buck", "ドル", "米ドル"),
    "EUR": ("€", "eur", "euro", "euros", "ユーロ"),
    "GBP": ("£", "gbp", "pound", "pounds", "ポンド"),
    "JPY": ("¥", "jpy", "yen", "円"),
}
_CURRENCY_OF = {word: code for code, spellings in _CURRENCIES.items() for word in spellings}
_SYMBOL = "|".join(re.escape(word) for word in ("us$", "$", "€", "£", "¥"))
_UNIT = "|".join(sorted((re.escape(w) for w in _CURRENCY_OF if w[-1].isalpha()), key=len, reverse=True))
# Looks at both sides, so that a part of a longer number is not matched.
_NUMBER = r"(?<![\d.,])(?:\d{1,3}(?:,\d{3}){1,3}|\d{1,12})(?:\.\d{1,2})?(?![.,]?\d)"
_MONEY = rf"(?P<symbol>{_SYMBOL})?\s*(?P<number>{_NUMBER})\s*(?P<scale>万|千)?\s*(?P<unit>{_UNIT})?(?![\w%])"
_MONEY_JA = rf"(?P<symbol>{_SYMBOL})?\s*(?P<number>{_NUMBER})\s*(?P<scale>万|千)?\s*(?P<unit>{_UNIT})?"
_SCALES = {"千": 1000, "万": 10_000}
_TAIL = re.compile(
    r"\s+(?:please|pls|now|right now|today|tonight|tomorrow|currently|at the moment|this (?:week|weekend|morning|"
    r"evening|afternoon)|like|for me|for (?:the |my |her |his |their )?\w+(?: \w+)?|from me|thanks|thank you)$",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:\b(?:thanks?|you|please|ok|okay|hello|hi|hey|now|too|cheers|bye|me|the|an?|is|it|what(?:'?s)?|how(?:'?s)?|will|"
    r"would|be|do|does|can|could|about|this|that|today|tomorrow|so|like|i|of)\b\s*)+",
    re.IGNORECASE,
)


def _trim(words: str) -> str:
    """Cut off polite and temporal words at the end, such as `please` or `today`."""
    words = words.strip(" .:")
    while (shorter := _TAIL.sub("", words)) != words:
        words = shorter
    return words


def _weather(location: str) -> list[Intent]:
    name = _trim(location)
    known = name and not _FILLER.fullmatch(name) and name not in _TIMES
    return [Use("get_weather", {"location": known_names.place(name)})] if known else []


def _more_weather(clause: str, _: Intent) -> list[Intent]:
    name = re.sub(r"^(?:in|for|at)\s+", "", clause, flags=re.IGNORECASE)
    return _weather(name) if len(name.split()) <= 3 and not re.search(r"\d", name) else []


def _pay(match: re.Match[str]) -> list[Intent]:
    amount = float(match["number"].replace(",", "")) * _SCALES.get(match["scale"] or "", 1)
    args: dict[str, Any] = {"amount": int(amount) if amount.is_integer() else amount}
    args["recipient"] = known_names.person(_trim(match["who"]))
    word = (match["symbol"] or match["unit"] or "usd").lower()
    # USD is the tool's default and is left out of the arguments.
    if (currency := _CURRENCY_OF[word]) != "USD":
        args["currency"] = currency
    return [Use("process_payment", args)]


_PAY_MORE = re.compile(rf"^{_MONEY}\s+(?:to|for)\s+(?P<who>\D+)$", re.IGNORECASE)


def _more_pay(clause: str, previous: Intent) -> list[Intent]:
    if match := _PAY_MORE.search(clause):
        return _pay(match)
    name = re.sub(r"^to\s+", "", clause, flags=re.IGNORECASE)
    if not isinstance(previous, Use) or _FILLER.fullmatch(name) or len(name.split()) > 2 or re.search(r"\d", name):
        return []
    return [Use("process_payment", {**previous.args, "recipient": known_names.person(_trim(name))})]


_ARTICLE = re.compile(r"^(?:an?|the|some|my)\s+", re.IGNORECASE)


def _draw(subject: str) -> list[Intent]:
    subject = _ARTICLE.sub("", _trim(subject)).strip("\"'「」 ")
    return [Use("draw", {"subject": subject})] if subject else []


def _more_draw(clause: str, _: Intent) -> list[Intent]:
    return _draw(clause) if _ARTICLE.match(clause) else []


def _count(match: re.Match[str]) -> list[Intent]:
    # int() of very many digits is slow, and nine digits are already over the limit.
    return [Count(max(1, min(int(match["to"][:9]), COUNT_LIMIT)))]


def _music(match: re.Match[str]) -> list[Intent]:
    track = match["track"].lower()
    return [Use("change_bgm", {"track": {"zero": 0, "one": 1}.get(track, int(track) if track.isdigit() else 0)})]


def _always(intent: Intent) -> _Build:
    return lambda _: [intent]


def _rule(pattern: str, build: _Build, more: Callable[[str, Intent], Iterable[Intent]] | None = None) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), build, more)


_WHERE = Use("get_location", {})
_TIME = Use("get_timezone", {})
_PAY_WORD = r"\b(?:pay|send|transfer|wire|give|payment of)"
_WEATHER_WORD = r"(?:weather|forecast|temperature|rain(?:ing)?|snow(?:ing)?|sunny|cloudy|hot|cold|warm)"

_ENGLISH = [
    _rule(rf"{_PAY_WORD}\s+{_MONEY}\s+to\s+(?P<who>\D+)$", _pay, _more_pay),
    _rule(rf"{_PAY_WORD}\s+(?:to\s+)?(?P<who>[^\d$€£¥]+?)\s+{_MONEY}", _pay, _more_pay),
    _rule(
        r"\bwhere\s+(?:exactly\s+)?(?:am\s+i|i\s+am|are\s+we)\b|\bmy\s+(?:current\s+)?(?:location|position)\b"
        r"|\blocate\s+me\b",
        _always(_WHERE),
    ),
    _rule(
        r"\bwhat\s+time\b|\bwhat(?:'s|\s+is|s)\s+the\s+(?:current\s+|local\s+)?time\b|\b(?:current|local)\s+time\b"
        r"|\btell\s+me\s+the\s+time\b|\btime\s*zone\b",
        _always(_TIME),
    ),
    _rule(
        r"\b(?:track|song|bgm|music)\b(?:\s+(?:to|track|number|no\.|song))*\s*#?\s*(?P<track>[01]|zero|one)\b(?!\.\d)",
        _music,
    ),
    _rule(
        rf"\b{_WEATHER_WORD}\b(?:\s+\w+){{0,2}}?\s+(?:in|for|at|of|around)\s+(?P<where>.+)$",
        lambda m: _weather(m["where"]),
        _more_weather,
    ),
    _rule(
        r"^(?:(?:please|show|me|check|get|tell|what's|what|is|the)\s+)*(?P<where>\S.*?)(?:'s)?\s+(?:weather|forecast)\b",
        lambda m: _weather(m["where"]),
        _more_weather,
    ),
    _rule(r"^(?:the\s+)?(?:weather|forecast):?\s+(?P<where>[^?]+)$", lambda m: _weather(m["where"]), _more_weather),
    _rule(
        r"\b(?:draw|paint|sketch)\s+(?:me\s+|us\s+)?(?:an?\s+|the\s+)?(?:(?:picture|drawing|image|sketch)\s+of\s+)?"
        r"(?P<what>.+)$",
        lambda m: _draw(m["what"]),
        _more_draw,
    ),
    _rule(r"\bcount\s+(?:up\s+)?(?:from\s+(?:1|one)\s+)?(?:up\s+)?to\s+(?P<to>\d+)", _count),
    _rule(r"\bcit(?:e|es|ing|ations?)\b|\bsources\b|\bwith\s+(?:a\s+)?source\b", _always(CiteSources())),
    _rule(r"^(?:(?:please|now|just|can\s+you)\s+)*(?:fail|crash)(?:\s+(?:please|now|for\s+me))*$", _always(Crash())),
]

_TIMES = {"今日", "明日", "明後日", "昨日", "今", "現在", "今夜", "今週", "週末", "本日", "最近", "today", "tomorrow"}
# The lengths are limited: otherwise a long text would be searched from every position to its end.
_WORD = r"[一-龠々]{1,12}|[ァ-ヺー]{1,20}|[A-Za-z][A-Za-z .'-]{0,30}"
_RUN = rf"{_WORD}|[ぁ-ん]{{2,12}}?"
_TITLE = r"(?:さん|様|君|くん|ちゃん)?"
_TRANSFER = r"(?:送金|送って|送る|送り|支払|払|振り?込)"
# The verb may occur only once, at the end: 花子に10ドル、太郎に20ドル送金.
_SENT = rf"(?:\s*を?\s*{_TRANSFER}|(?=.{{0,80}}{_TRANSFER}))"
_NOW = r"(?:今日|明日|今すぐ|今)?"


def _weather_ja(match: re.Match[str]) -> Iterator[Intent]:
    for location in re.split(r"[と、,や・]\s*", match["where"]):
        yield from _weather(re.sub(r"^(?:今日|明日|今|現在)の?", "", location))


_JAPANESE = [
    _rule(rf"{_NOW}(?P<who>{_RUN}){_TITLE}(?:に|へ|宛に)、?\s*{_MONEY_JA}{_SENT}", _pay),
    _rule(rf"{_MONEY_JA}\s*を?、?(?P<who>{_RUN}){_TITLE}(?:に|へ|宛に)、?{_SENT}", _pay),
    _rule(r"今(?:は|、)?どこ|いまどこ|(?:私|僕|俺|ここ)は?(?:今|いま)?どこ|現在地|居場所|位置情報", _always(_WHERE)),
    _rule(r"何時|なんじ|タイムゾーン|(?:今|現在)の(?:時刻|時間)|時刻", _always(_TIME)),
    _rule(r"(?:BGM|音楽|曲|トラック)\s*(?:を|は|の)?\s*(?:トラック)?\s*(?P<track>[01])(?!\d)", _music),
    _rule(r"(?P<track>[01])番の?(?:BGM|音楽|曲|トラック)", _music),
    _rule(
        rf"(?P<where>(?:{_WORD})(?:\s*[と、,や・]\s*(?:{_WORD}))*|[ぁ-ん]{{2,12}}?)\s*(?:の|は)?\s*(?:今日の|明日の|今の|現在の)?"
        r"(?:お?天気|天候|気温|予報)(?:予報)?",
        _weather_ja,
    ),
    _rule(r"(?P<what>[^\s、。,!?]{1,40}?)(?:の絵)?(?:を|が)?(?:描|画)(?:いて|く|け)", lambda m: _draw(m["what"])),
    _rule(r"(?P<what>[^\s、。,!?]{1,40}?)の絵(?:を|が)(?:書いて|かいて|見たい|見せて)", lambda m: _draw(m["what"])),
    _rule(r"(?P<to>\d{1,9})まで(?:数|カウント|かぞえ)", _count),
    _rule(r"引用|出典|参考文献|ソース付き|情報源", _always(CiteSources())),
    _rule(r"失敗して|^\s*失敗\s*$|エラーを?(?:出して|起こして)|クラッシュ", _always(Crash())),
]
