"""The invariants hold whatever clients, people, the model and the clock do, and wherever the server is killed.

`ADKWIRE_EXAMPLES` is the number of examples to try; without it a few, always the same.
"""

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.runs import stateful_acts as do
from tests.runs.stateful_world import CHATS, Act, World

EXAMPLES = int(os.environ.get("ADKWIRE_EXAMPLES", "0"))
EVERY = 1 if EXAMPLES else 3
"""How many writes later the server crashes in the next round of a story."""
ACTS = (do.send, do.send_again, do.regenerate, do.edit, do.stop, do.stop, do.answer, do.repost, do.join, do.look)
SCRIPTS = (
    "say",
    "think say",
    "say end",
    "pay end",
    "say pay pay end",
    "pay pay+hold end",
    "pay+hold look+hold end",
    "clock end",
    "where end",
    "clock pay end",
    "where pay clock end",
    "look trip end",
    "think look+hold end",
    "end",
    "say fail",
    "error",
)
chats = st.sampled_from(CHATS)
acts = st.sampled_from(ACTS)
numbers = st.integers(0, 23)
answers = st.sampled_from([do.answer, do.repost])


class ServerMachine(RuleBasedStateMachine):
    """Everything that can happen to a server. Numbers choose chats, readers and calls, so that examples can repeat."""

    @initialize(on_busy=st.sampled_from(["replace", "replace", "queue", "refuse"]))
    def begin(self, on_busy: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name) / "state.db", on_busy=on_busy)
        self.world.step((do.send, CHATS[0], 0))

    @rule(script=st.sampled_from(SCRIPTS), number=numbers)
    def continue_the_model(self, script: str, number: int) -> None:
        """Continue a request to the model with a script; if there is none, send a message first."""
        if not self.world.script(number, script.split()):
            self.world.step((do.send, CHATS[number % len(CHATS)], number))
            self.world.script(0, script.split())

    @rule()
    def release_tools(self) -> None:
        self.world.release_tools()

    @rule(first=acts, second=st.none() | acts, chat=chats, number=numbers)
    def do_actions(self, first: Act, second: Act | None, chat: str, number: int) -> None:
        """Do one action, or two at once."""
        actions = [(first, chat, number), (second, chat, number)]
        survived = self.world.step(*((act, where, which) for act, where, which in actions if act is not None))
        if survived and first is do.stop and second is None and do.stops_all(number):
            self.world.assert_stopped(chat)

    @rule(by=answers, other=st.none() | acts, number=numbers)
    def answer_a_call(self, by: Act, other: Act | None, number: int) -> None:
        """Answer a pending call, maybe with another action at once; if there is none, make the model ask."""
        waiting = self.world.waiting()
        if not waiting:
            self.continue_the_model("pay end", number)
            return
        chat, which = waiting[number % len(waiting)], number // len(waiting)
        actions = [(by, chat, which), (other, chat, number)]
        self.world.step(*((act, where, which) for act, where, which in actions if act is not None))

    @rule(what=st.sampled_from(["read", "cut", "come back"]), number=numbers, loses=st.integers(0, 3))
    def use_a_reader(self, what: str, number: int, loses: int) -> None:
        if what == "cut":
            self.world.cut(number, loses)
        else:
            self.world.with_reader(number, do.read if what == "read" else do.come_back)

    @rule(what=st.sampled_from(["restart", "crash", "delete", "time"]), number=numbers)
    def restart_crash_delete_or_wait(self, what: str, number: int) -> None:
        match what:
            case "restart":
                self.world.restart()
            case "crash":
                self.world.crash()
            case "delete":
                self.world.step((do.delete, CHATS[number % 2], 0))
            case _:
                self.world.advance_clock((10.0, 250.0, 600.0)[number % 3])

    @rule(writes=st.integers(1, 25), after=st.booleans())
    def crash_after_writes(self, writes: int, after: bool) -> None:
        self.world.crash_after(writes, after=after)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.end()
        finally:
            self.folder.cleanup()


def ask(world: World) -> None:
    world.step((do.send, "c0", 0))


def look_and_pay(world: World) -> None:
    """Text and calls, of which one is executing for a while; an approval, and the rest."""
    ask(world)
    world.script(0, ["think", "say", "look", "pay+hold", "end"])
    world.step((do.answer, "c0", 0))
    world.release_tools()
    world.script(0, ["say", "end"])


def answer_one_by_one(world: World) -> None:
    ask(world)
    world.script(0, ["where", "pay", "clock", "end"])
    for number in (0, 1, 0, 1, 0):
        world.step((do.repost, "c0", number))
    world.script(0, ["say", "end"])


def edit_regenerate_and_delete(world: World) -> None:
    ask(world)
    world.step((do.edit, "c0", 0), (do.send, "c0", 0))
    world.script(0, ["say", "pay", "end"])
    world.step((do.regenerate, "c0", 0))
    world.step((do.stop, "c0", 0))
    world.step((do.delete, "c0", 0))


def supersede_twice(world: World) -> None:
    """New messages while calls are pending, twice."""
    ask(world)
    world.script(0, ["clock", "pay", "end"])
    ask(world)
    ask(world)
    world.script(0, ["say", "end"])


def supersede_a_browser_call(world: World) -> None:
    """A new message while a browser call is pending, sent twice, as clients do after a lost connection."""
    ask(world)
    world.script(0, ["clock", "end"])
    ask(world)
    world.step((do.send_again, "c0", 0))
    world.script(0, ["say", "end"])


def supersede_and_answer(world: World) -> None:
    """The browser answers a superseded call during a stop; then the message is edited."""
    ask(world)
    world.script(0, ["clock", "end"])
    ask(world)
    world.step((do.answer, "c0", 2), (do.stop, "c0", 0))
    world.step((do.edit, "c0", 0))
    world.script(0, ["say", "end"])


STORIES = (
    look_and_pay,
    answer_one_by_one,
    edit_regenerate_and_delete,
    supersede_twice,
    supersede_a_browser_call,
    supersede_and_answer,
)


@pytest.mark.parametrize("story", STORIES)
def test_the_invariants_hold_wherever_the_server_is_killed(tmp_path: Path, story: Callable[[World], None]) -> None:
    """Repeat a story; each time the server crashes some writes later."""
    died, writes = True, 0
    while died:
        writes += EVERY
        world = World(tmp_path / f"{writes}.db")
        world.crash_after(writes, after=True)
        story(world)
        died = world.servers > 1
        world.end()
    assert writes > 20


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Switch off the logs: a server that crashes writes many."""
    for name in ("adkwire", "google_adk"):
        caplog.set_level(logging.CRITICAL + 1, logger=name)


def test_the_invariants_hold_after_any_sequence_of_actions() -> None:
    run_state_machine_as_test(
        ServerMachine,
        settings=settings(
            max_examples=EXAMPLES or 60,
            stateful_step_count=25,
            deadline=None,
            derandomize=not EXAMPLES,
            print_blob=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )
