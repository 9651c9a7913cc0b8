"""`kill -9` while a call is held in a live conversation: the card is there afterwards, and is answered once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.acts import EXECUTE, HANG_UP, Act, act, approve, call, deny, event, load, note, say
from tests.conformance.cases import Case
from tests.conformance.expected import STEP, Check, every, holds
from tests.conformance.gate_expected import FOUND, READ_ONE, paid, unpaid
from tests.conformance.judge import judge
from tests.conformance.records import Record, drive, live_columns, with_ledger
from tests.conformance.test_restart import Restarted, Story
from tests.servers import Server

PAID = holds(STEP, paid(5), STEP, words=READ_ONE)


def _found(record: Record) -> None:
    """Check that the call was pending, and that nothing was executed."""
    loaded = record.seen.get("found") or record.seen["loaded"]
    assert loaded["active"] is None
    assert len(loaded["pending"]) == 1


def _story(name: str, asked: str, *after: Act, check: Check = PAID, **expected: Any) -> Story:
    before = act(name, say(asked))
    kept = Case(name, before.drive, {**before.args, "keep": True})
    return Story(kept, act(name, *after, check=every(check, _found), **expected))


STORIES = [
    _story("approved live", "pay 5", load("page"), approve("pay"), ledger=("pay 5",)),
    _story("approved over http", "pay 5", load("page", over="http"), approve("pay"), ledger=("pay 5",)),
    _story("approved over a socket", "pay 5", load("page", over="socket"), approve("pay"), ledger=("pay 5",)),
    _story(
        "denied live",
        "pay 5",
        *(load("page"), deny("pay", reason="No.")),
        check=holds(STEP, unpaid(5, "No."), STEP),
    ),
    _story(
        "a gated browser call",
        "where",
        *(load("page", executor={}), approve("where"), HANG_UP, load("second"), EXECUTE),
        check=holds(STEP, FOUND, STEP, page="second"),
        requests={"page": 1, "second": 1},
        executions=("where",),
        cut=frozenset({"page"}),
    ),
    _story(
        "approved elsewhere",
        "pay 5",
        *(
            load("asked", over="http"),
            note("found"),
            call("pay", approved=True),
            event("run-ended"),
            load("page", over="http"),
        ),
        check=PAID,
        requests={"asked": 0, "page": 0},
        cut=frozenset({"asked"}),
        ledger=("pay 5",),
    ),
]


def _asks_first(column: str, case: Case) -> Case:
    """Return the requests of a page of ours that is loaded in live: it resumes the active run first."""
    live = {one["name"] for one in case.args["acts"] if one["do"] == "load" and "over" not in one}
    joins = 0 if "stock" in column else 1
    counts = {page: count + (joins if page in live else 0) for page, count in case.requests.items()}
    return replace(case, requests=counts)


def _play(host: Restarted, server: Server, cases: list[Case]) -> dict[str, dict[str, Record]]:
    return {
        column: with_ledger(
            drive(client, server.url, [case.job(case.chat(column)) for case in cases]),
            host.ledger,
        )
        for column, client in live_columns().items()
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Record]]:
    """Play the stories of all clients with one kill."""
    host = Restarted(Path(tmp_path_factory.mktemp("live-restart")))
    with host.server() as server:
        _play(host, server, [story.before for story in STORIES])
        server.kill()
    with host.server() as server:
        return _play(host, server, [story.after for story in STORIES])


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("column", live_columns())
def test_killed(played: dict[str, dict[str, Record]], column: str, story: Story) -> None:
    judge(_asks_first(column, story.after), played[column][story.name])
