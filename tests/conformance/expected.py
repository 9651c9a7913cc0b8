"""Functions that make expected message parts, and checks of answers."""

import base64
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

from tests.conformance.records import HERE, Message, Record

Check = Callable[[Record], None]
Part = dict[str, Any]

# The agents' own samples: a test must not import an agent, which is the server's to load.
SAMPLES = json.loads((HERE / "agents" / "samples.json").read_text())
PNG = base64.b64decode(SAMPLES["png"])
UNICODE: str = SAMPLES["unicode"]
MEGABYTE: str = SAMPLES["long"] * 65_536

STEP: Part = {"type": "step-start"}


def text(words: str) -> Part:
    """A finished text part."""
    return {"type": "text", "text": words, "state": "done"}


def thought(words: str) -> Part:
    """A finished reasoning part."""
    return {"type": "reasoning", "text": words, "state": "done"}


def tool(name: str, arguments: Any, output: Any) -> Part:
    """A call with its output."""
    return {"type": f"tool-{name}", "state": "output-available", "input": arguments, "output": output}


def failed(name: str, arguments: Any, why: Any = ANY) -> Part:
    """A call that failed."""
    return {"type": f"tool-{name}", "state": "output-error", "input": arguments, "errorText": why}


def asked(name: str, arguments: Any) -> Part:
    """A call that waits for a person."""
    return {"type": f"tool-{name}", "state": "approval-requested", "input": arguments, "approval": {"id": ANY}}


def denied(name: str, arguments: Any, reason: str | None = None) -> Part:
    """A call that a person refused."""
    return {"type": f"tool-{name}", "state": "output-denied", "input": arguments, "approval": verdict(False, reason)}


def approved(part: Part) -> Part:
    """The same part, after a person approved it."""
    return {**part, "approval": verdict(True)}


def verdict(yes: bool, reason: str | None = None) -> Part:
    """The fields of a part that has a person's answer."""
    return {"id": ANY, "approved": yes, **({"reason": reason} if reason else {})}


def shape(message: Message) -> list[Part]:
    """The parts without the ids that differ from run to run."""
    return [_without_ids(part) for part in message["parts"]]


def _without_ids(part: Part) -> Part:
    dropped = {"toolCallId", "sourceId", "id", "rawInput"}
    return {key: value for key, value in part.items() if key not in dropped}


def answers(*parts: Part) -> Check:
    """Return a check that the last answer of the page has exactly these parts."""

    def check(record: Record) -> None:
        assert shape(record.page.answer) == list(parts)

    return check


def says(words: str) -> Check:
    """Return a check of the visible text of the last answer."""

    def check(record: Record) -> None:
        assert record.page.text == words

    return check


def holds(*parts: Part, words: str | None = None, page: str = "page") -> Check:
    """Return a check that the last answer has these calls and steps, with any `data-approval` parts, and this text."""

    def check(record: Record) -> None:
        last_page = record.pages[page]
        assert bare(last_page.answer) == list(parts)
        if words is not None:
            assert last_page.text == words

    return check


def bare(message: Message) -> list[Part]:
    """The calls of a message and the steps between them."""
    return [part for part in shape(message) if part["type"] == "step-start" or part["type"].startswith("tool-")]


def speaks(record: Record) -> None:
    """Check that the last answer has some text."""
    assert record.page.text.strip()


def was_stopped(record: Record) -> None:
    """Check that a stop was sent, by the route or by one frame, and that the server stopped the run."""
    if "stop" in record.seen:
        assert record.seen["stop"] == {"status": 202, "body": {"stopped": True}}
    else:
        assert record.page.requests[0]["aborts"] == 1
        assert "abort" in {chunk["type"] for chunk in record.page.requests[0]["stream"]["chunks"]}


def every(*checks: Check) -> Check:
    """Return a check that does all these checks."""

    def check(record: Record) -> None:
        for one in checks:
            one(record)

    return check
