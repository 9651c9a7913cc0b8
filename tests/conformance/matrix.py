"""Which client does which scenario, on which store: the newest and the oldest do everything, the others share.

| client | scenarios | on SQLite, the others in memory |
|---|---|---|
| over HTTP: the oldest version, and the newest of each major | all | the newest |
| over HTTP: the versions between them | each by at least one of them (`shared_out`) | |
| over sockets: the newest of each major | all, but the mixes of verdicts by one of them | the older |
| in live: the newest of each major, and the stock transport | the same | the newest |
| in live with an emulated Gemini | all by the stock transport, and by one of ours | |

`EVERYWHERE=1` in the environment lets every client do everything, on both stores and with every live model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.records import EVERYWHERE

ONLY_ONE = frozenset({"artifact", "code", "pcm", "state"})
"""Scenarios that alone bring a kind of chunk: every client does them."""


def shared_out(cases: Sequence[Case], hand: int, hands: int) -> list[Case]:
    """Return the cases of one of so many clients, in order.

    The cases are dealt out in turns, so each is done by one client at least. A client also does the first case of every
    trait that it was dealt none of, so each client meets every kind of act, of ending and of call.
    """
    if EVERYWHERE or hands == 1:
        return list(cases)
    mine = {case.name for case in cases[hand::hands]} | ONLY_ONE
    met = {trait for case in cases if case.name in mine for trait in traits(case)}
    for case in cases:
        if not traits(case) <= met:
            mine.add(case.name)
            met |= traits(case)
    return [case for case in cases if case.name in mine]


def traits(case: Case) -> set[str]:
    """Return what is special about a case: how it is driven, what is done and called in it, and how it ends."""
    ends = {name for name in ("error", "recovers", "refused", "cut", "lost", "behind", "left") if getattr(case, name)}
    options = {f"{name}={case.args[name]}" for name in ("predicate", "lastOnly", "watch") if name in case.args}
    return {case.drive, *ends, *options, *_doings(case.args.get("acts", ()))}


def _doings(acts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for act in acts:
        yield act["do"]
        yield from (
            f"{act['do']} {name}" for name in ("now", "begin", "reason", "error", "over", "http") if act.get(name)
        )
        yield from (f"{act['do']} {act[name]}" for name in ("tool", "type") if name in act)
        if "text" in act:
            yield from (f"call {step.split()[0]}" for step in act["text"].replace("|", "+").split("+"))
        yield from _doings(act.get("acts", ()))
