"""A server is stopped while calls are pending, by SIGTERM and by `kill -9`, and started again on the same file."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.acts import (
    BEGUN,
    CUT,
    EXECUTE,
    SEND,
    Act,
    act,
    approve,
    begin,
    call,
    deny,
    event,
    keep,
    load,
    note,
    now,
    say,
)
from tests.conformance.cases import Case
from tests.conformance.expected import STEP, bare, every, failed, holds, says, verdict
from tests.conformance.gate_expected import FOUND, READ_ONE, TOLD, paid, unpaid
from tests.conformance.judge import judge
from tests.conformance.records import EVERYWHERE, HERE, Record, columns, drive, packages, thorough, with_ledger
from tests.servers import Server, serve

KEPT: Act = keep("page", [])
"""The page that was open all the time; its messages are put in when they are known."""


@dataclass(frozen=True)
class Story:
    """The acts before the server is stopped, and those after it was started again."""

    before: Case
    after: Case

    @property
    def name(self) -> str:
        return self.after.name


def story(name: str, before: tuple[Act, ...], *after: Act, hold: bool = False, **expected: Any) -> Story:
    """Return a story. With `hold` the page sends and executes nothing automatically before the restart."""
    options: dict[str, Any] = {"predicate": "never", "executor": {}} if hold else {}
    return Story(act(name, *before, **options), act(name, *after, **expected))


def _unknown(record: Record) -> None:
    """Check that the outcome of the call is reported as unknown, and stays so."""
    assert record.seen["found"]["pending"] == []
    part = bare(record.seen["found"]["messages"][1])[1]
    assert part == {**failed("slow", {"amount": 5}), "approval": verdict(True)}
    assert bare(record.history["messages"][1])[1] == part
    assert "not known" in part["errorText"] or "unknown" in part["errorText"]


def _told_unknown(record: Record) -> None:
    """Check that the part of the call says that its outcome is unknown."""
    part = bare(record.page.messages[1])[1]
    assert part == {**failed("slow", {"amount": 5}), "approval": verdict(True)}
    assert "unknown" in part["errorText"]


WAITING = [
    story(
        "approved",
        (say("pay 5"),),
        *(load("page"), approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        ledger=("pay 5",),
    ),
    story(
        "approved in the page that was open",
        (say("pay 5"),),
        *(KEPT, approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        ledger=("pay 5",),
    ),
    story(
        "denied",
        (say("pay 5"),),
        *(load("page"), deny("pay", reason="No.")),
        check=holds(STEP, unpaid(5, "No."), STEP),
    ),
    story(
        "browser call",
        (say("clock"),),
        *(load("page"), EXECUTE),
        check=holds(STEP, TOLD, STEP),
        hold=True,
        executions=("clock",),
    ),
    story(
        "gated browser call",
        (say("where"),),
        *(load("page"), approve("where")),
        check=holds(STEP, FOUND, STEP),
        requests=2,
        executions=("where",),
    ),
    story(
        "gated browser call that was approved",
        (say("where"), approve("where"), SEND),
        *(load("page"), EXECUTE),
        check=holds(STEP, FOUND, STEP),
        hold=True,
        executions=("where",),
    ),
    story(
        "half answered",
        (say("pay 5 + pay 6"), approve("pay"), SEND),
        *(KEPT, approve("pay", 1), SEND),
        check=holds(STEP, paid(5), paid(6), STEP),
        hold=True,
        predicate="never",
        ledger=("pay 5", "pay 6"),
    ),
    story(
        "typed over",
        (say("pay 5"),),
        *(KEPT, say("hello")),
        check=every(says("Hello to you.")),
        cut=frozenset({"page"}),
    ),
    story(
        "answered by the route",
        (say("pay 5"),),
        *(load("asked"), call("pay", approved=True), event("run-ended"), load("page")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests={"asked": 0, "page": 0},
        cut=frozenset({"asked"}),
        ledger=("pay 5",),
    ),
]
RUNNING = [
    story(
        "in the approved tool",
        (say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT),
        # Not until the page has nothing to send: a step that ends with a failed call counts as answered.
        *(now(load("page")), note("found"), say("hello")),
        check=every(says("Hello to you."), _unknown),
        hold=True,
        ledger=("slow 5",),
    ),
    story(
        "in the approved tool, sent again",
        (say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT),
        *(KEPT, SEND),
        check=_told_unknown,
        hold=True,
        predicate="never",
        error="The server stopped before this answer was finished.",
        ledger=("slow 5",),
        cut=frozenset({"page"}),
    ),
]


class Restarted:
    """A server on one file that can be ended and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"

    @contextlib.contextmanager
    def server(self) -> Generator[Server]:
        agents = HERE / "agents"
        args = (str(agents / "gated.py"), "--policy", str(agents / "policy.toml"))
        env = {"LEDGER": str(self.ledger), "ADKWIRE_SOCKETS_PER_USER": "1000"}
        with serve(*args, cwd=self.folder, env=env) as server:
            yield server

    def play(self, server: Server, cases: dict[str, list[Case]], end: str) -> dict[str, dict[str, Record]]:
        """These cases of each version; `end` tells the chats of one end from those of the other."""
        return {
            version: with_ledger(
                drive(columns()[version], server.url, [case.job(case.chat(f"{end}-{version}")) for case in found]),
                self.ledger,
            )
            for version, found in cases.items()
        }


def _after(story: Story, record: Record) -> Case:
    acts = [
        {**one, "messages": record.page.messages} if one["do"] == "continue" else one
        for one in story.after.args["acts"]
    ]
    return replace(story.after, args={**story.after.args, "acts": acts})


def _shares(stories: list[Story]) -> dict[str, list[Story]]:
    """Return the stories of each client: all, but those share them out which share scenarios (`matrix`)."""
    sharing = [version for version in packages() if version not in thorough() and not EVERYWHERE]
    every = dict.fromkeys(columns(), stories)
    return every | {version: stories[hand :: len(sharing)] for hand, version in enumerate(sharing)}


def _befores(stories: list[Story]) -> dict[str, list[Case]]:
    return {version: [story.before for story in share] for version, share in _shares(stories).items()}


def _afters(stories: list[Story], before: dict[str, dict[str, Record]]) -> dict[str, list[Case]]:
    return {
        version: [_after(story, before[version][story.name]) for story in share]
        for version, share in _shares(stories).items()
    }


def by_client(stories: list[Story]) -> pytest.MarkDecorator:
    """The stories of each client, whose name comes first."""
    every = [(version, story) for version, share in _shares(stories).items() for story in share]
    return pytest.mark.parametrize(("version", "story"), every, ids=[f"{name}-{story.name}" for name, story in every])


Played = dict[str, dict[str, dict[str, Record]]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Both ends of a server in one go: three servers, one after the other, on one file."""
    host = Restarted(tmp_path_factory.mktemp("restart"))
    killed = [*WAITING, *RUNNING]
    with host.server() as server:
        before = host.play(server, _befores(WAITING), "term")
    with host.server() as server:
        terminated = host.play(server, _afters(WAITING, before), "term")
        before = host.play(server, _befores(killed), "kill")
        server.kill()
    with host.server() as server:
        return {"term": terminated, "kill": host.play(server, _afters(killed, before), "kill")}


@by_client(WAITING)
def test_told_to_stop(played: Played, version: str, story: Story) -> None:
    judge(story.after, played["term"][version][story.name])


@by_client([*WAITING, *RUNNING])
def test_killed(played: Played, version: str, story: Story) -> None:
    judge(story.after, played["kill"][version][story.name])
