"""The contract tests of every `GateStore`. The test module of a store inherits them and has a fixture for the store."""

import asyncio
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from adkwire.stores.base import CallRow, GateStore, GrantRow
from tests.stores.steps import Steps

ODD_NAMES = (
    "",
    "plain",
    "PLAIN",
    "é",
    "e\u0301",
    "東京 🗼 \u202e\ufeff\u2028\uffff\U0010ffff",
    "'; DROP TABLE adkwire_calls; --",
    "%_*?",
    " \t\r\n",
    "x" * 5000,
)

ALL = 1000
"""More calls than a test has."""


def row(call: str = "call", state: str = "asked", *, user: str = "user", chat: str = "chat", **more: object) -> CallRow:
    return replace(CallRow(user, chat, call, state, b"data of " + call.encode()), **more)


def names(rows: Iterable[CallRow]) -> list[str]:
    return [one.call for one in rows]


async def claim(store: GateStore, found: CallRow, name: str) -> bool:
    return await store.replace(replace(found, state="executing", data=name.encode()))


async def count_up(store: GateStore, times: int) -> None:
    """Read, add one, write back if nobody else did; `times` times with success."""
    while times:
        found = await store.get("user", "chat", "call")
        assert found is not None
        times -= await store.replace(replace(found, data=b"%d" % (int(found.data) + 1)))


async def add_others(store: GateStore, numbers: Iterable[int]) -> None:
    """Calls and grants that are no answer to any of the questions below, and that expire later than those that are."""
    for number in numbers:
        name, later = f"other {number}", 1000.0 - number
        await store.add(row(name, "done", expires_at=0.0))
        await store.add(row(name, "asked", user="other", expires_at=later))
        await store.add(row(name, "offered", user=name, expires_at=later))
        await store.add(row(name, "answered", chat="other"))
        await store.grant("user", "chat", name)


async def work_of_questions(store: GateStore, steps: Steps) -> dict[str, int]:
    return {
        "get": await steps(store.get("user", "chat", "2")),
        "find": await steps(store.find("user", ["asked", "offered"])),
        "find in a chat": await steps(store.find("user", ["asked", "offered", "answered"], "chat")),
        "find nothing": await steps(store.find("user", ["executing"], "chat")),
        "expiring": await steps(store.expiring(["asked", "offered"], 2000.0, 3)),
        "next expiry": await steps(store.next_expiry(["asked", "offered"])),
        "granted": await steps(store.granted("user", "chat", ["tool 2", "none"])),
        "grants": await steps(store.grants("granter", 2)),
        "grants before": await steps(store.grants("granter", 1, before=3)),
    }


class GateStoreContract:
    """The tests. `store` is a fixture of the module that inherits; `other` is a second one, as another worker on the
    same data has it; `steps` is that of `tests.stores.steps`."""

    async def test_a_call_comes_back_as_it_was_added_with_version_0(self, store: GateStore) -> None:
        assert await store.add(row(expires_at=12.5, version=7))
        assert await store.get("user", "chat", "call") == row(expires_at=12.5, version=0)

    async def test_an_unknown_call_is_none(self, store: GateStore) -> None:
        await store.add(row())
        assert await store.get("user", "chat", "other") is None
        assert await store.get("user", "other", "call") is None
        assert await store.get("other", "chat", "call") is None

    async def test_a_call_is_added_once(self, store: GateStore) -> None:
        await store.add(row())
        assert not await store.add(row(state="done"))
        assert await store.calls("user", "chat") == [row()]

    async def test_the_same_call_of_another_chat_or_user_is_another(self, store: GateStore) -> None:
        rows = [row(), row(chat="other"), row(user="other")]
        for one in rows:
            assert await store.add(one)
        assert await store.replace(row(chat="other", state="done"))
        assert await store.calls("user", "chat") == [row()]
        assert await store.calls("other", "chat") == [row(user="other")]

    @pytest.mark.parametrize("odd", ODD_NAMES, ids=range(len(ODD_NAMES)))
    async def test_names_may_be_anything(self, store: GateStore, odd: str) -> None:
        kept = row(odd, odd, user=odd, chat=odd)
        await store.add(row("neighbour", odd, user=odd, chat=odd + "."))
        assert await store.add(kept)
        assert not await store.add(kept)
        assert await store.get(odd, odd, odd) == kept
        assert await store.replace(kept)
        assert await store.calls(odd, odd) == [replace(kept, version=1)]
        assert len(await store.find(odd, [odd])) == 2
        await store.grant(odd, "chat", odd)
        assert await store.granted(odd, "chat", [odd])
        assert not await store.granted(odd, "chat", [odd + "."])

    async def test_names_that_look_alike_are_apart(self, store: GateStore) -> None:
        for name in ODD_NAMES:
            assert await store.add(row(name))
            assert not await store.granted(name, "chat", ODD_NAMES)
            await store.grant(name, "chat", "tool")
        assert names(await store.calls("user", "chat")) == list(ODD_NAMES)

    @pytest.mark.parametrize("data", [b"", b"\x00\xff\r\n'", b"x" * 1_000_000], ids=["empty", "binary", "large"])
    async def test_data_may_be_anything(self, store: GateStore, data: bytes) -> None:
        await store.add(row("first", data=data))
        await store.add(row("second"))
        await store.replace(row("second", data=data))
        await store.add_audit_line("user", "chat", data)
        assert [one.data for one in await store.calls("user", "chat")] == [data, data]
        assert await store.audit_lines("user", "chat") == [data]

    async def test_a_replaced_call_has_the_next_version(self, store: GateStore) -> None:
        await store.add(row(expires_at=1.0))
        assert await store.replace(row(state="answered", data=b"new", expires_at=None))
        assert await store.get("user", "chat", "call") == row(state="answered", data=b"new", version=1)
        assert await store.replace(row(state="done", expires_at=3.0, version=1))
        assert await store.get("user", "chat", "call") == row(state="done", expires_at=3.0, version=2)

    @pytest.mark.parametrize("version", [-1, 0, 2])
    async def test_another_version_replaces_nothing(self, store: GateStore, version: int) -> None:
        await store.add(row())
        await store.replace(row(state="answered"))
        assert not await store.replace(row(state="stale", version=version))
        assert await store.get("user", "chat", "call") == row(state="answered", version=1)

    async def test_an_unknown_call_is_not_replaced(self, store: GateStore) -> None:
        await store.add(row(chat="other"))
        assert not await store.replace(row())
        assert await store.calls("user", "chat") == []

    async def test_of_many_who_claim_a_call_one_succeeds(self, store: GateStore, other: GateStore) -> None:
        await store.add(row())
        found = await other.get("user", "chat", "call")
        assert found is not None
        stores = [store, other] * 8
        won = await asyncio.gather(*(claim(one, found, str(number)) for number, one in enumerate(stores)))
        assert won.count(True) == 1
        winner = row(state="executing", data=str(won.index(True)).encode(), version=1)
        assert await store.calls("user", "chat") == await other.calls("user", "chat") == [winner]

    async def test_of_many_who_add_a_call_one_succeeds(self, store: GateStore, other: GateStore) -> None:
        rows = [row(data=str(number).encode()) for number in range(16)]
        added = await asyncio.gather(*(one.add(kept) for one, kept in zip([store, other] * 8, rows, strict=True)))
        assert added.count(True) == 1
        assert await store.calls("user", "chat") == [rows[added.index(True)]]

    async def test_no_replacement_is_lost(self, store: GateStore, other: GateStore) -> None:
        await store.add(row(data=b"0"))
        await asyncio.gather(*(count_up(one, 5) for one in [store, other] * 2))
        assert await store.get("user", "chat", "call") == row(data=b"20", version=20)

    async def test_calls_are_in_the_order_they_were_added(self, store: GateStore) -> None:
        for call in ("b", "c", "a"):
            await store.add(row(call))
            await store.add(row(call, chat="other"))
        await store.replace(row("b", "done", expires_at=1.0))
        assert names(await store.calls("user", "chat")) == ["b", "c", "a"]
        assert await store.calls("user", "none") == []
        assert await store.calls("other", "chat") == []

    async def test_find_looks_in_all_chats_of_the_user(self, store: GateStore) -> None:
        await store.add(row("1", "asked"))
        await store.add(row("2", "offered", chat="other"))
        await store.add(row("3", "done"))
        await store.add(row("4", "asked", user="other"))
        await store.add(row("5", "asked", chat="other"))
        assert names(await store.find("user", {"asked", "offered"})) == ["1", "2", "5"]
        assert names(await store.find("user", ["done"])) == ["3"]
        assert await store.find("user", ["executing"]) == []

    async def test_find_looks_in_one_chat(self, store: GateStore) -> None:
        await store.add(row("1", "asked"))
        await store.add(row("2", "asked", chat="other"))
        await store.add(row("3", "answered"))
        await store.add(row("4", "done"))
        await store.add(row("5", "asked", user="other"))
        await store.add(row("6", "asked"))
        await store.add(row("7", "asked", chat=""))
        assert names(await store.find("user", {"answered", "asked"}, "chat")) == ["1", "3", "6"]
        assert names(await store.find("user", {"answered", "asked"}, "")) == ["7"]
        assert await store.find("user", ["asked"], "none") == []
        await store.replace(row("1", "done"))
        assert names(await store.find("user", ["asked"], "chat")) == ["6"]
        await store.forget("user", "chat")
        assert await store.find("user", ["asked"], "chat") == []

    async def test_find_follows_the_state(self, store: GateStore) -> None:
        await store.add(row())
        await store.replace(row(state="done"))
        assert await store.find("user", ["asked"]) == []
        assert await store.find("user", ["done"]) == [row(state="done", version=1)]

    async def test_expiring_is_what_is_due_of_everybody_earliest_first(self, store: GateStore) -> None:
        await store.add(row("never"))
        await store.add(row("later", expires_at=10.001))
        await store.add(row("now", expires_at=10.0))
        await store.add(row("settled", "done", expires_at=1.0))
        await store.add(row("second", "offered", user="other", expires_at=2.5))
        await store.add(row("first", chat="other", expires_at=-1.0))
        await store.add(row("third", expires_at=2.5))
        due = await store.expiring(("asked", "offered"), 10.0, ALL)
        assert names(due) == ["first", "second", "third", "now"]
        assert due[1] == row("second", "offered", user="other", expires_at=2.5)
        assert await store.expiring(["asked"], -2.0, ALL) == []

    async def test_expiring_is_no_more_than_the_limit(self, store: GateStore) -> None:
        for second in (5, 3, 1, 4, 2):
            await store.add(row(f"asked {second}", expires_at=float(second)))
            await store.add(row(f"offered {second}", "offered", expires_at=float(second)))
        assert names(await store.expiring(("offered", "asked"), 3.0, 3)) == ["asked 1", "offered 1", "asked 2"]
        assert names(await store.expiring(["offered"], 3.0, 9)) == ["offered 1", "offered 2", "offered 3"]
        assert await store.expiring(["offered"], 3.0, 0) == []

    async def test_the_next_expiry_is_the_earliest_of_everybody_in_these_states(self, store: GateStore) -> None:
        assert await store.next_expiry(["asked", "offered"]) is None
        await store.add(row("never"))
        assert await store.next_expiry(["asked", "offered"]) is None
        await store.add(row("settled", "done", expires_at=1.0))
        await store.add(row("later", expires_at=20.0))
        await store.add(row("first", "offered", user="other", expires_at=10.5))
        assert await store.next_expiry(["asked", "offered"]) == await store.next_expiry(["offered", "asked"]) == 10.5
        assert await store.next_expiry(["asked"]) == 20.0
        assert await store.next_expiry([]) is None
        await store.replace(row("first", "offered", user="other", expires_at=30.0))
        assert await store.next_expiry(["asked", "offered"]) == 20.0
        await store.replace(row("later", "done", expires_at=20.0))
        assert await store.next_expiry(["asked", "offered"]) == 30.0
        await store.forget("other", "chat")
        assert await store.next_expiry(["asked", "offered"]) is None

    async def test_expiring_follows_the_row(self, store: GateStore) -> None:
        await store.add(row(expires_at=1.0))
        await store.replace(row(expires_at=20.0))
        assert await store.expiring(["asked"], 10.0, ALL) == []
        await store.replace(row(expires_at=5.0, version=1))
        assert names(await store.expiring(["asked"], 10.0, ALL)) == ["call"]
        await store.replace(row(version=2))
        assert await store.expiring(["asked"], 10.0, ALL) == []

    async def test_no_state_finds_nothing(self, store: GateStore) -> None:
        await store.add(row(expires_at=1.0))
        assert await store.find("user", ()) == []
        assert await store.find("user", (), "chat") == []
        assert await store.expiring((), 10.0, ALL) == []

    async def test_a_question_reads_nothing_but_its_answer(self, store: GateStore, steps: Steps) -> None:
        for what in ("a", "b", "c"):
            await store.grant("granter", "chat", what)
        for call in ("1", "2", "3"):
            await store.add(row(call, expires_at=float(call)))
            await store.grant("user", "chat", f"tool {call}")
        await add_others(store, range(10))
        few = await work_of_questions(store, steps)
        await add_others(store, range(10, 200))
        assert await work_of_questions(store, steps) == few

    async def test_a_list_does_not_change_afterwards_nor_changes_the_store(self, store: GateStore) -> None:
        await store.add(row(expires_at=1.0))
        await store.add_audit_line("user", "chat", b"line")
        calls, found = await store.calls("user", "chat"), await store.find("user", ["asked"])
        due, lines = await store.expiring(["asked"], 1.0, ALL), await store.audit_lines("user", "chat")
        await store.replace(row(state="done"))
        await store.add(row("second"))
        await store.add_audit_line("user", "chat", b"second")
        assert calls == found == due == [row(expires_at=1.0)]
        assert lines == [b"line"]
        calls.clear()
        lines.clear()
        assert len(await store.calls("user", "chat")) == len(await store.audit_lines("user", "chat")) == 2

    async def test_a_grant_is_for_its_user_and_chat(self, store: GateStore) -> None:
        await store.grant("user", "chat", "tool")
        assert await store.granted("user", "chat", ["other", "tool"])
        assert not await store.granted("user", "chat", ["other"])
        assert not await store.granted("user", "chat", [])
        assert not await store.granted("user", "other", ["tool"])
        assert not await store.granted("user", "", ["tool"])
        assert not await store.granted("other", "chat", ["tool"])

    async def test_a_grant_without_a_chat_is_for_all_of_the_user(self, store: GateStore) -> None:
        await store.grant("user", "", "tool")
        await store.grant("user", "", "tool")
        assert await store.granted("user", "chat", {"tool"})
        assert await store.granted("user", "", {"tool"})
        assert not await store.granted("user", "chat", {"other"})
        assert not await store.granted("other", "chat", {"tool"})

    async def test_grants_are_listed_newest_first_and_by_pages(self, store: GateStore, other: GateStore) -> None:
        for number, (chat, what) in enumerate([("chat", "a"), ("", "b"), ("other", "a"), ("chat", "c")]):
            await (store, other)[number % 2].grant("user", chat, what, b"data of %d" % number)
        await store.grant("other", "chat", "d")
        rows = await store.grants("user", ALL)
        assert [(row.user, row.chat, row.what, row.data) for row in rows] == [
            ("user", "chat", "c", b"data of 3"),
            ("user", "other", "a", b"data of 2"),
            ("user", "", "b", b"data of 1"),
            ("user", "chat", "a", b"data of 0"),
        ]
        assert await other.grants("user", 2) == rows[:2]
        assert await store.grants("user", 1, before=rows[1].id) == rows[2:3]
        assert await store.grants("user", ALL, before=rows[1].id) == rows[2:]
        assert await store.grants("user", ALL, before=rows[-1].id) == []
        assert await store.grants("nobody", ALL) == []

    async def test_the_same_grant_again_is_the_one_that_is_there(self, store: GateStore) -> None:
        await store.grant("user", "chat", "tool", b"first")
        await store.grant("user", "chat", "other")
        before = await store.grants("user", ALL)
        await store.grant("user", "chat", "tool", b"second")
        assert await store.grants("user", ALL) == before

    async def test_a_grant_is_revoked_once_by_its_user(self, store: GateStore, other: GateStore) -> None:
        await store.grant("user", "chat", "tool", b"data")
        await store.grant("user", "", "tool")
        always, here = await store.grants("user", ALL)
        assert await store.revoke("other", here.id) is None
        assert await store.revoke("user", always.id + 1) is None
        revoked = await asyncio.gather(*(one.revoke("user", here.id) for one in (store, other, store)))
        assert [row for row in revoked if row is not None] == [here]
        assert here == GrantRow(here.id, "user", "chat", "tool", b"data")
        assert await store.granted("user", "chat", ["tool"])
        assert await store.revoke("user", always.id) == always
        assert not await other.granted("user", "chat", ["tool"])
        assert await store.grants("user", ALL) == []

    async def test_the_id_of_a_grant_is_not_used_again(self, store: GateStore) -> None:
        await store.grant("user", "chat", "tool")
        [first] = await store.grants("user", ALL)
        await store.revoke("user", first.id)
        await store.grant("user", "chat", "tool")
        [second] = await store.grants("user", ALL)
        assert second.id > first.id
        assert await store.revoke("user", first.id) is None
        assert await store.granted("user", "chat", ["tool"])

    async def test_the_audit_keeps_every_line_in_order(self, store: GateStore, other: GateStore) -> None:
        for line in (b"asked", b"approved", b"asked"):
            await store.add_audit_line("user", "chat", line)
            await other.add_audit_line("user", "other", line + b" elsewhere")
        assert await other.audit_lines("user", "chat") == [b"asked", b"approved", b"asked"]
        assert await store.audit_lines("user", "other") == [
            b"asked elsewhere",
            b"approved elsewhere",
            b"asked elsewhere",
        ]
        assert await store.audit_lines("other", "chat") == []

    async def test_forget_drops_calls_and_grants_of_the_chat_and_nothing_else(self, store: GateStore) -> None:
        for user, chat in (("user", "chat"), ("user", "other"), ("other", "chat")):
            await store.add(row(user=user, chat=chat))
            await store.grant(user, chat, "tool")
            await store.add_audit_line(user, chat, b"line")
        await store.grant("user", "", "always")
        await store.forget("user", "chat")
        assert await store.calls("user", "chat") == []
        assert not await store.granted("user", "chat", ["tool"])
        assert await store.granted("user", "chat", ["always"])
        assert [(grant.chat, grant.what) for grant in await store.grants("user", ALL)] == [
            ("", "always"),
            ("other", "tool"),
        ]
        assert await store.audit_lines("user", "chat") == [b"line"]
        for user, chat in (("user", "other"), ("other", "chat")):
            assert await store.calls(user, chat) == [row(user=user, chat=chat)]
            assert await store.granted(user, chat, ["tool"])

    async def test_a_forgotten_call_can_be_added_anew(self, store: GateStore) -> None:
        await store.add(row("a"))
        await store.add(row("b"))
        await store.replace(row("a", "done"))
        await store.forget("user", "chat")
        assert not await store.replace(row("a", version=1))
        for call in ("b", "a"):
            assert await store.add(row(call))
        assert await store.calls("user", "chat") == [row("b"), row("a")]

    async def test_forgetting_what_is_not_there_is_fine(self, store: GateStore) -> None:
        await store.forget("user", "chat")
        assert await store.calls("user", "chat") == []

    async def test_a_closed_store_opens_again_and_closes_twice(self, store: GateStore) -> None:
        await store.close()
        await store.add(row())
        await store.close()
        await store.close()
        assert await store.calls("user", "chat") == [row()]

    async def test_a_cancelled_operation_leaves_the_store_usable(self, store: GateStore, other: GateStore) -> None:
        """Whenever it happens, also while the store opens: the change is made or it is not, and the next can work."""
        for turns_of_the_loop in range(16):
            call = str(turns_of_the_loop)
            works = (store.add(row(call)), store.forget("user", "none"), store.calls("user", "chat"))
            tasks = [asyncio.ensure_future(work) for work in works]
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await other.add(row(call))
            assert await store.get("user", "chat", call) == row(call)
            assert await store.replace(row(call, "done"))
            if turns_of_the_loop % 4 == 0:
                await store.close()
        assert names(await other.find("user", ["done"])) == [str(number) for number in range(16)]
