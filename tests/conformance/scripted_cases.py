"""Scenarios on `agents/scripted.py`: what a model or a tool may do besides behaving well."""

from tests.conformance.cases import Case, say
from tests.conformance.expected import (
    ANY,
    MEGABYTE,
    PNG,
    STEP,
    UNICODE,
    Check,
    answers,
    every,
    failed,
    shape,
    text,
    thought,
    tool,
    was_stopped,
)
from tests.conformance.records import Record, text_of

ADDED = tool("add", {"a": 1, "b": 2}, {"result": 3})
HELLO = answers(STEP, text("Hello to you."))
PICTURE = {"type": "file", "mediaType": "image/png", "url": ANY}
HELD = {"text": "hold for $CHAT", "after": "One ", "release": "release for $CHAT"}


def _metadata(record: Record) -> None:
    metadata = record.page.answer["metadata"]
    assert metadata["author"] == "scripted"
    assert metadata["modelVersion"] == "scripted"
    assert metadata["usage"]


def _finish_reason(reason: str) -> Check:
    def check(record: Record) -> None:
        assert record.page.chunks[-1]["finishReason"] == reason

    return check


def _error_is_clean(record: Record) -> None:
    errors = " ".join(chunk["errorText"] for chunk in record.page.chunks if chunk["type"] == "error")
    assert "Traceback" not in errors
    assert ".py" not in errors


def _picture_is_whole(record: Record) -> None:
    (part,) = [part for part in record.page.answer["parts"] if part["type"] == "file"]
    assert len(part["url"]) > len(PNG), part


def _stopped(record: Record) -> None:
    was_stopped(record)
    first, second = (m for m in record.page.messages if m["role"] == "assistant")
    assert text_of(first) != ""
    assert text_of(second) == "Hello to you."


def _ended_by_abort(record: Record) -> None:
    *_, abort, finish = record.page.requests[0]["stream"]["chunks"]
    assert abort["type"] == "abort"
    assert (finish["type"], finish["finishReason"]) == ("finish", "other")


def _stopped_at_once(record: Record) -> None:
    _stopped(record)
    _ended_by_abort(record)


def _tool_was_sealed(record: Record) -> None:
    _stopped_at_once(record)
    assert shape(record.page.messages[1]) == [STEP, text("Working. "), failed("hang", {}), STEP]


def _team(record: Record) -> None:
    found = sorted(part["text"] for part in record.page.answer["parts"] if part["type"] == "text")
    assert found == ["Quick is done. ", "Slow begins and ends. "]


def _sound_passes(record: Record) -> None:
    """PCM is at most heard, never kept."""
    assert shape(record.page.answer) == [STEP, text("Listen: ")]
    assert {part["type"] for part in record.page.data} <= {"data-pcm"}


def _both_whole(*names: str) -> Check:
    def check(record: Record) -> None:
        for name in names:
            assert record.pages[name].text == "One two."
        assert len({run for name in names for run in record.pages[name].runs}) == 1, "one run answers all"
        assert len({record.pages[name].answer["id"] for name in names}) == 1, "one message is the answer"

    return check


def _only_the_question(record: Record) -> None:
    """Nothing runs, and nothing else was asked for: the answer is there when the page is loaded again."""
    second = record.pages["second"]
    assert record.seen["loaded"]["active"] is not None
    assert [message["role"] for message in second.messages] == ["user"]
    assert [request["status"] for request in second.requests] == [204]


def _found_running(record: Record) -> None:
    loaded = record.seen["loaded"]
    assert [message["role"] for message in loaded["messages"]] == ["user"], "the message being written is left out"
    assert record.pages["second"].runs[0] in (None, loaded["active"]["run"])
    assert [request["method"] for request in record.pages["second"].requests] == ["GET"]


def _replaced(record: Record) -> None:
    assert [message["role"] for message in record.history["messages"]] == ["user", "assistant"] * 2
    assert text_of(record.history["messages"][1]) == "Waiting "
    assert text_of(record.history["messages"][3]) == "Hello to you."


CASES = [
    say("hello", "hello", check=every(HELLO, _metadata, _finish_reason("stop"))),
    say("three turns", "hello", "two tools", "hello", check=HELLO),
    say(
        "tool raises",
        "tool raises",
        check=answers(STEP, failed("boom", {}), STEP, text("The tool failed.")),
    ),
    say(
        "tool returns none",
        "tool returns none",
        check=answers(STEP, tool("nothing", {}, {"result": None}), STEP, text("Nothing came.")),
    ),
    say(
        "unknown tool",
        "unknown tool",
        check=answers(STEP, failed("no_such_tool", {"a": 1}), STEP, text("There is no such tool.")),
    ),
    say(
        "bad arguments",
        "bad arguments",
        check=answers(STEP, failed("add", {"a": 1}), STEP, text("An argument was missing.")),
    ),
    say(
        "fail in mid-text",
        "fail in mid-text",
        check=every(answers(STEP, text("One two three ")), _error_is_clean),
        error="The agent could not answer",
    ),
    say("fail at once", "fail at once", check=_error_is_clean, error="The agent could not answer"),
    say("fail after a tool", "fail after a tool", check=answers(STEP, ADDED), error="The agent could not answer"),
    say("error code", "error code", error="SAFETY"),
    Case(
        "fail, then go on",
        "say",
        {"texts": ["fail in mid-text", "hello"]},
        HELLO,
        {"page": 2},
        error="The agent could not answer",
        recovers=True,
    ),
    say("empty", "empty"),
    say("empty after a tool", "empty after a tool", check=answers(STEP, ADDED, STEP)),
    say("too long", "too long", check=every(answers(STEP, text("It goes on")), _finish_reason("length"))),
    say(
        "two tools",
        "two tools",
        check=answers(
            STEP, ADDED, tool("look", {"place": "Rome"}, {"place": "Rome", "seen": True}), STEP, text("Both done.")
        ),
    ),
    say(
        "same tool twice",
        "same tool twice",
        check=answers(STEP, ADDED, tool("add", {"a": 3, "b": 4}, {"result": 7}), STEP, text("3 and 7.")),
    ),
    say(
        "one of two raises",
        "one of two raises",
        check=answers(STEP, failed("boom", {}), ADDED, STEP, text("One failed.")),
    ),
    say(
        "several steps",
        "several steps",
        check=answers(
            *(STEP, text("First. "), ADDED),
            *(STEP, text("Second. "), tool("look", {"place": "Rome"}, {"place": "Rome", "seen": True})),
            *(STEP, text("Third.")),
        ),
    ),
    say(
        "thoughts between",
        "thoughts between",
        check=answers(STEP, thought("I should add. "), ADDED, STEP, thought("It is three. "), text("Three.")),
    ),
    say(
        "thoughts and text mixed",
        "thoughts and text mixed",
        check=answers(STEP, thought("Hm. "), text("One. "), thought("And then. "), text("Two.")),
    ),
    say("only a thought", "only a thought", check=answers(STEP, thought("I had better say nothing."))),
    say(
        "generator",
        "generator",
        check=answers(STEP, tool("progress", {}, {"percent": 100}), text("Half way. "), STEP, text("All the way.")),
    ),
    say(
        "two outputs",
        "two outputs",
        check=answers(STEP, failed("two_outputs", {}), STEP, text("That was one too many.")),
    ),
    say("image", "image", check=every(answers(STEP, text("Here: "), PICTURE), _picture_is_whole)),
    say(
        "image from a tool",
        "image from a tool",
        check=every(answers(STEP, tool("a_picture", {}, ANY), PICTURE, STEP, text("A picture.")), _picture_is_whole),
    ),
    say(
        "sources",
        "sources",
        check=answers(
            STEP,
            text("As they say."),
            {"type": "source-url", "url": "https://example.org/a", "title": "A"},
            {"type": "source-url", "url": "https://example.org/b", "title": "B"},
        ),
    ),
    say(
        "citations",
        "citations",
        check=answers(
            STEP,
            text("As it is written."),
            {"type": "source-url", "url": "https://example.org/c", "title": "Cited"},
        ),
    ),
    say(
        "code",
        "code",
        check=answers(
            STEP,
            {"type": "data-executable-code", "data": {"code": "print(6 * 7)", "language": "PYTHON"}},
            {"type": "data-code-execution-result", "data": {"outcome": "OUTCOME_OK", "output": "42\n"}},
            text("It is 42."),
        ),
    ),
    say("megabyte", "megabyte", check=answers(STEP, text(MEGABYTE))),
    say("unicode", "unicode", check=answers(STEP, text(UNICODE))),
    say(
        "transfer",
        "transfer",
        check=answers(
            STEP,
            tool("transfer_to_agent", {"agent_name": "helper"}, ANY),
            {"type": "data-transfer", "data": {"from": "scripted", "to": "helper"}},
            STEP,
            text("The helper speaks."),
        ),
    ),
    say(
        "state",
        "state",
        check=answers(
            STEP,
            tool("remember", {}, {"result": "remembered"}),
            {"type": "data-state", "data": {"delta": {"mood": "good"}}},
            STEP,
            text("Noted."),
        ),
    ),
    say(
        "artifact",
        "artifact",
        check=answers(
            STEP,
            tool("store", {}, {"result": "stored"}),
            {"type": "data-artifact", "data": {"versions": {"note.txt": 0}}},
            STEP,
            text("Stored."),
        ),
    ),
    say(
        "odd numbers",
        "odd numbers",
        check=answers(
            STEP,
            tool("odd_numbers", {}, {"nan": None, "up": None, "down": None, "nested": [None, 1.5], "big": 2**53}),
            STEP,
            text("Numbers."),
        ),
    ),
    say("bytes", "bytes", check=answers(STEP, tool("raw_bytes", {}, {"raw": ANY}), STEP, text("Bytes."))),
    say(
        "an object",
        "an object",
        check=answers(
            STEP,
            tool("an_object", {}, {"result": {"place": "Oslo", "degrees": -3.5}}),
            STEP,
            text("An object."),
        ),
    ),
    say(
        "odd values",
        "odd values",
        check=answers(
            STEP,
            tool(
                "odd_values",
                {},
                {
                    "set": [1],
                    "tuple": [1, 2],
                    "object": {"place": "Rome", "degrees": 21},
                    "none": None,
                    "local": "2026-01-02T12:00:00",
                    "utc": "2026-01-02T12:00:00Z",
                    "day": "2026-01-02",
                    "span": ANY,
                    "price": "1.50",
                    "uuid": "00000000-0000-0000-0000-000000000001",
                    "path": "a/b",
                },
            ),
            STEP,
            text("Values."),
        ),
    ),
    say("last word", "last word", check=answers(STEP, tool("last_word", {}, {"result": "that is all"}), STEP)),
    say("job", "job", check=answers(STEP, tool("start_job", {}, {"status": "pending"}), STEP, text("It has begun."))),
    say(
        "child",
        "child",
        check=answers(STEP, tool("child", {"request": "help"}, ANY), STEP, text("The child said so.")),
    ),
    say("team", "team for $CHAT", check=_team),
    say(
        "pipeline",
        "pipeline",
        check=answers(
            STEP,
            tool("transfer_to_agent", {"agent_name": "pipeline"}, ANY),
            {"type": "data-transfer", "data": {"from": "scripted", "to": "pipeline"}},
            STEP,
            text("One. "),
            text("Two."),
        ),
    ),
    say(
        "call before text",
        "call before text",
        check=answers(STEP, text("Adding. "), ADDED, STEP, text("Three.")),
    ),
    say(
        "file by address",
        "file by address",
        check=answers(
            STEP,
            text("There: "),
            {"type": "file", "mediaType": "application/pdf", "url": "https://example.org/a.pdf"},
        ),
    ),
    say(
        "sound",
        "sound",
        check=answers(STEP, text("Listen: "), {"type": "file", "mediaType": "audio/wav", "url": ANY}),
    ),
    say("pcm", "pcm", check=_sound_passes),
    Case("nothing said", "say", {"texts": [""]}, error="The message is empty", refused=422),
    Case(
        "resend an answer",
        "resend",
        {"text": "hello"},
        HELLO,
        {"page": 2},
        error="No call is waiting for this answer.",
    ),
    Case(
        "two pages",
        "two-pages",
        {"texts": ["hello", "two tools", "hello"]},
        HELLO,
        {"page": 2, "second": 1},
        behind=frozenset({"page", "second"}),
    ),
    Case(
        "stop before a word",
        "stop-from-elsewhere",
        {"text": "hang at once", "after": "assistant", "next": "hello"},
        every(HELLO, _ended_by_abort),
        {"page": 2},
    ),
    Case(
        "type over before a word",
        "replace-from-elsewhere",
        {"text": "hang at once", "after": "assistant", "next": "hello"},
        behind=frozenset({"page", "second"}),
    ),
    Case(
        "stop in text",
        "stop",
        {"text": "hang in text", "after": "Waiting ", "next": "hello"},
        _stopped,
        {"page": 2},
        cut=frozenset({"page"}),
    ),
    Case(
        "stop in text from elsewhere",
        "stop-from-elsewhere",
        {"text": "hang in text", "after": "Waiting ", "next": "hello"},
        _stopped_at_once,
        {"page": 2},
    ),
    Case(
        "stop in a tool",
        "stop-from-elsewhere",
        {"text": "hang in a tool", "after": "tool-hang", "next": "hello"},
        _tool_was_sealed,
        {"page": 2},
    ),
    Case(
        "type over a thought",
        "replace-from-elsewhere",
        {"text": "hang in a thought", "after": "reasoning", "next": "hello"},
        behind=frozenset({"page", "second"}),
    ),
    Case(
        "type over a running answer",
        "replace",
        {"text": "hang in text", "after": "Waiting ", "next": "hello"},
        _replaced,
        {"page": 2},
        cut=frozenset({"page"}),
    ),
    Case(
        "type over from elsewhere",
        "replace-from-elsewhere",
        {"text": "hang in text", "after": "Waiting ", "next": "hello"},
        _replaced,
        behind=frozenset({"page", "second"}),
    ),
    Case(
        "type over a tool",
        "replace",
        {"text": "hang in a tool", "after": "tool-hang", "next": "hello"},
        requests={"page": 2},
        cut=frozenset({"page"}),
    ),
    Case("resume on load", "resume-running", HELD, every(_both_whole("page", "second"), _found_running)),
    Case(
        "ended between history and resume",
        "resume-ended",
        {**HELD, "named": True},
        every(_both_whole("page", "second"), _found_running),
    ),
    Case(
        "ended between history and resume, the run not named",
        "resume-ended",
        HELD,
        every(_both_whole("page"), _only_the_question),
        behind=frozenset({"second"}),
    ),
    Case(
        "close the tab, come back",
        "disconnect",
        HELD,
        every(_both_whole("second"), _found_running),
        cut=frozenset({"page"}),
    ),
    Case("heartbeat", "heartbeat", HELD, _both_whole("page")),
    Case("retry while it runs", "retry-running", HELD, _both_whole("page", "again")),
]
