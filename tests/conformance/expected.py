"""Words for what an answer has to hold, so that a case reads like the message it expects."""

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
    """A call that came to nothing."""
    return {"type": f"tool-{name}", "state": "output-error", "input": arguments, "errorText": why}


def shape(message: Message) -> list[Part]:
    """The parts without the ids that differ from run to run."""
    return [_without_ids(part) for part in message["parts"]]


def _without_ids(part: Part) -> Part:
    dropped = {"toolCallId", "sourceId", "id"}
    return {key: value for key, value in part.items() if key not in dropped}


def answers(*parts: Part) -> Check:
    """The last answer of the page has exactly these parts."""

    def check(record: Record) -> None:
        assert shape(record.page.answer) == list(parts)

    return check


def says(words: str) -> Check:
    """The visible text of the last answer is this."""

    def check(record: Record) -> None:
        assert record.page.text == words

    return check


def speaks(record: Record) -> None:
    """The last answer has words; which ones is left open."""
    assert record.page.text.strip()


def every(*checks: Check) -> Check:
    """All of these."""

    def check(record: Record) -> None:
        for one in checks:
            one(record)

    return check
