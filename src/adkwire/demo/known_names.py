"""Names of places and people in English and Japanese, and how a name is written."""

import re

PLACES = {
    "東京": "Tokyo",
    "大阪": "Osaka",
    "京都": "Kyoto",
    "札幌": "Sapporo",
    "福岡": "Fukuoka",
    "名古屋": "Nagoya",
    "横浜": "Yokohama",
    "沖縄": "Okinawa",
    "日本": "Japan",
    "パリ": "Paris",
    "ロンドン": "London",
    "ベルリン": "Berlin",
    "ローマ": "Rome",
    "マドリード": "Madrid",
    "ニューヨーク": "New York",
    "サンフランシスコ": "San Francisco",
    "ロサンゼルス": "Los Angeles",
    "シドニー": "Sydney",
    "シンガポール": "Singapore",
    "ソウル": "Seoul",
    "北京": "Beijing",
    "上海": "Shanghai",
    "香港": "Hong Kong",
    "台北": "Taipei",
    "バンコク": "Bangkok",
    "ハワイ": "Hawaii",
}

PEOPLE = {
    "花子": "Hanako",
    "太郎": "Taro",
    "次郎": "Jiro",
    "一郎": "Ichiro",
    "健太": "Kenta",
    "美咲": "Misaki",
    "さくら": "Sakura",
    "桜": "Sakura",
    "田中": "Tanaka",
    "佐藤": "Sato",
    "鈴木": "Suzuki",
    "高橋": "Takahashi",
    "アン": "Ann",
    "ボブ": "Bob",
    "アリス": "Alice",
    "イブ": "Eve",
}

_JAPANESE_PLACES = {english: japanese for japanese, english in PLACES.items()}
_JAPANESE = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]")


def is_japanese(text: str) -> bool:
    """Return whether a text has kana or kanji."""
    return _JAPANESE.search(text) is not None


def place(name: str) -> str:
    """Return a place as a tool gets it: `東京` is Tokyo, `new york` is New York, an unknown place is not translated."""
    return PLACES.get(name.strip()) or tidy(name)


def person(name: str) -> str:
    """Return a person as a tool gets it: `花子` is Hanako, an unknown name is not translated."""
    return PEOPLE.get(name.strip()) or tidy(name)


def in_japanese(place_name: str) -> str:
    """Return a place in Japanese if its Japanese name is known, else as it is."""
    return _JAPANESE_PLACES.get(place_name, place_name)


def tidy(name: str) -> str:
    """Return a name without quotes and stray spaces, in title case if it was typed in only one case."""
    name = " ".join(name.split()).strip("\"'“”‘’「」 ")
    all_capitals = name.isupper() and len(name) > 3
    return name.title() if name.isascii() and (all_capitals or name.islower()) and "'" not in name else name
