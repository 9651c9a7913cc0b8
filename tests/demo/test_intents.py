import pytest

from adkwire.demo.intents import COUNT_LIMIT, CiteSources, Count, Crash, Intent, Ponder, Use, understand


def weather(*places: str) -> list[Intent]:
    return [Use("get_weather", {"location": place}) for place in places]


def pay(amount: float, recipient: str, currency: str | None = None) -> Use:
    args = {"amount": amount, "recipient": recipient}
    return Use("process_payment", {**args, "currency": currency} if currency else args)


def draw(subject: str) -> Use:
    return Use("draw", {"subject": subject})


def track(number: int) -> Use:
    return Use("change_bgm", {"track": number})


LOCATION = Use("get_location", {})
TIME = Use("get_timezone", {})

SENTENCES: list[tuple[str, list[Intent]]] = [
    ("weather in Tokyo", weather("Tokyo")),
    ("  WEATHER   IN   TOKYO !!", weather("Tokyo")),
    ("What's the weather like in New York today?", weather("New York")),
    ("How’s the weather in san francisco, please?", weather("San Francisco")),
    ("is it raining in London?", weather("London")),
    ("Paris weather please", weather("Paris")),
    ("weather: Osaka", weather("Osaka")),
    ("weather in St. Louis", weather("St. Louis")),
    ("weather in 東京", weather("Tokyo")),
    ("weather in NYC", weather("NYC")),
    ("weather in Tokyo and Paris", weather("Tokyo", "Paris")),
    ("weather in Tokyo, Paris & London. Thanks!", weather("Tokyo", "Paris", "London")),
    ("weather in Paris and thank you", weather("Paris")),
    ("weather in Paris and weather in Paris", weather("Paris")),
    ("東京の天気", weather("Tokyo")),
    ("東京の天気は？", weather("Tokyo")),
    ("明日の東京の天気を教えて", weather("Tokyo")),
    ("ちょっと東京の天気を教えて", weather("Tokyo")),
    ("東京とパリの天気", weather("Tokyo", "Paris")),
    ("東京、ニューヨークの天気", weather("Tokyo", "New York")),
    ("松本の天気", weather("松本")),
    ("Berlinの天気", weather("Berlin")),
    ("pay 50 to Hanako", [pay(50, "Hanako")]),
    ("PAY 50 TO HANAKO", [pay(50, "Hanako")]),
    ("Pay $50 to Hanako.", [pay(50, "Hanako")]),
    ("could you please send 50 dollars to hanako?", [pay(50, "Hanako")]),
    ("Transfer 50 EUR to Ann", [pay(50, "Ann", "EUR")]),
    ("pay €50 to Ann", [pay(50, "Ann", "EUR")]),
    ("pay £20.50 to Ann", [pay(20.5, "Ann", "GBP")]),
    ("pay 1,000 yen to 花子", [pay(1000, "Hanako", "JPY")]),
    ("send Bob $20 for lunch", [pay(20, "Bob")]),
    ("pay Bob 20 dollars", [pay(20, "Bob")]),
    ("pay 10 to Ann and 20 to Bob", [pay(10, "Ann"), pay(20, "Bob")]),
    ("pay 10 to Ann, $20 to Bob and 30 EUR to Eve", [pay(10, "Ann"), pay(20, "Bob"), pay(30, "Eve", "EUR")]),
    ("pay 10 to Ann and Bob", [pay(10, "Ann"), pay(10, "Bob")]),
    ("pay 5 to Eve and pay 5 to Eve", [pay(5, "Eve"), pay(5, "Eve")]),
    ("pay 12345678901234567890 to Eve", []),
    ("花子に50ドル送金", [pay(50, "Hanako")]),
    ("花子さんに５０ドル送ってください", [pay(50, "Hanako")]),
    ("50ドルを花子に送金して", [pay(50, "Hanako")]),
    ("太郎に1万円払って", [pay(10_000, "Taro", "JPY")]),
    ("今日花子に5ユーロ支払って", [pay(5, "Hanako", "EUR")]),
    ("ジョンに5ドル送金", [pay(5, "ジョン")]),
    ("花子に10ドル、太郎に20ドル送金して", [pay(10, "Hanako"), pay(20, "Taro")]),
    ("花子に10ドルと太郎に20ドル送金", [pay(10, "Hanako"), pay(20, "Taro")]),
    ("花子に12345678901234567890ドル送金", []),
    ("where am I", [LOCATION]),
    ("Where am I?", [LOCATION]),
    ("what is my current location", [LOCATION]),
    ("今どこ", [LOCATION]),
    ("私は今どこ？", [LOCATION]),
    ("現在地を教えて", [LOCATION]),
    ("what time is it", [TIME]),
    ("What's the time?", [TIME]),
    ("which time zone is this", [TIME]),
    ("何時", [TIME]),
    ("今何時ですか", [TIME]),
    ("play track 1", [track(1)]),
    ("Play Track 0!", [track(0)]),
    ("switch the music to track one", [track(1)]),
    ("change the bgm to 1", [track(1)]),
    ("play track 10", []),
    ("BGMを1に", [track(1)]),
    ("BGMを0に変えて", [track(0)]),
    ("トラック1を再生", [track(1)]),
    ("pay 5 to Eve, what time is it and weather in Paris", [pay(5, "Eve"), TIME, *weather("Paris")]),
    ("weather in Berlin and where am I and play track 0", [*weather("Berlin"), LOCATION, track(0)]),
    ("花子に5ドル送金、今何時、パリの天気", [pay(5, "Hanako"), TIME, *weather("Paris")]),
    ("東京の天気を教えて。花子に50ドル送金して。", [*weather("Tokyo"), pay(50, "Hanako")]),
    ("draw a cat", [draw("cat")]),
    ("Please draw me a picture of the sea.", [draw("sea")]),
    ("draw a cat and a dog", [draw("cat"), draw("dog")]),
    ("猫を描いて", [draw("猫")]),
    ("かわいい猫の絵を描いてください", [draw("かわいい猫")]),
    ("count to 10", [Count(10)]),
    ("Count from 1 to 20, please", [Count(20)]),
    ("count to 0", [Count(1)]),
    ("count to 999999999999", [Count(COUNT_LIMIT)]),
    ("10まで数えて", [Count(10)]),
    ("1から10まで数えて", [Count(10)]),
    ("count to 3 and draw a cat", [Count(3), draw("cat")]),
    ("think about cats and dogs", [Ponder("cats and dogs")]),
    ("Think hard about the weather in Paris.", [Ponder("the weather in Paris")]),
    ("海についてよく考えて", [Ponder("海")]),
    ("cite", [CiteSources()]),
    ("Cite your sources!", [CiteSources()]),
    ("出典を教えて", [CiteSources()]),
    ("fail", [Crash()]),
    ("Please fail now.", [Crash()]),
    ("失敗して", [Crash()]),
    ("I fail to see the point", []),
    ("hello", []),
    ("こんにちは", []),
    ("what is the weather", []),
    ("今日の天気", []),
    ("what can you do?", []),
    ("", []),
]


@pytest.mark.parametrize(("sentence", "intents"), SENTENCES)
def test_a_sentence_is_understood(sentence: str, intents: list[Intent]) -> None:
    assert understand(sentence) == ([intents] if intents else [])


@pytest.mark.parametrize(
    ("sentence", "stages"),
    [
        ("weather in Paris, then pay 5 to Eve", [weather("Paris"), [pay(5, "Eve")]]),
        ("Weather in Paris. Then draw a cat and then count to 3", [weather("Paris"), [draw("cat")], [Count(3)]]),
        ("パリの天気、それから花子に5ドル送金", [weather("Paris"), [pay(5, "Hanako")]]),
    ],
)
def test_then_makes_stages(sentence: str, stages: list[list[Intent]]) -> None:
    assert understand(sentence) == stages


def test_only_the_beginning_of_a_long_text_is_searched() -> None:
    assert understand("weather in Paris. " + "x " * 100_000 + ". weather in Rome") == [weather("Paris")]
