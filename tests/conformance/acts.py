"""What a person does at a gate, one thing after the other: words for `acts.mjs`, so that a case reads like a story."""

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
    """A scenario of acts on one page, or on several. `last_only`: each sends only its newest message."""
    watch = any(one["do"] == "event" for one in acts)
    args = {"acts": list(acts), "predicate": predicate, "executor": executor, "watch": watch, "lastOnly": last_only}
    counts = {"page": requests} if isinstance(requests, int) else requests
    return Case(name, "act", args, check, counts, **expected)


def say(text: str) -> Act:
    """Type and send."""
    return {"do": "say", "text": text}


def approve(tool: str, nth: int = 0) -> Act:
    """Press yes on a card."""
    return {"do": "approve", "tool": tool, "nth": nth}


def deny(tool: str, nth: int = 0, reason: str | None = None) -> Act:
    """Press no on a card."""
    return {"do": "deny", "tool": tool, "nth": nth, "reason": reason}


def give(tool: str, output: Any, nth: int = 0) -> Act:
    """The page's own code brings an output."""
    return {"do": "give", "tool": tool, "nth": nth, "output": output}


def refuse(tool: str, error: str, nth: int = 0) -> Act:
    """The browser would not do it."""
    return {"do": "give", "tool": tool, "nth": nth, "error": error}


def now(one: Act) -> Act:
    """The next act follows at once; nobody waits for the page."""
    return {**one, "now": True}


def begin(one: Act) -> Act:
    """The next act follows while this one goes on; `REST` waits for its end."""
    return {**one, "begin": True}


def together(*acts: Act) -> Act:
    """In one breath."""
    return {"do": "together", "acts": list(acts)}


def load(name: str, **options: Any) -> Act:
    """Go on in a new page."""
    return {"do": "load", "name": name, **options}


def join(name: str, after: str, **options: Any) -> Act:
    """Go on in a new page while an answer is written; come back when this is on its screen."""
    return now({"do": "join", "name": name, "after": after, **options})


def keep(name: str, messages: list[dict[str, Any]]) -> Act:
    """Go on in a page that has these messages."""
    return {"do": "continue", "name": name, "messages": messages}


def call(tool: str, nth: int = 0, **body: Any) -> Act:
    """Answer by the calls route."""
    return {"do": "call", "tool": tool, "nth": nth, "body": body}


def race(tool: str, posts: int, *bodies: dict[str, Any]) -> Act:
    """Send the page's messages so often, and these bodies to the calls route, all at the same time."""
    return {"do": "race", "tool": tool, "posts": posts, "bodies": list(bodies)}


def late(tool: str, nth: int = 0, *, approved: bool = True) -> Act:
    """Press a button of a card that is no longer the last message, or no longer open."""
    return now({"do": "late", "tool": tool, "nth": nth, "approved": approved})


def elsewhere(text: str, name: str = "elsewhere") -> Act:
    """Somebody types in another chat, and is answered."""
    return now({"do": "elsewhere", "text": text, "name": name})


def see(what: str) -> Act:
    """Wait until this is on the screen."""
    return now({"do": "see", "what": what})


def turn(name: str) -> Act:
    """Go back to an older page."""
    return {"do": "turn", "name": name}


def edit(index: int, text: str) -> Act:
    """Change an earlier message."""
    return {"do": "edit", "index": index, "text": text}


def event(kind: str, times: int = 1) -> Act:
    """Wait for the user's event stream to tell of this so often, from the beginning of the scenario."""
    return now({"do": "event", "type": kind, "times": times})


def note(name: str) -> Act:
    """Keep what history says now."""
    return now({"do": "note", "as": name})


def becomes(tool: str, state: str, nth: int = 0) -> Act:
    """Wait until a call is in this state."""
    return now({"do": "becomes", "tool": tool, "nth": nth, "state": state})


def speak(text: str) -> Act:
    """Say it aloud, on a live page; `REST` is not needed: the server begins the turn."""
    return {"do": "speak", "text": text}


def murmur(text: str) -> Act:
    """Say it aloud while a call waits: it becomes part of that turn."""
    return now({"do": "murmur", "text": text})


def attached(text: str, *files: dict[str, Any]) -> Act:
    """Send files with a message."""
    return {"do": "attach", "text": text, "files": list(files)}


def told(kind: str, times: int = 1) -> Act:
    """Wait until the live socket of the page has told of this so often."""
    return now({"do": "told", "type": kind, "times": times})


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
