"""Properties of every legal answer of ADK, however it is cut, stopped, continued or reloaded."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from google.adk.events.event import Event
from google.genai import types
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from adkwire.adk.events import ending_event, partial_event, response_event
from adkwire.testing import assert_valid_stream
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import UNFINISHED, for_late_reader
from adkwire.wire.folding import fold
from adkwire.wire.messages import ReasoningPart, StepStartPart, TextPart, ToolPart, UIMessage
from adkwire.wire.profiles import Profile
from tests.wire.adk_events import (
    MESSAGE,
    REJECTED,
    aborted,
    answered,
    asked,
    call,
    fed,
    from_browser,
    model,
    partial,
    placeholder,
    response,
    text,
    verdict,
)
from tests.wire.legal_events import conversations
from tests.wire.schemas import V6_STRICT, V7_STRICT

thorough = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENDINGS = st.sampled_from(["done", "done", "stop", "sealed stop", "model fails", "lost"])


class Streamed:
    """A conversation as its clients saw it: every run with an encoder of its own, built from what was stored."""

    def __init__(self, runs: list[list[Event]], ending: str = "done", cut: int | None = None) -> None:
        self.stored: list[Event] = []
        self.responses: list[list[Chunk]] = []
        self.message: UIMessage | None = None
        for index, events in enumerate(runs):
            last = index == len(runs) - 1
            self._run(events[:cut] if last and cut is not None else events, ending if last else "done")

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for response in self.responses for chunk in response]

    def _run(self, events: list[Event], ending: str) -> None:
        encoder = Encoder(MESSAGE)
        if self.stored:
            fed(encoder, self.stored)
            encoder.pause()
        chunks = [encoder.start(), *fed(encoder, events)]
        self.stored += [event for event in events if not event.partial]
        for event in _last_events(encoder, ending, self.stored):
            chunks += encoder.feed(event)
            self.stored.append(event)
        chunks += encoder.end()
        self.responses.append(chunks)
        self.message = fold(chunks, into=self.message)


def _last_events(encoder: Encoder, ending: str, stored: list[Event]) -> Iterable[Event]:
    """The last events of a run: those that ADK stores when it is stopped or fails, then those of `Run`."""
    known = {one.id for event in stored for one in event.get_function_calls()}
    dangling = [(one, name) for one, name in encoder.running_calls() if one in known]
    if ending == "sealed stop" and dangling:
        yield answered(*(response(one, {"error": "Invocation was aborted."}, name) for one, name in dangling))
    if "stop" in ending:
        yield aborted()
    if ending == "model fails":
        yield Event(author="agent", error_code="RuntimeError", error_message="boom")
    unsaved = encoder.unsaved()
    calls = encoder.running_calls() if ending == "done" else encoder.unsettled_calls()
    lost = ending == "lost" and encoder.failure is None
    yield from [partial_event(one, "i1", {}) for one in unsaved]
    if calls:
        yield response_event([(one, name, {"error": UNFINISHED}) for one, name in calls], "agent", "i1", {})
    if lost:
        yield ending_event(RuntimeError("boom"), "agent", "i1", {})


def read_again(stored: list[Event]) -> list[Chunk]:
    encoder = Encoder(MESSAGE)
    return [encoder.start(), *fed(encoder, stored), *encoder.end()]


def reloaded(stored: list[Event]) -> UIMessage:
    return fold(read_again(stored))


@st.composite
def streams(draw: st.DrawFn) -> Streamed:
    runs = draw(conversations())
    ending = draw(ENDINGS)
    cut = None if ending == "done" else draw(st.integers(0, len(runs[-1])))
    return Streamed(runs, ending, cut)


@thorough
@given(streams())
def test_every_response_is_valid_for_the_strictest_clients(streamed: Streamed) -> None:
    for client, schema in (("ai/6.0.0", V6_STRICT), ("ai/7.0.0", V7_STRICT)):
        message: UIMessage | None = None
        for chunks in streamed.responses:
            fitted = [one for chunk in chunks if (one := Profile.declared(client).fit(chunk)) is not None]
            assert [error for chunk in fitted for error in schema.errors(chunk)] == []
            message = assert_valid_stream(fitted, client=client, into=message)


@thorough
@given(streams())
def test_a_reloaded_page_shows_what_the_streamed_page_showed(streamed: Streamed) -> None:
    assert msgspec.to_builtins(reloaded(streamed.stored)) == msgspec.to_builtins(streamed.message)


@thorough
@given(streams())
def test_text_is_neither_lost_nor_doubled(streamed: Streamed) -> None:
    stored = [part for event in streamed.stored if event.author != "user" for part in _parts(event) if part.text]
    for delta, thought in ((c.TextDelta, None), (c.ReasoningDelta, True)):
        spoken = "".join(chunk.delta for chunk in streamed.chunks if isinstance(chunk, delta))
        assert spoken == "".join(part.text or "" for part in stored if part.thought == thought)


@thorough
@given(streams())
def test_calls_are_announced_once_and_settled_at_most_once_after_that(streamed: Streamed) -> None:
    begun: Counter[str] = Counter()
    given_out: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    asked: set[str] = set()
    for chunk in streamed.chunks:
        if isinstance(chunk, c.ToolInputStart):
            begun[chunk.tool_call_id] += 1
            assert not given_out[chunk.tool_call_id]
            assert chunk.tool_call_id not in asked
        elif isinstance(chunk, c.ToolInputAvailable):
            given_out[chunk.tool_call_id] += 1
        elif isinstance(chunk, c.ToolApprovalRequest):
            assert begun[chunk.tool_call_id] or given_out[chunk.tool_call_id]
            asked.add(chunk.tool_call_id)
        elif isinstance(chunk, c.ToolOutputAvailable | c.ToolOutputError | c.ToolOutputDenied):
            assert begun[chunk.tool_call_id] or given_out[chunk.tool_call_id]
            assert not settled[chunk.tool_call_id]
            settled[chunk.tool_call_id] += not _is_preliminary(chunk)
    assert {*given_out.values()} <= {1}


@thorough
@given(streams())
def test_the_page_gets_a_gated_call_only_after_the_yes(streamed: Streamed) -> None:
    asked: set[str] = set()
    approved: set[str] = set()
    for chunk in streamed.chunks:
        if isinstance(chunk, c.ToolApprovalRequest):
            asked.add(chunk.tool_call_id)
        elif isinstance(chunk, c.ToolApprovalResponse) and chunk.approved:
            approved.add(chunk.approval_id.removeprefix("ask-"))
        elif isinstance(chunk, c.ToolInputAvailable) and chunk.tool_name == "gated_browser":
            assert chunk.tool_call_id in approved


@thorough
@given(streams())
def test_a_refused_call_never_reaches_the_page(streamed: Streamed) -> None:
    given_out = [chunk.tool_name for chunk in streamed.chunks if isinstance(chunk, c.ToolInputAvailable)]

    assert "refused_browser" not in given_out


@thorough
@given(streams())
def test_a_late_reader_gets_the_same_message_and_executes_no_settled_call(streamed: Streamed) -> None:
    chunks = read_again(streamed.stored)
    joined = for_late_reader(chunks)

    message = fold(joined)
    assert msgspec.to_builtins(message) == msgspec.to_builtins(fold(chunks))
    given_out = {chunk.tool_call_id for chunk in joined if isinstance(chunk, c.ToolInputAvailable)}
    for part in message.parts:
        if isinstance(part, ToolPart) and part.state.startswith("output"):
            assert part.tool_call_id not in given_out


def _is_answered(part: ToolPart) -> bool:
    """True also of a denied call: its part stays `approval-responded` while another call of its step waits."""
    return part.state.startswith("output") or (part.state == "approval-responded" and _is_denied(part))


def _is_denied(part: ToolPart) -> bool:
    return part.approval is not UNSET and part.approval.approved is False


@thorough
@given(streams())
def test_pending_calls_are_those_that_the_page_shows_as_pending(streamed: Streamed) -> None:
    encoder = Encoder(MESSAGE)
    message = fold([encoder.start(), *fed(encoder, streamed.stored), *encoder.end()])

    pending_parts = [part for part in message.parts if isinstance(part, ToolPart) and not _is_answered(part)]
    assert [(one.id, one.input) for one in encoder.pending_calls()] == [
        (part.tool_call_id, part.input) for part in pending_parts
    ]


@thorough
@given(conversations())
def test_a_continuation_settles_before_its_first_step_and_never_loops(runs: list[list[Event]]) -> None:
    streamed = Streamed(runs)
    for chunks in streamed.responses[1:]:
        steps = [index for index, chunk in enumerate(chunks) if isinstance(chunk, c.StartStep)]
        first = steps[0] if steps else len(chunks)
        assert any(
            isinstance(chunk, c.ToolApprovalResponse | c.ToolOutputAvailable | c.ToolOutputError)
            for chunk in chunks[:first]
        )
    for chunks in streamed.responses:
        assert isinstance(chunks[-1], c.Finish)
        assert chunks[-1].message_metadata is not UNSET


DENIED_BESIDE_A_BROWSER_CALL = [
    [
        model(call("c1", "gated", n=1), call("c2", "browser", n=1), long_running_tool_ids={"c2"}),
        asked(types.FunctionCall(id="c1", name="gated", args={})),
        placeholder("c1"),
    ],
    [verdict(c1=False), answered(response("c1", REJECTED))],
]
"""The person has denied one call; the page has not executed the other one of the step yet."""


@thorough
@given(streams())
@example(Streamed(DENIED_BESIDE_A_BROWSER_CALL))
def test_only_pending_calls_are_left_open(streamed: Streamed) -> None:
    assert streamed.message is not None
    for part in streamed.message.parts:
        if isinstance(part, TextPart | ReasoningPart):
            assert part.state == "done"
        if isinstance(part, ToolPart) and part.type == "tool-server":
            assert part.state in ("output-available", "output-error")
            assert part.preliminary is UNSET
        if isinstance(part, ToolPart) and part.state == "approval-responded":
            assert _is_denied(part)
            assert any(one.state in ("input-available", "approval-requested") for one in _step_of(part, streamed))


def test_a_denied_call_gets_its_output_once_the_page_has_executed_the_other_call() -> None:
    before = Streamed(DENIED_BESIDE_A_BROWSER_CALL)
    after = Streamed([*DENIED_BESIDE_A_BROWSER_CALL, [from_browser("c2", {"n": 2})]])

    assert _states(before) == {"c1": "approval-responded", "c2": "input-available"}
    assert _states(after) == {"c1": "output-denied", "c2": "output-available"}


def _states(streamed: Streamed) -> dict[str, str]:
    assert streamed.message is not None
    return {part.tool_call_id: part.state for part in streamed.message.parts if isinstance(part, ToolPart)}


def _step_of(call_part: ToolPart, streamed: Streamed) -> list[ToolPart]:
    """The tool parts of the step that a call belongs to."""
    assert streamed.message is not None
    step: list[ToolPart] = []
    for part in streamed.message.parts:
        if isinstance(part, StepStartPart):
            if call_part in step:
                break
            step = []
        elif isinstance(part, ToolPart):
            step.append(part)
    return step


@thorough
@given(conversations())
def test_a_rebuilt_encoder_goes_on_as_the_old_one_would(runs: list[list[Event]]) -> None:
    old = Encoder(MESSAGE)
    stored: list[Event] = []
    for events in runs:
        new = Encoder(MESSAGE)
        fed(new, stored)
        if stored:
            new.pause()
        stored += [event for event in events if not event.partial]
        assert fed(new, events) + new.pause() == fed(old, events) + old.pause()


@thorough
@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xy ", min_size=1, max_size=3)), max_size=12), st.data())
def test_parallel_agents_keep_their_texts_apart(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    events = [partial(text(piece), author=branch, branch=branch) for branch, piece in pieces]
    whole = {branch: "".join(piece for one, piece in pieces if one == branch) for branch, _ in pieces}
    order = data.draw(st.permutations(sorted(whole)))
    events += [model(text(whole[branch]), author=branch, branch=branch) for branch in order]
    encoder = Encoder(MESSAGE)

    message = assert_valid_stream([encoder.start(), *fed(encoder, events), *encoder.end()])

    assert [part.text for part in message.parts if isinstance(part, TextPart)] == list(whole.values())


def _parts(event: Event) -> list[types.Part]:
    return (event.content.parts if event.content else None) or []


def _is_preliminary(chunk: Chunk) -> bool:
    return isinstance(chunk, c.ToolOutputAvailable) and chunk.preliminary is True
