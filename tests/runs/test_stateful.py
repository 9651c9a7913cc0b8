"""Whatever clients, people, the model and the clock do, and wherever the server is stopped or killed: what holds, holds.

`ADKWIRE_EXAMPLES` says how many histories are tried; without it a few, always the same.
"""

import logging
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.runs import stateful_world as w
from tests.runs.stateful_world import CHATS, World

EXAMPLES = int(os.environ.get("ADKWIRE_EXAMPLES", "0"))
ACTS = (w.send, w.send_again, w.regenerate, w.edit, w.stop, w.answer, w.repost, w.join, w.look)
chats = st.sampled_from(CHATS)
acts = st.sampled_from(ACTS)
numbers = st.integers(0, 23)
steps = st.lists(
    st.sampled_from(["say", "think", "look", "look hold", "pay", "pay", "pay hold", "trip", "clock", "where"]),
    min_size=1,
    max_size=3,
)


class Server(RuleBasedStateMachine):
    """Everything that can happen to it. What a rule is about is chosen by numbers, so that a run can be repeated."""

    @initialize(on_busy=st.sampled_from(["replace", "replace", "queue", "refuse"]))
    def begin(self, on_busy: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name) / "state.db", on_busy=on_busy)
        self.world.step((w.send, CHATS[0], 0))

    @rule(act=acts, chat=chats, number=numbers)
    def ask(self, act: w.Act, chat: str, number: int) -> None:
        self.world.step((act, chat, number))

    @rule(chat=chats, number=numbers, by=st.sampled_from([w.answer, w.repost]))
    def settle(self, chat: str, number: int, by: w.Act) -> None:
        self.world.step((by, chat, number))

    @rule(first=acts, second=acts, chat=chats, numbers=st.tuples(numbers, numbers))
    def ask_two_at_once(self, first: w.Act, second: w.Act, chat: str, numbers: tuple[int, int]) -> None:
        self.world.step((first, chat, numbers[0]), (second, chat, numbers[1]))

    @rule(chat=chats)
    def delete(self, chat: str) -> None:
        self.world.step((w.delete, chat, 0))

    @rule(chat=chats, said=steps, ends=st.sampled_from(["", "end", "end", "end", "fail", "error"]))
    def the_model_goes_on(self, chat: str, said: list[str], ends: str) -> None:
        if (one := self.world.answering(chat)) is not None:
            self.world.go_on(one, [*said, *([ends] if ends else [])])

    @rule(chat=chats)
    def the_model_comes_to_its_end(self, chat: str) -> None:
        if (one := self.world.answering(chat)) is not None:
            self.world.go_on(one, ["say", "end"])

    @rule()
    def tools_end(self) -> None:
        self.world.let_tools_go()

    @rule(number=numbers)
    def read(self, number: int) -> None:
        self.world.with_reader(number, w.read)

    @rule(number=numbers, forgets=st.integers(0, 3))
    def cut(self, number: int, forgets: int) -> None:
        self.world.cut(number, forgets)

    @rule(number=numbers)
    def come_back(self, number: int) -> None:
        self.world.with_reader(number, w.come_back)

    @rule(seconds=st.sampled_from([10.0, 250.0, 600.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.time_passes(seconds)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule()
    def crash(self) -> None:
        self.world.die()

    @rule(writes=st.integers(1, 25), after=st.booleans())
    def crash_soon(self, writes: int, after: bool) -> None:
        self.world.doom(writes, after=after)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.end()
        finally:
            self.folder.cleanup()


def test_no_history_breaks_what_holds() -> None:
    logging.getLogger("adkwire").setLevel(logging.CRITICAL + 1)
    run_state_machine_as_test(
        Server,
        settings=settings(
            max_examples=EXAMPLES or 60,
            stateful_step_count=25,
            deadline=None,
            derandomize=not EXAMPLES,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
