"""The acts of a scenario, one after the other: what a user or a page does. `acts.mjs` carries them out."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.records import Record

Act = dict[str, Any]

HERE_IS = {"latitude": 35.5, "longitude": 139.5}
NOON = {"time": "noon"}
EXECUTOR = {"where": {"output": HERE_IS}, "clock": {"output": NOON}, "music": {"output": {"track": 1}}}


def act(
    name: str,
    *acts: Act,
    check: Callable[[Record], None] = lambda record: None,
    requests: int | Mapping[str, int] = 1,
    predicate: str = "eager",
    executor: Mapping[str, Any] = EXECUTOR,
    last_only: bool = False,
    **expected: Any,
) -> Case:
    """Return a scenario of acts on one page or several. With `last_only` a page sends only its newest message."""
    watch = any(one["do"] == "event" for one in acts)
    args = {"acts": list(acts), "predicate": predicate, "executor": executor, "watch": watch, "lastOnly": last_only}
    counts = {"page": requests} if isinstance(requests, int) else requests
    return Case(name, "act", args, check, counts, **expected)


def say(text: str) -> Act:
    """Send a typed message."""
    return {"do": "say", "text": text}


def approve(tool: str, nth: int = 0) -> Act:
    """Approve a call."""
    return {"do": "approve", "tool": tool, "nth": nth}


def deny(tool: str, nth: int = 0, reason: str | None = None) -> Act:
    """Deny a call."""
    return {"do": "deny", "tool": tool, "nth": nth, "reason": reason}


def give(tool: str, output: Any, nth: int = 0) -> Act:
    """Send the output of a browser tool."""
    return {"do": "give", "tool": tool, "nth": nth, "output": output}


def refuse(tool: str, error: str, nth: int = 0) -> Act:
    """Send the error of a browser tool."""
    return {"do": "give", "tool": tool, "nth": nth, "error": error}


def now(one: Act) -> Act:
    """Begin the next act at once, without waiting for the page."""
    return {**one, "now": True}


def begin(one: Act) -> Act:
    """Begin the next act while this one is running; `REST` waits for its end."""
    return {**one, "begin": True}


def together(*acts: Act) -> Act:
    """Do all these acts without waiting in between."""
    return {"do": "together", "acts": list(acts)}


def load(name: str, **options: Any) -> Act:
    """Load a new page, in which the next acts happen."""
    return {"do": "load", "name": name, **options}


def join(name: str, after: str, **options: Any) -> Act:
    """Load a new page while an answer is being written; return to the old one when this text is on its screen."""
    return now({"do": "join", "name": name, "after": after, **options})


def keep(name: str, messages: list[dict[str, Any]]) -> Act:
    """Continue in a page that has these messages."""
    return {"do": "continue", "name": name, "messages": messages}


def call(tool: str, nth: int = 0, **body: Any) -> Act:
    """Answer a call by the calls route."""
    return {"do": "call", "tool": tool, "nth": nth, "body": body}


def race(tool: str, posts: int, *bodies: dict[str, Any]) -> Act:
    """Post the page's messages so many times, and these bodies to the calls route, all at the same time."""
    return {"do": "race", "tool": tool, "posts": posts, "bodies": list(bodies)}


def late(tool: str, nth: int = 0, *, approved: bool = True) -> Act:
    """Answer a call that is not in the last message any more, or is not pending any more."""
    return now({"do": "late", "tool": tool, "nth": nth, "approved": approved})


def elsewhere(text: str, name: str = "elsewhere") -> Act:
    """Send a message in another chat, and wait for its answer."""
    return now({"do": "elsewhere", "text": text, "name": name})


def see(what: str) -> Act:
    """Wait until this text is on the screen."""
    return now({"do": "see", "what": what})


def turn(name: str) -> Act:
    """Return to an earlier page."""
    return {"do": "turn", "name": name}


def edit(index: int, text: str) -> Act:
    """Edit an earlier message."""
    return {"do": "edit", "index": index, "text": text}


def event(kind: str, times: int = 1) -> Act:
    """Wait until `/api/events` has sent so many events of this type since the beginning of the scenario."""
    return now({"do": "event", "type": kind, "times": times})


def note(name: str) -> Act:
    """Store the current history in the record, under this name."""
    return now({"do": "note", "as": name})


def becomes(tool: str, state: str, nth: int = 0) -> Act:
    """Wait until a call is in this state."""
    return now({"do": "becomes", "tool": tool, "nth": nth, "state": state})


def speak(text: str) -> Act:
    """Speak on a live page; `REST` is not needed, because the server begins the turn."""
    return {"do": "speak", "text": text}


def murmur(text: str) -> Act:
    """Speak while a call is pending: the speech becomes part of that turn."""
    return now({"do": "murmur", "text": text})


def attached(text: str, *files: dict[str, Any]) -> Act:
    """Send files with a message."""
    return {"do": "attach", "text": text, "files": list(files)}


def until_frame(kind: str, times: int = 1) -> Act:
    """Wait until the live socket of the page has received so many frames of this type."""
    return now({"do": "frame", "type": kind, "times": times})


BEGUN = elsewhere("begun $CHAT", "watching")
"""Wait until the body of the tool `slow` runs."""
RELEASE = elsewhere("release $CHAT", "releasing")
CUT: Act = {"do": "cut"}
LOSE: Act = now({"do": "lose"})
INTERRUPT: Act = now({"do": "interrupt"})
HANG_UP: Act = now({"do": "hang"})
PRESS_STOP: Act = now({"do": "press"})
RESUME: Act = now({"do": "resume"})
SEND: Act = {"do": "send"}
REST: Act = {"do": "rest"}
STOP: Act = {"do": "stop"}
ENDED: Act = now({"do": "ended"})
EXECUTE: Act = {"do": "execute"}
REGENERATE: Act = {"do": "regenerate"}
AUDIT: Act = now({"do": "audit"})
