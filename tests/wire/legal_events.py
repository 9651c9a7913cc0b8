"""Random legal answers of ADK: what `run_async` may yield for one assistant message, from its first run to its last.

A conversation is a list of runs, each a list of events. All but the last end because someone has to act.
"""

from collections.abc import Callable
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from hypothesis import strategies as st

from tests.wire.adk_events import (
    REJECTED,
    answered,
    asked,
    call,
    from_browser,
    image,
    model,
    partial,
    placeholder,
    response,
    text,
    thought,
    verdict,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

_WORDS = st.text(alphabet="ab é\n😀<", min_size=1, max_size=3)
_KINDS = st.sampled_from(["text", "text", "thought", "image"])
_KINDS_OF_CALLS = ["server", "server", "gated", "browser", "gated browser", "refused browser"]
_CALLS = st.lists(st.sampled_from(_KINDS_OF_CALLS), max_size=3)
_ASKED = st.sampled_from([{}, {"scopes": ["once"]}, {"scopes": ["once", "chat"], "expiresAt": "2026-01-02T03:04:05Z"}])
_SAID = st.sampled_from([{}, {"reason": "because"}, {"edited": {"n": 2}}, {"reason": "less", "edited": {"n": 2}}])
_AT_ONCE = ("server", "refused browser")
"""Kinds that are answered in the run that calls them."""
REFUSED = {"error": "The policy does not allow this call."}
_RESULTS = st.sampled_from([None, {}, {"result": 1}, {"error": "no"}, {"error": "no", "code": 1}])


@st.composite
def conversations(draw: Draw) -> list[list[Event]]:
    """The runs of one message."""
    runs: list[list[Event]] = [[]]
    for step in range(draw(st.integers(1, 3))):
        kinds = draw(_CALLS)
        calls = {f"c{step}{index}": kind for index, kind in enumerate(kinds)}
        runs[-1] += _model_step(draw, calls)
        runs[-1] += _first_responses(draw, calls)
        waiting = {one: kind for one, kind in calls.items() if kind not in _AT_ONCE}
        if waiting and draw(st.booleans()):
            return runs
        if not _answers(draw, waiting, runs) or not calls:
            return runs
    return runs


def _model_step(draw: Draw, calls: dict[str, str]) -> list[Event]:
    pieces = draw(st.lists(st.tuples(_KINDS, st.lists(_WORDS, min_size=1, max_size=3)), max_size=3))
    functions = [call(one, _name(kind), n=1) for one, kind in calls.items()]
    events: list[Event] = []
    if draw(st.booleans()):
        events += [partial(part) for kind, words in pieces for part in _streamed(kind, words)]
        how = draw(st.sampled_from(["unseen", "whole", "streamed"]))
        events += [event for function in functions for event in _streamed_call(how, function)]
    whole = [part for kind, words in pieces for part in _streamed(kind, ["".join(words)])]
    browser = {one for one, kind in calls.items() if "browser" in kind}
    metadata = {
        "usage_metadata": types.GenerateContentResponseUsageMetadata(total_token_count=draw(st.integers(0, 3))),
        "finish_reason": draw(st.sampled_from([None, types.FinishReason.STOP, types.FinishReason.MAX_TOKENS])),
        "actions": EventActions(state_delta=draw(st.sampled_from([{}, {"k": 1}, {"temp:k": 1}]))),
    }
    events.append(model(*_joined(whole), *functions, long_running_tool_ids=browser, **metadata))
    return events


def _name(kind: str) -> str:
    return kind.replace(" ", "_")


def _streamed(kind: str, words: list[str]) -> list[types.Part]:
    if kind == "image":
        return [image()]
    return [text(word) if kind == "text" else thought(word) for word in words]


def _streamed_call(how: str, function: types.Part) -> list[Event]:
    """The partial events of a call: none, one with all arguments, or one for each argument."""
    if how == "unseen" or function.function_call is None:
        return []
    if how == "whole":
        return [partial(function)]
    one = function.function_call
    first = types.FunctionCall(id=one.id, name=one.name, will_continue=True)
    value = types.PartialArg(json_path="$.n", number_value=1)
    last = types.FunctionCall(id=one.id, name=one.name, partial_args=[value], will_continue=False)
    return [partial(types.Part(function_call=first)), partial(types.Part(function_call=last))]


def _joined(parts: list[types.Part]) -> list[types.Part]:
    """Join neighbouring texts of one kind, as ADK does in the complete event."""
    joined: list[types.Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last and last.text and part.text and last.thought == part.thought:
            joined[-1] = types.Part(text=last.text + part.text, thought=last.thought)
        else:
            joined.append(part)
    return joined


def _first_responses(draw: Draw, calls: dict[str, str]) -> list[Event]:
    gated = [one for one, kind in calls.items() if "gated" in kind]
    results = [
        response(one, draw(_RESULTS) if kind == "server" else REFUSED)
        for one, kind in calls.items()
        if kind in _AT_ONCE
    ]
    events = [
        partial(response(one, {"percent": 50}))
        for one, kind in calls.items()
        if kind == "server" and draw(st.booleans())
    ]
    question = asked(
        *(types.FunctionCall(id=one, name="x", args={}) for one in gated),
        hint=draw(st.sampled_from(["", "?"])),
        **{one: stamp for one in gated if (stamp := draw(_ASKED))},
    )
    if gated and results:
        return [*events, placeholder(*gated, others=results), question]
    if gated:
        return [*events, question, placeholder(*gated)]
    if results and draw(st.booleans()):
        return [*events, *(answered(one) for one in draw(st.permutations(results)))]
    return [*events, answered(*results)] if results else events


def _answers(draw: Draw, waiting: dict[str, str], runs: list[list[Event]]) -> bool:
    """Add a run for each answer of the person or the page; return True if all calls are settled."""
    for one in draw(st.permutations(sorted(waiting))):
        kind = waiting[one]
        if "gated" in kind:
            metadata = draw(st.sampled_from(["yes", "yes", "no", "nothing in time"]))
            stamp = {"expired": True} if metadata == "nothing in time" else draw(_SAID)
            runs.append([verdict(stamps={one: stamp}, as_text=draw(st.booleans()), **{one: metadata == "yes"})])
            if metadata != "yes":
                runs[-1].append(answered(response(one, REJECTED)))
                continue
            if "browser" not in kind:
                runs[-1].append(answered(response(one, draw(_RESULTS))))
                continue
        if draw(st.integers(0, 5)) == 0:
            return False
        runs.append([from_browser(one, draw(_RESULTS) or {})])
    return True
