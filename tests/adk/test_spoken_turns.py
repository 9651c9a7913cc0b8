"""History of spoken turns: which transcripts make the user's message, and which events are left out."""

from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from adkwire.adk.turns import text_and_files, turns
from adkwire.runs import views
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.media import Media
from adkwire.wire.messages import FilePart, TextPart, UIMessage
from tests.wire.adk_events import answered, call, heard, image, model, response, spoken, stamp, text


def stored(event: Event, message: str = "m1", **more: Any) -> Event:
    """Return an event as a live run stores it in a turn."""
    event.invocation_id = f"i-{message}"
    return stamp(event, message=message, user=f"u-{message}", **more)


def voice(event: Event, message: str = "m1", **more: Any) -> Event:
    return stored(event, message, spoken=True, **more)


def typed(*parts: types.Part, message: str = "m1") -> Event:
    return stored(Event(author="user", content=types.Content(role="user", parts=list(parts))), message)


def session(*events: Event) -> Session:
    for second, event in enumerate(events, 1):
        event.timestamp = float(second)
    return Session(id="c1", app_name="app", user_id="user", events=list(events))


def messages(*events: Event) -> list[UIMessage]:
    return views.messages_of(session(*events), [])


def texts_of(*events: Event) -> list[tuple[str, list[str]]]:
    return [
        (message.id, [part.text for part in message.parts if isinstance(part, TextPart)])
        for message in messages(*events)
    ]


def test_the_transcript_is_the_users_message() -> None:
    assert texts_of(voice(heard("Hello.", finished=True)), voice(spoken("Hi!", finished=True))) == [
        ("u-m1", ["Hello."]),
        ("m1", ["Hi!"]),
    ]


def test_a_transcript_may_come_behind_the_answer() -> None:
    events = [voice(spoken("Hi!", finished=True)), voice(heard("Hello.", finished=True))]

    assert texts_of(*events) == [("u-m1", ["Hello."]), ("m1", ["Hi!"])]


def test_all_transcripts_of_a_turn_are_one_text() -> None:
    events = [
        voice(heard(" Pay it. ", finished=True)),
        voice(model(call("c1"))),
        voice(heard("now", finished=True), at=4.5),
        voice(heard("Do it", finished=True), at=4.0),
        voice(heard("", finished=True)),
        voice(answered(response("c1", {}))),
    ]

    assert texts_of(*events)[0] == ("u-m1", ["Pay it. Do it now"])


def test_typed_text_comes_before_speech() -> None:
    asked, _ = messages(
        typed(text("Look:"), image()), stored(heard("what is it?", finished=True)), stored(model(text("A cat.")))
    )

    assert [type(part) for part in asked.parts] == [TextPart, FilePart, TextPart]
    assert asked.parts[-1] == TextPart(text="what is it?")


def test_a_spoken_turn_without_a_transcript_has_an_empty_user_message() -> None:
    assert texts_of(voice(spoken("Pardon?", finished=True))) == [("u-m1", [""]), ("m1", ["Pardon?"])]
    assert texts_of(voice(heard("", finished=True)), voice(spoken("Pardon?", finished=True)))[0] == ("u-m1", [""])


def test_a_turn_that_the_model_began_has_no_user_message() -> None:
    assert texts_of(stored(model(text("Good morning!")))) == [("m1", ["Good morning!"])]


def test_events_stamped_aside_are_in_no_turn() -> None:
    events = [typed(text("a")), stored(model(text("hidden")), aside=True), stored(model(text("b")), "m2", aside=True)]

    (turn,) = turns(events)
    assert turn.events == []


def test_events_are_ordered_by_when_they_were_shown() -> None:
    events = [
        voice(heard("Pay.", finished=True)),
        voice(model(call("c1"))),
        voice(answered(response("c1", {}))),
        voice(spoken("A moment, please.", finished=True), at=1.5),
    ]

    _, answer = messages(*events)
    assert isinstance(answer.parts[1], TextPart)


def test_unstamped_speech_of_another_program_is_shown() -> None:
    question, answer = heard("Hello.", finished=True), spoken("Hi!", finished=True)
    question.invocation_id = answer.invocation_id = "i1"

    assert [texts for _, texts in texts_of(question, answer)] == [["Hello."], ["Hi!"]]


def test_a_spoken_message_can_be_regenerated() -> None:
    spoken_session = session(voice(heard("Hello", finished=True)), voice(heard("there.", finished=True)))

    question = views.stored_user_message(spoken_session, "u-m1")
    assert question == UserMessage("u-m1", ("Hello there.",))
    assert views.title_for(question) == "Hello there."


def test_the_text_of_a_transcript() -> None:
    assert list(text_and_files(heard("Hello.", finished=True))) == ["Hello."]
    assert list(text_and_files(heard("", finished=True))) == []


def test_titles_of_messages_without_text() -> None:
    assert views.title_for(UserMessage("u", ())) == ""
    assert views.title_for(UserMessage("u", (Media("image/png", b"", None),))) == "Image"


def test_the_user_message_of_a_running_turn_is_the_transcript_so_far() -> None:
    silent, writing = UserMessage("u-m1", ()), [UserMessage("u-m1", ())]

    assert views.messages_of(None, [silent]) == [UIMessage(id="u-m1", role="user", parts=[TextPart(text="")])]
    begun = session(voice(spoken("Hi", finished=True)), voice(heard("Hello.", finished=True)))
    assert views.messages_of(begun, writing) == [UIMessage(id="u-m1", role="user", parts=[TextPart(text="Hello.")])]


def test_the_user_message_of_a_running_turn_is_as_typed() -> None:
    written = UserMessage("u-m1", ("Now this.",))

    (message,) = views.messages_of(session(typed(text("This."))), [written])
    assert message.parts == [TextPart(text="Now this.")]
