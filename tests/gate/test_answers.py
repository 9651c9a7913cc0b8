"""Which answers to a call count: by user, call, arguments and output; and late answers."""

from typing import Any

import pytest
from msgspec import UNSET

from adkwire.errors import Conflict, NotFound, TooLarge, Unprocessable
from adkwire.gate.judge import REFUSED, too_late_text
from adkwire.gate.policy import Policy, Rule
from adkwire.gate.records import CallRecord, State, UncheckedAnswer, VoidReason
from adkwire.stores.base import GateStore
from tests.gate.records import ANN, ARGS, CHAT, GateInTest, asked, asked_of_browser, echo_of, offered

YES = UncheckedAnswer(approved=True)
NO = UncheckedAnswer(approved=False, reason="too much")
HERE = UncheckedAnswer(output={"city": "Paris"})


@pytest.mark.parametrize("output", [None, False, 0, "", [], {}, {"city": "Paris"}, "x" * 100])
async def test_any_value_is_an_output(tested: GateInTest, output: Any) -> None:
    await tested.open(offered())
    settled = await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(output=output))
    assert settled.answer is not None
    assert settled.answer.output == output
    assert (await tested.at()).answer == settled.answer


async def test_an_error_of_the_browser_is_cut_to_size(tested: GateInTest) -> None:
    await tested.open(offered())
    settled = await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(error="x" * 5000))
    assert settled.answer is not None
    assert settled.answer.error == "x" * 1000
    assert settled.answer.output is UNSET


async def test_an_output_that_is_not_what_the_tool_gives(tested: GateInTest) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    await tested.open(offered(output=schema))
    with pytest.raises(Unprocessable, match=r"This is not what where gives: .*city"):
        await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(output={"city": 5}))
    assert await tested.state() is State.OFFERED
    assert (await tested.gate.settle(ANN, CHAT, "c1", HERE)).state is State.ANSWERED


async def test_an_error_need_not_fit_the_schema(tested: GateInTest) -> None:
    await tested.open(offered(output={"type": "object"}))
    assert (await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(error="no GPS"))).state is State.ANSWERED


async def test_an_output_that_is_too_large(store: GateStore) -> None:
    tested = GateInTest(store, max_output=20)
    await tested.open(offered())
    with pytest.raises(TooLarge, match="at most 20 bytes"):
        await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(output="x" * 19))
    assert await tested.state() is State.OFFERED
    assert (await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(output="x" * 18))).state is State.ANSWERED


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (asked(), HERE),
        (asked(), HERE._replace(approved=True)),
        (asked(), UncheckedAnswer(error="no")),
        (asked(), UncheckedAnswer()),
        (asked(), UncheckedAnswer(reason="why")),
        (offered(), YES),
        (offered(), NO),
        (offered(), UncheckedAnswer()),
    ],
)
async def test_what_does_not_answer_the_question_is_no_answer(
    tested: GateInTest, call: CallRecord, given: UncheckedAnswer
) -> None:
    await tested.open(call)
    with pytest.raises(NotFound, match=REFUSED):
        await tested.gate.settle(ANN, CHAT, "c1", given)
    assert await tested.state() is call.state
    assert (await tested.audit())[-1] == (ANN, "refused", "not-found")


@pytest.mark.parametrize(
    ("user", "chat", "call"), [("eve", CHAT, "c1"), (ANN, "other", "c1"), (ANN, CHAT, "c2"), ("", "", "")]
)
async def test_other_users_chats_and_messages_reach_no_call(
    tested: GateInTest, user: str, chat: str, call: str
) -> None:
    await tested.open(asked())
    with pytest.raises(NotFound, match=REFUSED):
        await tested.gate.settle(user, chat, call, YES)
    assert await tested.gate.claim(user, chat, call, ARGS) is None
    await tested.gate.finish(user, chat, call, "executed")
    assert await tested.gate.void(user, chat if call != "c2" else "other", "superseded") == []
    assert await tested.state() is State.ASKED


async def test_a_refused_answer_is_in_the_audit_of_who_tried(tested: GateInTest) -> None:
    await tested.open(asked())
    with pytest.raises(NotFound):
        await tested.gate.settle("eve", CHAT, "c1" * 500, YES)
    assert await tested.audit() == [("agent", "asked", "waiting")]
    [line] = await tested.gate.audit("eve", CHAT)
    assert (line.actor, line.verdict, line.outcome, len(line.call)) == ("eve", "refused", "not-found", 256)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (asked(), YES),
        (asked(), NO),
        (asked(), YES._replace(payload={"most": 3})),
        (asked(), YES._replace(args={"amount": 7})),
        (asked_of_browser(), HERE),
        (asked_of_browser(), YES),
        (offered(), HERE),
        (offered(), UncheckedAnswer(output=None)),
        (offered(), UncheckedAnswer(output={"at": 5.0})),
        (offered(), UncheckedAnswer(error="no")),
    ],
)
async def test_the_same_answer_again_changes_nothing(
    tested: GateInTest, call: CallRecord, given: UncheckedAnswer
) -> None:
    await tested.open(call)
    first = await tested.gate.settle(ANN, CHAT, "c1", given)
    assert await tested.gate.settle(ANN, CHAT, "c1", given) == first
    assert len(await tested.audit()) == 2
    if first.state is State.ANSWERED:
        await tested.gate.finish(ANN, CHAT, "c1", "done")
        assert (await tested.gate.settle(ANN, CHAT, "c1", given)).state is State.DONE


async def test_an_output_that_comes_back_as_javascript_has_it_is_the_same(tested: GateInTest) -> None:
    await tested.open(offered())
    first = await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(output={"at": 5.0, "n": 2**60 + 1}))
    assert await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(output={"n": float(2**60 + 1), "at": 5})) == first


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (YES, NO),
        (NO, YES),
        (YES, YES._replace(args={"amount": 7})),
        (YES._replace(args={"amount": 7}), YES),
        (YES, YES._replace(payload={"most": 3})),
    ],
)
async def test_another_answer_is_late(tested: GateInTest, first: UncheckedAnswer, second: UncheckedAnswer) -> None:
    await tested.open(asked())
    settled = await tested.gate.settle(ANN, CHAT, "c1", first)
    with pytest.raises(Conflict, match="already answered"):
        await tested.gate.settle(ANN, CHAT, "c1", second)
    assert await tested.at() == settled
    assert (await tested.audit())[-1] == (ANN, "refused", "conflict")


async def test_another_output_is_late(tested: GateInTest) -> None:
    await tested.open(offered())
    await tested.gate.settle(ANN, CHAT, "c1", HERE)
    for other in (UncheckedAnswer(output={"city": "Rome"}), UncheckedAnswer(output=None), UncheckedAnswer(error="no")):
        with pytest.raises(Conflict, match="already answered"):
            await tested.gate.settle(ANN, CHAT, "c1", other)


async def test_a_no_after_the_yes_that_released_a_browser_call_is_late(tested: GateInTest) -> None:
    await tested.open(asked_of_browser())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    with pytest.raises(Conflict, match="already answered"):
        await tested.gate.settle(ANN, CHAT, "c1", NO)
    assert await tested.state() is State.OFFERED


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("superseded", "Too late: the conversation went on without this call, and it was not executed."),
        ("stopped", "Too late: the call was stopped before it was executed."),
        ("taken-over", "Too late: a live conversation was opened before the call was executed."),
        ("deleted", "Too late: the chat was deleted before the call was executed."),
        ("interrupted", "Too late: the server stopped before the call was executed."),
        ("failed", "Too late: the answer failed before the call was executed."),
    ],
)
@pytest.mark.parametrize("call", [asked(), asked_of_browser(), offered()])
async def test_a_late_answer_gets_the_reason(tested: GateInTest, call: CallRecord, why: VoidReason, words: str) -> None:
    await tested.open(call)
    [taken] = await tested.gate.void(ANN, CHAT, why)
    assert (taken.state, taken.outcome) == (State.VOID, why)
    for given in (YES, NO, HERE):
        with pytest.raises(Conflict) as refusal:
            await tested.gate.settle(ANN, CHAT, "c1", given)
        assert refusal.value.message == words


@pytest.mark.parametrize(
    "changed",
    [
        {"message": "m2"},
        {"tool": "transfer"},
        {"ask": "ask-c2"},
        {"ask": None},
        {"input": {"amount": 50}},
        {"input": {}},
        {"input": None},
        {"input": {"amount": "5"}},
        {"input": {"amount": True}},
    ],
)
async def test_an_answer_to_something_else_is_none(tested: GateInTest, changed: dict[str, Any]) -> None:
    call = await tested.open(asked(args={"amount": 5}))
    with pytest.raises(NotFound, match=REFUSED):
        await tested.gate.settle(ANN, CHAT, "c1", YES._replace(echo=echo_of(call, **changed)))
    assert await tested.state() is State.ASKED


@pytest.mark.parametrize(
    ("issued", "echoed"),
    [
        ({"amount": 5.0}, {"amount": 5}),
        ({"amount": 12345678901234567890}, {"amount": 12345678901234567000}),
        ({"amount": float("nan")}, {"amount": None}),
        ({"a": {"x": 1, "y": [1.0]}}, {"a": {"y": [1], "x": 1}}),
    ],
)
async def test_arguments_are_compared_as_javascript_has_them(
    tested: GateInTest, issued: dict[str, Any], echoed: dict[str, Any]
) -> None:
    call = await tested.open(asked(args=issued))
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES._replace(echo=echo_of(call, input=echoed)))
    assert settled.state is State.ANSWERED


async def test_an_output_may_come_without_the_id_of_the_question_that_was_answered(tested: GateInTest) -> None:
    call = await tested.open(asked_of_browser())
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(echo=echo_of(call)))
    with pytest.raises(NotFound):
        await tested.gate.settle(ANN, CHAT, "c1", HERE._replace(echo=echo_of(call, ask="ask-c2")))
    settled = await tested.gate.settle(ANN, CHAT, "c1", HERE._replace(echo=echo_of(call, ask=None)))
    assert settled.state is State.ANSWERED


async def test_a_late_answer_with_a_wrong_echo_learns_nothing(tested: GateInTest) -> None:
    call = await tested.open(asked())
    await tested.gate.void(ANN, CHAT, "superseded")
    with pytest.raises(NotFound, match=REFUSED):
        await tested.gate.settle(ANN, CHAT, "c1", YES._replace(echo=echo_of(call, input={"amount": 6})))


async def test_edited_arguments_are_kept_beside_those_that_were_asked_about(tested: GateInTest) -> None:
    await tested.open(asked())
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES._replace(args={"amount": 7}))
    assert settled.input == ARGS
    assert settled.answer is not None
    assert settled.answer.args == {"amount": 7}
    claimed = await tested.gate.claim(ANN, CHAT, "c1", ARGS)
    assert claimed is not None
    assert claimed.answer == settled.answer
    await tested.gate.finish(ANN, CHAT, "c1", "executed")
    for line in (await tested.lines())[1:]:
        assert (line.input, line.edited) == (ARGS, {"amount": 7})
    assert (await tested.lines())[0].edited is UNSET


async def test_a_browser_gets_the_edited_arguments(tested: GateInTest) -> None:
    call = await tested.open(asked_of_browser())
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES._replace(args={"amount": 7}))
    assert (settled.state, settled.input, settled.final_args) == (State.OFFERED, call.input, {"amount": 7})
    echo = echo_of(call, input={"amount": 7})
    assert (await tested.gate.settle(ANN, CHAT, "c1", HERE._replace(echo=echo))).state is State.ANSWERED


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "amount"),
        ({"amount": "7"}, "'7' is not of type 'integer'"),
        ({"amount": 7, "to": "eve"}, "to is not one of them"),
        ({"amount": None}, "amount"),
    ],
)
async def test_an_edit_that_does_not_fit_the_tool(tested: GateInTest, args: dict[str, Any], words: str) -> None:
    await tested.open(asked())
    with pytest.raises(Unprocessable, match="These arguments do not fit the tool") as refusal:
        await tested.gate.settle(ANN, CHAT, "c1", YES._replace(args=args))
    assert words in refusal.value.message
    assert await tested.state() is State.ASKED
    assert (await tested.audit())[-1] == (ANN, "refused", "unprocessable")


async def test_an_edit_that_the_policy_forbids(store: GateStore) -> None:
    tested = GateInTest(store, Policy([Rule("pay", "deny", when={"amount": {"gt": 100}})]))
    await tested.open(asked())
    with pytest.raises(Unprocessable, match="policy of this server does not allow"):
        await tested.gate.settle(ANN, CHAT, "c1", YES._replace(args={"amount": 101}))
    assert await tested.state() is State.ASKED


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("executed", "already answered"), ("", "already answered"), ("expired", "nobody answered in time")],
)
def test_the_texts_for_late_answers(outcome: str, words: str) -> None:
    assert words in too_late_text(outcome)


async def test_the_fields_that_are_wrong_are_named(tested: GateInTest) -> None:
    await tested.open(asked())
    with pytest.raises(Unprocessable) as edit:
        await tested.gate.settle(ANN, CHAT, "c1", UncheckedAnswer(approved=True, args={"amount": "5", "a/b": 1}))
    assert edit.value.fields == (
        ("/args/a~1b", "is not one of the arguments"),
        ("/args/amount", "'5' is not of type 'integer'"),
    )
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    await tested.open(offered("c2", output=schema))
    with pytest.raises(Unprocessable) as output:
        await tested.gate.settle(ANN, CHAT, "c2", UncheckedAnswer(output={"city": 5}))
    assert output.value.fields == (("/output/city", "5 is not of type 'string'"),)
