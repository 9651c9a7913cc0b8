"""A run that was cut off at any moment ends so that its stream and history say the same."""

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
SORRY = "The server stopped before this answer was finished. Ask again to go on."
ASKED = Event(author="user", content=types.Content(role="user", parts=[types.Part(text="?")]))


class Stored(NamedTuple):
    """The session has this event now."""

    event: Event


class Logged(NamedTuple):
    """The log was given these chunks."""

    chunks: list[Chunk]


@dataclass
class Life:
    """What a run does to session and log, in its order."""

    before: list[Event] = field(default_factory=list[Event])
    prefix: list[Chunk] = field(default_factory=list[Chunk])
    deeds: list[Stored | Logged] = field(default_factory=list[Stored | Logged])

    def cut(self, at: int, flushed: int | None = None) -> "Dead":
        """The process dies before the deed `at`; of what the log was given the first `flushed` batches are there."""
        done = self.deeds[:at]
        batches = [deed.chunks for deed in done if isinstance(deed, Logged)][:flushed]
        raw = encode_chunks([*self.prefix, *(chunk for batch in batches for chunk in batch)])
        events = [*self.before, *(deed.event for deed in done if isinstance(deed, Stored))]
        return Dead(turn_of(events), [decode_chunk(one) for one in raw])


class Dead(NamedTuple):
    """What is left of a run."""

    turn: Turn
    shown: list[Chunk]

    def close(self, known: Mapping[str, Response] | None = None) -> RunEnd:
        return reconcile(self.turn, self.shown, known or {}, explain_briefly, "agent")


def turn_of(events: Sequence[Event]) -> Turn:
    return Turn(MESSAGE, "u1", "i1", ASKED, list(events))


def run_of(events: Sequence[Event], ending: str = "done", before: Sequence[Event] = ()) -> Life:
    """A run as `Run` does it: ADK stores, then we show; at the end all is stored, then all is shown."""
    life, encoder = Life(list(before)), Encoder(MESSAGE)
    if before:
        told = [*fed(encoder, before), *encoder.pause()]
        life.prefix = [encoder.start(), *for_late_reader(told)]
    life.deeds.append(Logged([encoder.start()]))
    for event in events:
        stored = [] if event.partial else [Stored(event)]
        shown = [Logged(chunks)] if (chunks := encoder.feed(event)) else []
        # What a user answers is shown before ADK has it, but for a yes to a browser call.
        given_out = any(isinstance(chunk, c.ToolInputAvailable) for chunk in chunks)
        life.deeds += [*shown, *stored] if event.author == "user" and not given_out else [*stored, *shown]
    last: list[Chunk] = []
    for event in _last_events(encoder, ending):
        life.deeds.append(Stored(event))
        last += encoder.feed(event)
    life.deeds.append(Logged([*last, *encoder.end()]))
    return life


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


def history(turn: Turn, closing: RunEnd, answers: Sequence[Event] = ()) -> UIMessage:
    """What history shows once the events are stored, and the gate has these answers beside it."""
    after = replace(turn, events=sorted([*turn.events, *closing.events], key=_shown_at))
    return after.messages(lambda _, __: ([], list(answers)))[-1]


def _shown_at(event: Event) -> float:
    stamp: dict[str, float] = (event.custom_metadata or {}).get("adkwire") or {}
    return stamp.get("at", event.timestamp)


def plain(message: UIMessage) -> Any:
    return msgspec.json.decode(msgspec.json.encode(message))


def check(dead: Dead, closing: RunEnd, answers: Sequence[Event] = ()) -> UIMessage:
    """Stream and history are the same, every client takes the stream, and nothing is left open."""
    chunks = [*dead.shown, *closing.tail]
    message = fold(chunks)
    assert plain(message) == plain(history(dead.turn, closing, answers))
    assert_closed(dead, closing, goes_on=bool(answers))
    return message


def assert_closed(dead: Dead, closing: RunEnd, *, goes_on: bool = False) -> None:
    """With `goes_on` the gate has the answers of a step that is over: when the client sends again, the answer comes."""
    chunks = [*dead.shown, *closing.tail]
    whole = [chunk for index, chunk in enumerate(chunks) if not index or not isinstance(chunk, c.Start)]
    if goes_on:
        whole[-1:] = [c.StartStep(), c.FinishStep(), whole[-1]]
    for client in ("ai/6.0.0", "ai/7.0.0", "ai/7.0.169"):
        assert_valid_stream([one for chunk in whole if (one := Profile.declared(client).fit(chunk))], client=client)
    encoder, _ = replace(dead.turn, events=[*dead.turn.events, *closing.events]).encoder()
    assert encoder.running_calls() == []
    waiting = {one.id for one in encoder.pending_calls()}
    for part in fold(chunks).parts:
        if isinstance(part, ToolPart) and not part.state.startswith("output"):
            # What came of a no is told once nothing else of the step waits.
            assert part.tool_call_id in waiting or (waiting and is_refused(part))


def is_refused(part: ToolPart) -> bool:
    return (
        part.state == "approval-responded" and isinstance(part.approval, Approval) and part.approval.approved is False
    )


@st.composite
def deaths(draw: st.DrawFn) -> tuple[Dead, list[Event]]:
    """A run cut off anywhere, and the answers of a browser that only the gate has."""
    runs = draw(conversations())
    before = [event for run in runs[:-1] for event in run if not event.partial]
    ending = draw(st.sampled_from(["done", "done", "stop", "model fails", "lost"]))
    events = runs[-1] if ending == "done" else runs[-1][: draw(st.integers(0, len(runs[-1])))]
    life = run_of(events, ending, before)
    at = draw(st.integers(0, len(life.deeds)))
    logged = sum(isinstance(deed, Logged) for deed in life.deeds[:at])
    dead = life.cut(at, draw(st.integers(min(logged, 1), logged)))
    settled = {one.tool_call_id for one in dead.shown if isinstance(one, c.ToolOutputAvailable | c.ToolOutputError)}
    assume(not _is_edit_alone(dead))
    handed = [event for event in events if event.author == "user" and event not in dead.turn.events]
    given_back = [one for one in handed if {response.id for response in one.get_function_responses()} & settled]
    return dead, given_back


def _is_edit_alone(dead: Dead) -> bool:
    """An edit that only the page has seen, of a question that came without words: our own always have some."""
    edited = {one.id for one in dead.shown if isinstance(one, c.Data) and "edited" in one.data}
    return bool(edited - {one.id for one in dead.turn.encoder()[1] if isinstance(one, c.Data)})


@thorough
@given(deaths(), st.data())
def test_stream_and_history_agree_wherever_a_run_is_cut_off(
    death: tuple[Dead, list[Event]], data: st.DataObject
) -> None:
    dead, answers = death
    encoder, _ = dead.turn.encoder()
    fates = st.sampled_from([None, {"error": INTERRUPTED}, {"result": "paid"}])
    known = {one: fate for one, _ in encoder.running_calls() if (fate := data.draw(fates))}

    check(dead, dead.close(known), answers)


def died(*events: Event, shown: Sequence[Event] = (), before: Sequence[Event] = ()) -> Dead:
    """A run that stored and showed `events`, and showed `shown` besides."""
    encoder = Encoder(MESSAGE)
    prefix = [encoder.start(), *for_late_reader([*fed(encoder, before), *encoder.pause()])] if before else []
    stored = [event for event in events if not event.partial]
    return Dead(turn_of([*before, *stored]), [*prefix, encoder.start(), *fed(encoder, [*events, *shown])])


def code(closing: RunEnd) -> str | None:
    return closing.events[-1].error_code if closing.events else None


def test_words_that_were_shown_are_kept_and_the_reason_is_said() -> None:
    dead = died(shown=[partial(thought("Hm. ")), partial(text("One ")), partial(text("two"))])

    closing = dead.close()

    [said, end] = closing.events
    assert said.interrupted
    assert [part.text for part in (said.content or types.Content()).parts or ()] == ["Hm. ", "One two"]
    assert (end.error_code, end.invocation_id) == (SERVER_STOPPED, "i1")
    assert {(event.custom_metadata or {})["adkwire"]["message"] for event in closing.events} == {MESSAGE}
    assert closing.tail[-1] == c.Error(error_text=SORRY)
    check(dead, closing)


def test_the_reason_is_the_same_for_everyone() -> None:
    dead = died(shown=[partial(text("One"))])

    for explain in (explain_briefly, explain_fully):
        assert reconcile(dead.turn, dead.shown, {}, explain).tail[-1] == c.Error(error_text=SORRY)


def test_what_was_stored_and_not_shown_is_told() -> None:
    whole = model(thought("Hm."), text("One two"), image(), call("c1"))
    dead = died(shown=[partial(thought("Hm.")), partial(text("One"))])._replace(turn=turn_of([whole]))

    closing = dead.close()

    assert [event.error_code for event in closing.events] == [None, SERVER_STOPPED]
    message = check(dead, closing)
    [part] = [part for part in message.parts if isinstance(part, ToolPart)]
    assert (part.state, part.error_text) == ("output-error", UNFINISHED)
    assert [chunk.delta for chunk in closing.tail if isinstance(chunk, c.TextDelta)] == [" two"]


def test_a_whole_answer_ends_as_if_nothing_had_happened() -> None:
    dead = died(shown=[partial(text("One"))])._replace(turn=turn_of([model(text("One two"))]))

    closing = dead.close()

    assert closing.events == []
    assert isinstance(closing.tail[-1], c.Finish)
    check(dead, closing)


def test_a_log_that_has_its_end_needs_nothing() -> None:
    life = run_of([model(text("One"))])

    assert life.cut(len(life.deeds)).close() == RunEnd([], [])


def test_a_turn_the_session_never_saw_gets_an_end_in_the_stream_only() -> None:
    turn = Turn(MESSAGE, "u1", "")

    end = failed_answer(Failure(SERVER_STOPPED, ""), None)
    assert end[-1] == c.Error(error_text=SORRY)
    assert reconcile(turn, [c.Start(message_id=MESSAGE)], {}, explain_briefly) == RunEnd([], end)
    assert reconcile(turn, [], {}, explain_briefly).tail == [c.Start(message_id=MESSAGE), *end]


def test_only_the_question_was_stored() -> None:
    dead = died()

    closing = dead.close()

    assert code(closing) == SERVER_STOPPED
    check(dead, closing)


@pytest.mark.parametrize("response_known", [None, {"error": INTERRUPTED}])
def test_a_call_that_was_not_asked_about_yet(response_known: Response | None) -> None:
    dead = died(model(call("c1", "pay")))

    closing = dead.close({"c1": response_known} if response_known else {})

    [part] = [part for part in check(dead, closing).parts if isinstance(part, ToolPart)]
    assert part.error_text == (INTERRUPTED if response_known else UNFINISHED)
    assert code(closing) == SERVER_STOPPED


def test_a_run_that_had_reached_its_pause_waits_on() -> None:
    waits = [model(call("c1", "pay")), asked(gated("c1", "pay"), hint="?"), placeholder("c1")]
    dead = died(*waits[:1])._replace(turn=turn_of(waits))

    closing = dead.close()

    assert closing.events == []
    assert closing.tail[-1] == c.Finish(finish_reason="tool-calls", message_metadata={"author": "agent"})
    [part] = [part for part in check(dead, closing).parts if isinstance(part, ToolPart)]
    assert part.state == "approval-requested"


def test_a_browser_call_is_given_out_once() -> None:
    waits = model(call("b1", "look"), long_running_tool_ids={"b1"})
    for dead in (died(waits), died(waits)._replace(shown=[]), died(before=[waits])):
        closing = dead.close()

        given_out = [chunk for chunk in (*dead.shown, *closing.tail) if isinstance(chunk, c.ToolInputAvailable)]
        assert len(given_out) == 1
        assert isinstance(closing.tail[-1], c.Finish)
        check(dead, closing)


def test_a_browser_call_that_the_gate_does_not_have_is_not_given_out() -> None:
    dead = died(model(call("b1", "look"), long_running_tool_ids={"b1"}))

    closing = dead.close({"b1": {"error": INTERRUPTED}})

    assert not any(isinstance(chunk, c.ToolInputAvailable) for chunk in closing.tail)
    assert code(closing) == SERVER_STOPPED
    check(dead, closing)


def test_a_yes_that_the_session_never_got_is_asked_for_again() -> None:
    waits = [model(call("c1", "pay")), asked(gated("c1", "pay"), c1={"scopes": ["once"]}), placeholder("c1")]
    said = verdict(stamps={"c1": {"edited": {"n": 2}}}, c1=True)
    dead = died(before=waits, shown=[said])
    assert any(isinstance(chunk, c.ToolApprovalResponse) for chunk in dead.shown)

    closing = dead.close()

    assert closing.events == []
    [part] = [part for part in check(dead, closing).parts if isinstance(part, ToolPart)]
    assert part.state == "approval-requested"


def test_an_output_that_the_session_never_got_stays_with_the_gate() -> None:
    waits = model(call("b1", "look"), long_running_tool_ids={"b1"})
    given_back = from_browser("b1", {"seen": 1})
    dead = died(before=[waits], shown=[given_back])

    closing = dead.close()

    assert closing.events == []
    assert isinstance(closing.tail[-1], c.Finish)
    check(dead, closing, [given_back])


def test_a_yes_that_the_session_has_is_not_asked_for_again() -> None:
    waits = [model(call("c1", "pay")), asked(gated("c1", "pay")), placeholder("c1")]
    dead = died(verdict(c1=True), before=waits)

    closing = dead.close()

    [part] = [part for part in check(dead, closing).parts if isinstance(part, ToolPart)]
    assert (part.state, part.error_text) == ("output-error", UNFINISHED)
    assert code(closing) == SERVER_STOPPED


def test_a_stop_that_was_stored_ends_as_a_stop() -> None:
    dead = died(model(call("c1", "pay")), asked(gated("c1", "pay")), placeholder("c1"), aborted())

    closing = dead.close()

    assert [type(chunk) for chunk in closing.tail[-2:]] == [c.Abort, c.Finish]
    [part] = [part for part in check(dead, closing).parts if isinstance(part, ToolPart)]
    assert part.error_text == STOPPED


def test_an_end_that_was_stored_in_part_is_none() -> None:
    dead = died(partial(text("One")), model(text("One"), interrupted=True))

    closing = dead.close()

    assert code(closing) == SERVER_STOPPED
    check(dead, closing)


def test_a_browser_call_is_taken_back_when_another_agent_was_cut_off() -> None:
    held = model(call("b1", "look"), long_running_tool_ids={"b1"}, branch="p.a")
    dead = died(held, shown=[partial(text("Two"), author="b", branch="p.b")])

    closing = dead.close()

    [part] = [part for part in check(dead, closing).parts if isinstance(part, ToolPart)]
    assert part.error_text == INTERRUPTED
    assert code(closing) == SERVER_STOPPED


def test_media_code_and_searches_of_the_provider_are_kept() -> None:
    search = types.ToolCall(id="s1", tool_type=types.ToolType.URL_CONTEXT, args={"q": 1})
    found = types.ToolResponse(id="s1", tool_type=types.ToolType.URL_CONTEXT, response={"n": 2})
    code_part = types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON))
    result = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")
    linked = types.Part(file_data=types.FileData(file_uri="https://example.org/a.png", mime_type="image/png"))
    shown = [text("a"), image(b"\x00png"), linked, code_part, types.Part(code_execution_result=result), text("b")]
    shown += [
        types.Part(tool_call=search),
        types.Part(tool_response=found),
        types.Part(tool_call=types.ToolCall(id="s2")),
    ]
    dead = died(shown=[partial(part) for part in shown])

    closing = dead.close()

    parts = (closing.events[0].content or types.Content()).parts or []
    assert [part.model_dump(exclude_none=True) for part in parts[:6]] == [
        part.model_dump(exclude_none=True) for part in shown[:6]
    ]
    check(dead, closing)


def test_arguments_that_came_in_part_are_taken_back() -> None:
    one = types.FunctionCall(id="c1", name="pay", partial_args=[], will_continue=True)
    value = types.PartialArg(json_path="$.n", number_value=1)
    more = types.FunctionCall(id="c1", name="pay", partial_args=[value], will_continue=True)
    dead = died(shown=[partial(types.Part(function_call=part)) for part in (one, more)])

    [part] = [part for part in check(dead, dead.close()).parts if isinstance(part, ToolPart)]

    assert (part.input, part.error_text) == ({}, UNFINISHED)


def test_sound_and_first_looks_are_not_kept() -> None:
    sound = image(b"\x00\x00", "audio/pcm;rate=24000")
    looks = [partial(response("c1", {"percent": 50}))]
    dead = died(partial(sound), model(call("c1")), shown=looks)

    [part] = [part for part in check(dead, dead.close()).parts if isinstance(part, ToolPart)]

    assert part.state == "output-error"


def test_who_was_handed_the_turn_speaks() -> None:
    said = [model(call("c1")), answered(response("c1", {}), actions=EventActions(transfer_to_agent="expert"))]
    dead = died(*said, shown=[partial(text("I am"), author="expert")])

    closing = dead.close()

    assert closing.events[0].author == "expert"
    check(dead, closing)


def test_agents_side_by_side_of_whom_one_had_ended() -> None:
    begun = [partial(text("a1 "), author="a", branch="p.a"), partial(text("b1"), author="b", branch="p.b")]
    whole = model(text("b1"), author="b", branch="p.b")
    dead = died(*begun, whole, shown=[partial(text("a2"), author="a", branch="p.a")])

    message = check(dead, dead.close())

    assert [part.text for part in message.parts if isinstance(part, TextPart)] == ["a1 a2", "b1"]


def test_two_agents_side_by_side_of_whom_none_had_ended() -> None:
    dead = died(shown=[partial(text(one), author=one, branch=f"p.{one}") for one in ("a", "b", "a")])

    message = check(dead, dead.close())

    assert [part.text for part in message.parts if isinstance(part, TextPart)] == ["aa", "b"]


def test_what_history_would_show_in_another_order_is_closed_all_the_same() -> None:
    """The texts of both, then the calls of both: the session has each with its own."""
    begun = [partial(text(one), author=one, branch=f"p.{one}") for one in ("a", "b")]
    whole = [model(text(one), call(f"c{one}"), author=one, branch=f"p.{one}") for one in ("a", "b")]
    unsaved = types.FunctionCall(id="c3", name="late", will_continue=True)
    dead = died(*begun, *whole, shown=[partial(thought("Hm")), partial(types.Part(function_call=unsaved))])

    closing = dead.close()

    assert closing.tail[-1] == c.Error(error_text=SORRY)
    assert code(closing) == SERVER_STOPPED
    assert_closed(dead, closing)


def test_a_call_and_words_of_two_that_were_not_stored() -> None:
    late = types.Part(function_call=types.FunctionCall(id="c1", name="late", will_continue=True))
    shown = [partial(late, author="a", branch="p.a"), partial(text("b"), author="b", branch="p.b")]
    dead = died(shown=shown)

    closing = dead.close()

    assert [event.error_code for event in closing.events] == [None, None, None, SERVER_STOPPED]
    check(dead, closing)


def test_a_session_that_holds_other_words_than_were_shown() -> None:
    life = died(shown=[partial(thought("Hm")), partial(text("One")), partial(thought("So"))])
    dead = life._replace(turn=turn_of([model(text("Another"), call("c1"))]))

    closing = dead.close()

    assert closing.tail[-1] == c.Error(error_text=SORRY)
    assert_closed(dead, closing)


@settings(parent=thorough, max_examples=100)
@given(deaths(), st.data())
def test_a_log_that_was_torn_in_the_middle_of_an_event_is_closed(
    death: tuple[Dead, list[Event]], data: st.DataObject
) -> None:
    dead, answers = death
    dead = dead._replace(shown=dead.shown[: data.draw(st.integers(0, len(dead.shown)))])

    assert_closed(dead, dead.close(), goes_on=bool(answers))


def speaker(name: str, *said: Say | Think) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(script=lambda _: said))


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
    "one by one": lambda: Workflow(
        name="root", edges=[(START, speaker("a", Say("I am a")), speaker("b", Think("Hm"), Say("I am b")))]
    ),
    "side by side": lambda: ParallelAgent(  # pyright: ignore[reportDeprecated]
        name="root", sub_agents=[speaker("a", Say("I am a")), speaker("b", Say("It is b"))]
    ),
    "handed over": lambda: LlmAgent(
        name="root",
        model=ScriptedModel(turns=[[Call("transfer_to_agent", {"agent_name": "a"})]]),
        sub_agents=[speaker("a", Say("I am a"))],
    ),
}


class Moment(NamedTuple):
    """What session and log hold when an event has been shown."""

    turn: Turn
    batches: list[list[Chunk]]


async def moments(agent: Target) -> list[Moment]:
    """A run of a real agent, seen after every event."""
    adk = AgentRunner(agent, Settings(db="memory:"), Services(InMemorySessionService()), _gate())
    key, mark, encoder = ChatKey("ann", "chat"), turn_stamp(MESSAGE, "u1"), Encoder(MESSAGE)
    await adk.create(key, title="", created=0)
    batches: list[list[Chunk]] = [[encoder.start()]]
    seen: list[Moment] = []
    async for event in adk.turn(key, UserMessage("u1", ("Hello",)), mark, asyncio.Event()):
        session = await adk.load(key)
        assert session is not None
        seen.append(Moment(turns(session.events)[0], list(batches)))
        batches.append(encoder.feed(event))
    await adk.close()
    return [*seen, seen[-1]._replace(batches=batches)]


def _gate() -> ToolGate:
    return ToolGate(MemoryGateStore(), Policy(), clock=time.time)


@pytest.mark.filterwarnings("ignore:.*deprecated in favor of Workflow:DeprecationWarning")
@pytest.mark.parametrize("name", AGENTS)
async def test_a_real_agent_that_is_cut_off_anywhere(name: str) -> None:
    life = await moments(AGENTS[name]())
    for moment in life:
        for flushed in range(1, len(moment.batches) + 1):
            dead = Dead(moment.turn, [chunk for batch in moment.batches[:flushed] for chunk in batch])
            check(dead, dead.close())
    first, last = life[0], life[-1]
    assert code(Dead(first.turn, first.batches[0]).close()) == SERVER_STOPPED
    done = Dead(last.turn, last.batches[0]).close()
    assert done.events == []
    assert isinstance(done.tail[-1], c.Finish)


async def test_an_agent_that_leads_others_is_not_done_when_the_first_of_them_is() -> None:
    life = await moments(AGENTS["one by one"]())
    spoken = [sum(event.content is not None for event in moment.turn.events) for moment in life]

    between = life[spoken.index(1)]

    assert code(Dead(between.turn, between.batches[0]).close()) == SERVER_STOPPED
