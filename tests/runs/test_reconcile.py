"""A run that was cut off at any moment ends so that its stream and history agree."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import pytest
from google.adk.agents import LlmAgent, ParallelAgent  # pyright: ignore[reportDeprecated]
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import START, Workflow
from google.genai import types
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from adkwire.adk.app import Target
from adkwire.adk.events import INTERRUPTED, STOPPED, Response, ending_event, partial_event, response_event
from adkwire.adk.runner import AgentRunner, Services
from adkwire.adk.stamps import turn_stamp
from adkwire.adk.turns import Turn, turns
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.runs.reconcile import RunEnd, reconcile
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Call, Say, ScriptedModel, Think, assert_valid_stream
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, decode_chunk
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import UNFINISHED, for_late_reader
from adkwire.wire.failures import SERVER_STOPPED, Failure, explain_briefly, explain_fully
from adkwire.wire.folding import fold
from adkwire.wire.messages import Approval, TextPart, ToolPart, UIMessage
from adkwire.wire.profiles import Profile, encode_chunks
from tests.wire.adk_events import (
    MESSAGE,
    REJECTED,
    aborted,
    answered,
    asked,
    call,
    fed,
    from_browser,
    gated,
    image,
    model,
    partial,
    placeholder,
    response,
    text,
    thought,
    verdict,
)
from tests.wire.encode.expected_chunks import failed_answer
from tests.wire.legal_events import conversations

thorough = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SERVER_STOPPED_TEXT = "The server stopped before this answer was finished. Ask again to go on."
QUESTION = Event(author="user", content=types.Content(role="user", parts=[types.Part(text="?")]))


class Stored(NamedTuple):
    """An event that a run has stored in the session."""

    event: Event


class Logged(NamedTuple):
    """Chunks that a run has appended to the log."""

    chunks: list[Chunk]


@dataclass
class RunWrites:
    """What a run writes to session and log, in its order."""

    before: list[Event] = field(default_factory=list[Event])
    prefix: list[Chunk] = field(default_factory=list[Chunk])
    steps: list[Stored | Logged] = field(default_factory=list[Stored | Logged])

    def cut(self, at: int, flushed: int | None = None) -> "CutOffRun":
        """Return the run as it is left when its process dies before step `at`, with `flushed` batches in the log."""
        done = self.steps[:at]
        batches = [step.chunks for step in done if isinstance(step, Logged)][:flushed]
        raw = encode_chunks([*self.prefix, *(chunk for batch in batches for chunk in batch)])
        events = [*self.before, *(step.event for step in done if isinstance(step, Stored))]
        return CutOffRun(turn_of(events), [decode_chunk(one) for one in raw])


class CutOffRun(NamedTuple):
    """A run whose process died: its turn in the session, and its chunks in the log."""

    turn: Turn
    logged: list[Chunk]

    def end(self, responses: Mapping[str, Response] | None = None) -> RunEnd:
        return reconcile(self.turn, self.logged, responses or {}, explain_briefly, "agent")


def turn_of(events: Sequence[Event]) -> Turn:
    return Turn(MESSAGE, "u1", "i1", QUESTION, list(events))


def run_of(events: Sequence[Event], ending: str = "done", before: Sequence[Event] = ()) -> RunWrites:
    """Return the writes of a run, in the order of `Run`: an event is stored, then its chunks are logged."""
    writes, encoder = RunWrites(list(before)), Encoder(MESSAGE)
    if before:
        chunks = [*fed(encoder, before), *encoder.pause()]
        writes.prefix = [encoder.start(), *for_late_reader(chunks)]
    writes.steps.append(Logged([encoder.start()]))
    for event in events:
        stored = [] if event.partial else [Stored(event)]
        logged = [Logged(chunks)] if (chunks := encoder.feed(event)) else []
        # Answers are logged before ADK stores them, except the approval of a browser call.
        is_offer = any(isinstance(chunk, c.ToolInputAvailable) for chunk in chunks)
        writes.steps += [*logged, *stored] if event.author == "user" and not is_offer else [*stored, *logged]
    last: list[Chunk] = []
    for event in _last_events(encoder, ending):
        writes.steps.append(Stored(event))
        last += encoder.feed(event)
    writes.steps.append(Logged([*last, *encoder.end()]))
    return writes


def _last_events(encoder: Encoder, ending: str) -> Iterator[Event]:
    if ending == "stop":
        yield aborted()
    if ending == "model fails":
        yield Event(author="agent", error_code="RuntimeError", error_message="boom")
    yield from [partial_event(one, "i1", {}) for one in encoder.unsaved()]
    if calls := encoder.running_calls() if ending == "done" else encoder.unsettled_calls():
        yield response_event([(one, name, {"error": UNFINISHED}) for one, name in calls], "agent", "i1", {})
    if ending == "lost":
        yield ending_event(RuntimeError("boom"), "agent", "i1", {})


def history(turn: Turn, ending: RunEnd, answers: Sequence[Event] = ()) -> UIMessage:
    """Return the message of history once the events are stored, with `answers` that only the gate has."""
    after = replace(turn, events=sorted([*turn.events, *ending.events], key=_shown_at))
    return after.messages(lambda _, __: ([], list(answers)))[-1]


def _shown_at(event: Event) -> float:
    stamp: dict[str, float] = (event.custom_metadata or {}).get("adkwire") or {}
    return stamp.get("at", event.timestamp)


def plain(message: UIMessage) -> Any:
    return msgspec.json.decode(msgspec.json.encode(message))


def check(run: CutOffRun, ending: RunEnd, answers: Sequence[Event] = ()) -> UIMessage:
    """Assert that stream and history agree, every client accepts the stream, and nothing is left open."""
    chunks = [*run.logged, *ending.tail]
    message = fold(chunks)
    assert plain(message) == plain(history(run.turn, ending, answers))
    assert_closed(run, ending, goes_on=bool(answers))
    return message


def assert_closed(run: CutOffRun, ending: RunEnd, *, goes_on: bool = False) -> None:
    """Assert that every client accepts the stream, and no call is left open.

    With `goes_on` the gate has answers to all calls of the step: the client sends again, and the message continues.
    """
    chunks = [*run.logged, *ending.tail]
    whole = [chunk for index, chunk in enumerate(chunks) if not index or not isinstance(chunk, c.Start)]
    if goes_on:
        whole[-1:] = [c.StartStep(), c.FinishStep(), whole[-1]]
    for client in ("ai/6.0.0", "ai/7.0.0", "ai/7.0.169"):
        assert_valid_stream([one for chunk in whole if (one := Profile.declared(client).fit(chunk))], client=client)
    encoder, _ = replace(run.turn, events=[*run.turn.events, *ending.events]).encoder()
    assert encoder.running_calls() == []
    waiting = {one.id for one in encoder.pending_calls()}
    for part in fold(chunks).parts:
        if isinstance(part, ToolPart) and not part.state.startswith("output"):
            # A denial is sent once no other call of the step is pending.
            assert part.tool_call_id in waiting or (waiting and is_refused(part))


def is_refused(part: ToolPart) -> bool:
    return (
        part.state == "approval-responded" and isinstance(part.approval, Approval) and part.approval.approved is False
    )


@st.composite
def cut_off_runs(draw: st.DrawFn) -> tuple[CutOffRun, list[Event]]:
    """A run that was cut off anywhere, and the outputs that only the gate has."""
    runs = draw(conversations())
    before = [event for earlier in runs[:-1] for event in earlier if not event.partial]
    ending = draw(st.sampled_from(["done", "done", "stop", "model fails", "lost"]))
    events = runs[-1] if ending == "done" else runs[-1][: draw(st.integers(0, len(runs[-1])))]
    writes = run_of(events, ending, before)
    at = draw(st.integers(0, len(writes.steps)))
    logged = sum(isinstance(step, Logged) for step in writes.steps[:at])
    run = writes.cut(at, draw(st.integers(min(logged, 1), logged)))
    settled = {one.tool_call_id for one in run.logged if isinstance(one, c.ToolOutputAvailable | c.ToolOutputError)}
    assume(not _has_edit_without_request(run))
    unstored = [event for event in events if event.author == "user" and event not in run.turn.events]
    outputs = [one for one in unstored if {response.id for response in one.get_function_responses()} & settled]
    return run, outputs


def _has_edit_without_request(run: CutOffRun) -> bool:
    """Return True for a logged edit of an approval request that has no `data-approval` part in the session.

    Approval requests of the gate always have one.
    """
    edited = {one.id for one in run.logged if isinstance(one, c.Data) and "edited" in one.data}
    return bool(edited - {one.id for one in run.turn.encoder()[1] if isinstance(one, c.Data)})


@thorough
@given(cut_off_runs(), st.data())
def test_stream_and_history_agree_wherever_a_run_is_cut_off(
    example: tuple[CutOffRun, list[Event]], data: st.DataObject
) -> None:
    run, answers = example
    encoder, _ = run.turn.encoder()
    outcomes = st.sampled_from([None, {"error": INTERRUPTED}, {"result": "paid"}])
    responses = {one: outcome for one, _ in encoder.running_calls() if (outcome := data.draw(outcomes))}

    check(run, run.end(responses), answers)


def cut_off(*events: Event, unstored: Sequence[Event] = (), before: Sequence[Event] = ()) -> CutOffRun:
    """Return a run that stored and logged `events`, and logged `unstored` without storing it."""
    encoder = Encoder(MESSAGE)
    prefix = [encoder.start(), *for_late_reader([*fed(encoder, before), *encoder.pause()])] if before else []
    stored = [event for event in events if not event.partial]
    return CutOffRun(turn_of([*before, *stored]), [*prefix, encoder.start(), *fed(encoder, [*events, *unstored])])


def error_code(ending: RunEnd) -> str | None:
    return ending.events[-1].error_code if ending.events else None


def test_text_that_was_sent_is_stored_and_the_turn_ends_with_the_reason() -> None:
    run = cut_off(unstored=[partial(thought("Hm. ")), partial(text("One ")), partial(text("two"))])

    ending = run.end()

    [content, end] = ending.events
    assert content.interrupted
    assert [part.text for part in (content.content or types.Content()).parts or ()] == ["Hm. ", "One two"]
    assert (end.error_code, end.invocation_id) == (SERVER_STOPPED, "i1")
    assert {(event.custom_metadata or {})["adkwire"]["message"] for event in ending.events} == {MESSAGE}
    assert ending.tail[-1] == c.Error(error_text=SERVER_STOPPED_TEXT)
    check(run, ending)


def test_the_reason_does_not_depend_on_error_detail() -> None:
    run = cut_off(unstored=[partial(text("One"))])

    for explain in (explain_briefly, explain_fully):
        assert reconcile(run.turn, run.logged, {}, explain).tail[-1] == c.Error(error_text=SERVER_STOPPED_TEXT)


def test_stored_content_that_was_not_sent_is_the_tail() -> None:
    whole = model(thought("Hm."), text("One two"), image(), call("c1"))
    run = cut_off(unstored=[partial(thought("Hm.")), partial(text("One"))])._replace(turn=turn_of([whole]))

    ending = run.end()

    assert [event.error_code for event in ending.events] == [None, SERVER_STOPPED]
    message = check(run, ending)
    [part] = [part for part in message.parts if isinstance(part, ToolPart)]
    assert (part.state, part.error_text) == ("output-error", UNFINISHED)
    assert [chunk.delta for chunk in ending.tail if isinstance(chunk, c.TextDelta)] == [" two"]


def test_a_complete_answer_finishes_without_an_error() -> None:
    run = cut_off(unstored=[partial(text("One"))])._replace(turn=turn_of([model(text("One two"))]))

    ending = run.end()

    assert ending.events == []
    assert isinstance(ending.tail[-1], c.Finish)
    check(run, ending)


def test_a_log_with_an_end_is_left_as_it_is() -> None:
    writes = run_of([model(text("One"))])

    assert writes.cut(len(writes.steps)).end() == RunEnd([], [])


def test_a_turn_that_is_not_in_the_session_is_ended_in_the_stream_only() -> None:
    turn = Turn(MESSAGE, "u1", "")

    end = failed_answer(Failure(SERVER_STOPPED, ""), None)
    assert end[-1] == c.Error(error_text=SERVER_STOPPED_TEXT)
    assert reconcile(turn, [c.Start(message_id=MESSAGE)], {}, explain_briefly) == RunEnd([], end)
    assert reconcile(turn, [], {}, explain_briefly).tail == [c.Start(message_id=MESSAGE), *end]


def test_a_turn_of_which_only_the_user_message_is_stored_ends_with_the_reason() -> None:
    run = cut_off()

    ending = run.end()

    assert error_code(ending) == SERVER_STOPPED
    check(run, ending)


@pytest.mark.parametrize("response_known", [None, {"error": INTERRUPTED}])
def test_a_call_without_an_approval_request_is_sealed(response_known: Response | None) -> None:
    run = cut_off(model(call("c1", "pay")))

    ending = run.end({"c1": response_known} if response_known else {})

    [part] = [part for part in check(run, ending).parts if isinstance(part, ToolPart)]
    assert part.error_text == (INTERRUPTED if response_known else UNFINISHED)
    assert error_code(ending) == SERVER_STOPPED


def test_a_turn_that_waits_for_a_verdict_still_waits() -> None:
    waits = [model(call("c1", "pay")), asked(gated("c1", "pay"), hint="?"), placeholder("c1")]
    run = cut_off(*waits[:1])._replace(turn=turn_of(waits))

    ending = run.end()

    assert ending.events == []
    assert ending.tail[-1] == c.Finish(finish_reason="tool-calls", message_metadata={"author": "agent"})
    [part] = [part for part in check(run, ending).parts if isinstance(part, ToolPart)]
    assert part.state == "approval-requested"


def test_a_browser_call_is_offered_once() -> None:
    waits = model(call("b1", "look"), long_running_tool_ids={"b1"})
    for run in (cut_off(waits), cut_off(waits)._replace(logged=[]), cut_off(before=[waits])):
        ending = run.end()

        offers = [chunk for chunk in (*run.logged, *ending.tail) if isinstance(chunk, c.ToolInputAvailable)]
        assert len(offers) == 1
        assert isinstance(ending.tail[-1], c.Finish)
        check(run, ending)


def test_a_browser_call_without_a_record_is_not_offered() -> None:
    run = cut_off(model(call("b1", "look"), long_running_tool_ids={"b1"}))

    ending = run.end({"b1": {"error": INTERRUPTED}})

    assert not any(isinstance(chunk, c.ToolInputAvailable) for chunk in ending.tail)
    assert error_code(ending) == SERVER_STOPPED
    check(run, ending)


def test_a_call_whose_verdict_is_not_stored_is_asked_about_again() -> None:
    waits = [model(call("c1", "pay")), asked(gated("c1", "pay"), c1={"scopes": ["once"]}), placeholder("c1")]
    approval = verdict(stamps={"c1": {"edited": {"n": 2}}}, c1=True)
    run = cut_off(before=waits, unstored=[approval])
    assert any(isinstance(chunk, c.ToolApprovalResponse) for chunk in run.logged)

    ending = run.end()

    assert ending.events == []
    [part] = [part for part in check(run, ending).parts if isinstance(part, ToolPart)]
    assert part.state == "approval-requested"


def test_an_output_that_is_not_stored_is_kept() -> None:
    waits = model(call("b1", "look"), long_running_tool_ids={"b1"})
    output = from_browser("b1", {"seen": 1})
    run = cut_off(before=[waits], unstored=[output])

    ending = run.end()

    assert ending.events == []
    assert isinstance(ending.tail[-1], c.Finish)
    check(run, ending, [output])


def test_a_denial_that_waited_for_an_output_is_kept_though_the_output_is_not_stored() -> None:
    """A denial is sent when no call of its step is pending any more: here together with the output."""
    calls = model(call("c1", "pay"), call("b1", "look"), long_running_tool_ids={"b1"})
    before = [calls, asked(gated("c1", "pay")), placeholder("c1")]
    no, rejected = verdict(c1=False), answered(response("c1", REJECTED))
    output = from_browser("b1", {"seen": 1})
    run = cut_off(no, rejected, before=before, unstored=[output])
    assert run.logged[-1] == c.ToolOutputDenied(tool_call_id="c1")

    ending = run.end()

    assert ending.events == []
    assert isinstance(ending.tail[-1], c.Finish)
    check(run, ending, [output])


def test_a_call_whose_verdict_is_stored_is_not_asked_about_again() -> None:
    waits = [model(call("c1", "pay")), asked(gated("c1", "pay")), placeholder("c1")]
    run = cut_off(verdict(c1=True), before=waits)

    ending = run.end()

    [part] = [part for part in check(run, ending).parts if isinstance(part, ToolPart)]
    assert (part.state, part.error_text) == ("output-error", UNFINISHED)
    assert error_code(ending) == SERVER_STOPPED


def test_a_stop_that_was_stored_ends_as_a_stop() -> None:
    run = cut_off(model(call("c1", "pay")), asked(gated("c1", "pay")), placeholder("c1"), aborted())

    ending = run.end()

    assert [type(chunk) for chunk in ending.tail[-2:]] == [c.Abort, c.Finish]
    [part] = [part for part in check(run, ending).parts if isinstance(part, ToolPart)]
    assert part.error_text == STOPPED


def test_an_interrupted_event_without_a_reason_does_not_complete_a_turn() -> None:
    run = cut_off(partial(text("One")), model(text("One"), interrupted=True))

    ending = run.end()

    assert error_code(ending) == SERVER_STOPPED
    check(run, ending)


def test_a_withheld_browser_call_is_sealed_when_another_agent_was_cut_off() -> None:
    withheld = model(call("b1", "look"), long_running_tool_ids={"b1"}, branch="p.a")
    run = cut_off(withheld, unstored=[partial(text("Two"), author="b", branch="p.b")])

    ending = run.end()

    [part] = [part for part in check(run, ending).parts if isinstance(part, ToolPart)]
    assert part.error_text == INTERRUPTED
    assert error_code(ending) == SERVER_STOPPED


def test_media_code_and_provider_calls_are_stored() -> None:
    search = types.ToolCall(id="s1", tool_type=types.ToolType.URL_CONTEXT, args={"q": 1})
    found = types.ToolResponse(id="s1", tool_type=types.ToolType.URL_CONTEXT, response={"n": 2})
    code_part = types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON))
    result = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")
    linked = types.Part(file_data=types.FileData(file_uri="https://example.org/a.png", mime_type="image/png"))
    parts = [text("a"), image(b"\x00png"), linked, code_part, types.Part(code_execution_result=result), text("b")]
    parts += [
        types.Part(tool_call=search),
        types.Part(tool_response=found),
        types.Part(tool_call=types.ToolCall(id="s2")),
    ]
    run = cut_off(unstored=[partial(part) for part in parts])

    ending = run.end()

    stored = (ending.events[0].content or types.Content()).parts or []
    assert [part.model_dump(exclude_none=True) for part in stored[:6]] == [
        part.model_dump(exclude_none=True) for part in parts[:6]
    ]
    check(run, ending)


def test_a_call_whose_arguments_were_cut_off_is_sealed_without_arguments() -> None:
    one = types.FunctionCall(id="c1", name="pay", partial_args=[], will_continue=True)
    value = types.PartialArg(json_path="$.n", number_value=1)
    more = types.FunctionCall(id="c1", name="pay", partial_args=[value], will_continue=True)
    run = cut_off(unstored=[partial(types.Part(function_call=part)) for part in (one, more)])

    [part] = [part for part in check(run, run.end()).parts if isinstance(part, ToolPart)]

    assert (part.input, part.error_text) == ({}, UNFINISHED)


def test_audio_and_preliminary_outputs_are_not_stored() -> None:
    sound = image(b"\x00\x00", "audio/pcm;rate=24000")
    preliminary = [partial(response("c1", {"percent": 50}))]
    run = cut_off(partial(sound), model(call("c1")), unstored=preliminary)

    [part] = [part for part in check(run, run.end()).parts if isinstance(part, ToolPart)]

    assert part.state == "output-error"


def test_after_a_transfer_the_new_agent_is_the_author() -> None:
    transfer = [model(call("c1")), answered(response("c1", {}), actions=EventActions(transfer_to_agent="expert"))]
    run = cut_off(*transfer, unstored=[partial(text("I am"), author="expert")])

    ending = run.end()

    assert ending.events[0].author == "expert"
    check(run, ending)


def test_text_of_a_parallel_agent_that_had_not_ended_keeps_its_place() -> None:
    begun = [partial(text("a1 "), author="a", branch="p.a"), partial(text("b1"), author="b", branch="p.b")]
    whole = model(text("b1"), author="b", branch="p.b")
    run = cut_off(*begun, whole, unstored=[partial(text("a2"), author="a", branch="p.a")])

    message = check(run, run.end())

    assert [part.text for part in message.parts if isinstance(part, TextPart)] == ["a1 a2", "b1"]


def test_texts_of_two_parallel_agents_that_had_not_ended_are_stored() -> None:
    run = cut_off(unstored=[partial(text(one), author=one, branch=f"p.{one}") for one in ("a", "b", "a")])

    message = check(run, run.end())

    assert [part.text for part in message.parts if isinstance(part, TextPart)] == ["aa", "b"]


def test_a_stream_in_an_order_that_history_cannot_have_is_closed_with_an_error() -> None:
    """The log has two texts and then two calls, the session each text with its call."""
    begun = [partial(text(one), author=one, branch=f"p.{one}") for one in ("a", "b")]
    whole = [model(text(one), call(f"c{one}"), author=one, branch=f"p.{one}") for one in ("a", "b")]
    unsaved = types.FunctionCall(id="c3", name="late", will_continue=True)
    run = cut_off(*begun, *whole, unstored=[partial(thought("Hm")), partial(types.Part(function_call=unsaved))])

    ending = run.end()

    assert ending.tail[-1] == c.Error(error_text=SERVER_STOPPED_TEXT)
    assert error_code(ending) == SERVER_STOPPED
    assert_closed(run, ending)


def test_a_call_and_a_text_of_two_parallel_agents_become_two_events() -> None:
    late = types.Part(function_call=types.FunctionCall(id="c1", name="late", will_continue=True))
    unstored = [partial(late, author="a", branch="p.a"), partial(text("b"), author="b", branch="p.b")]
    run = cut_off(unstored=unstored)

    ending = run.end()

    assert [event.error_code for event in ending.events] == [None, None, None, SERVER_STOPPED]
    check(run, ending)


def test_a_stream_with_other_text_than_the_session_is_closed_with_an_error() -> None:
    logged = cut_off(unstored=[partial(thought("Hm")), partial(text("One")), partial(thought("So"))])
    run = logged._replace(turn=turn_of([model(text("Another"), call("c1"))]))

    ending = run.end()

    assert ending.tail[-1] == c.Error(error_text=SERVER_STOPPED_TEXT)
    assert_closed(run, ending)


@settings(parent=thorough, max_examples=100)
@given(cut_off_runs(), st.data())
def test_a_log_that_ends_in_the_middle_of_an_event_is_closed(
    example: tuple[CutOffRun, list[Event]], data: st.DataObject
) -> None:
    run, answers = example
    run = run._replace(logged=run.logged[: data.draw(st.integers(0, len(run.logged)))])

    assert_closed(run, run.end(), goes_on=bool(answers))


def speaker(name: str, *steps: Say | Think) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(script=lambda _: steps))


def weather() -> dict[str, str]:
    """Tell the weather."""
    return {"sky": "blue"}


def pay() -> str:
    """Pay."""
    return "paid"


AGENTS: dict[str, Callable[[], Target]] = {
    "tools": lambda: LlmAgent(
        name="root",
        model=ScriptedModel(turns=[[Think("Hm. So"), Say("Let me see"), Call("weather")], [Say("It is blue")]]),
        tools=[weather],
    ),
    "approval": lambda: LlmAgent(
        name="root",
        model=ScriptedModel(turns=[[Say("I pay"), Call("pay"), Call("weather")]]),
        tools=[FunctionTool(pay, require_confirmation=True), weather],
    ),
    "sequence": lambda: Workflow(
        name="root", edges=[(START, speaker("a", Say("I am a")), speaker("b", Think("Hm"), Say("I am b")))]
    ),
    "parallel": lambda: ParallelAgent(  # pyright: ignore[reportDeprecated]
        name="root", sub_agents=[speaker("a", Say("I am a")), speaker("b", Say("It is b"))]
    ),
    "transfer": lambda: LlmAgent(
        name="root",
        model=ScriptedModel(turns=[[Call("transfer_to_agent", {"agent_name": "a"})]]),
        sub_agents=[speaker("a", Say("I am a"))],
    ),
}


class Moment(NamedTuple):
    """The session and the log after an event."""

    turn: Turn
    batches: list[list[Chunk]]


async def moments(agent: Target) -> list[Moment]:
    """Run a real agent and return session and log after every event."""
    adk = AgentRunner(agent, Settings(db="memory:"), Services(InMemorySessionService()), _gate())
    key, stamp, encoder = ChatKey("ann", "chat"), turn_stamp(MESSAGE, "u1"), Encoder(MESSAGE)
    await adk.create(key, title="", created=0)
    batches: list[list[Chunk]] = [[encoder.start()]]
    found: list[Moment] = []
    async for event in adk.turn(key, UserMessage("u1", ("Hello",)), stamp, asyncio.Event()):
        session = await adk.load(key)
        assert session is not None
        found.append(Moment(turns(session.events)[0], list(batches)))
        batches.append(encoder.feed(event))
    await adk.close()
    return [*found, found[-1]._replace(batches=batches)]


def _gate() -> ToolGate:
    return ToolGate(MemoryGateStore(), Policy(), clock=time.time)


@pytest.mark.filterwarnings("ignore:.*deprecated in favor of Workflow:DeprecationWarning")
@pytest.mark.parametrize("name", AGENTS)
async def test_stream_and_history_agree_wherever_a_real_agent_is_cut_off(name: str) -> None:
    found = await moments(AGENTS[name]())
    for moment in found:
        for flushed in range(1, len(moment.batches) + 1):
            run = CutOffRun(moment.turn, [chunk for batch in moment.batches[:flushed] for chunk in batch])
            check(run, run.end())
    first, last = found[0], found[-1]
    assert error_code(CutOffRun(first.turn, first.batches[0]).end()) == SERVER_STOPPED
    done = CutOffRun(last.turn, last.batches[0]).end()
    assert done.events == []
    assert isinstance(done.tail[-1], c.Finish)


async def test_a_workflow_is_not_complete_after_its_first_agent() -> None:
    found = await moments(AGENTS["sequence"]())
    stored = [sum(event.content is not None for event in moment.turn.events) for moment in found]

    between = found[stored.index(1)]

    assert error_code(CutOffRun(between.turn, between.batches[0]).end()) == SERVER_STOPPED
