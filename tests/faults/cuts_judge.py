"""Was every chunk of a conversation handed to the chat once and in order, and is what it shows what the server has?"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypedDict

import httpx

from tests.faults.cuts_plan import Plan
from tests.faults.cuts_words import whole
from tests.faults.lives import Json

STOPPED = "The server stopped before this answer was finished. Ask again to go on."
SHOWN = 10


class Stream(TypedDict):
    """The result of one request of a chat."""

    run: str | None
    chunks: list[Json]


@dataclass(frozen=True)
class Report:
    """A conversation as its client saw it."""

    streams: list[Stream]
    errors: list[str]
    messages: list[Json]
    resumes: int
    failure: str | None


@dataclass
class Verdict:
    """Counts of errors, which can be added up."""

    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    chunks: int = 0
    resumes: int = 0
    stopped: int = 0
    """Answers that ended because their server did."""
    paid: int = 0
    complaints: list[str] = field(default_factory=list[str])

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def compare(self, what: str, given: Sequence[str], expected: Sequence[str]) -> None:
        """Count how a sequence differs from what it should be."""
        more, less = Counter(given) - Counter(expected), Counter(expected) - Counter(given)
        moved = 0 if more or less else sum(a != b for a, b in zip(given, expected, strict=True))
        self.lost += less.total()
        self.doubled += more.total()
        self.reordered += moved
        if more or less or moved:
            differs = [pair for pair in zip_longest(given, expected) if pair[0] != pair[1]][:SHOWN]
            self.complaints.append(f"{what}: lost {dict(less)}, doubled {dict(more)}, moved {moved}: {differs}")

    def expect(self, *, that: bool, otherwise: str) -> None:
        if not that:
            self.complaints.append(otherwise)


async def judge(server: httpx.AsyncClient, plan: Plan, report: Report, ledger: list[Json], kills: int) -> Verdict:
    """Compare what a client was handed with the log, with history and with the ledger."""
    verdict = Verdict(resumes=report.resumes)
    verdict.expect(that=report.failure is None, otherwise=f"the client failed: {report.failure}")
    for stream in report.streams:
        await _judge_stream(verdict, server, plan, stream)
    _judge_errors(verdict, report, kills)
    history = (await server.get(f"/api/chats/{plan.name}")).json()
    verdict.expect(that=history.get("active", 0) is None, otherwise=f"a run is active: {history.get('active')}")
    streamed, stored = _plain(report.messages), _plain(history.get("messages", []))
    verdict.expect(that=streamed == stored, otherwise=f"history differs: {_differences(streamed, stored)}")
    _judge_words(verdict, report)
    _judge_payments(verdict, report.messages, ledger, complete=kills == 0)
    verdict.complaints = [f"{plan.name}: {complaint}" for complaint in verdict.complaints]
    return verdict


async def _judge_stream(verdict: Verdict, server: httpx.AsyncClient, plan: Plan, stream: Stream) -> None:
    """Everything behind the `start` is what a reader of the log gets behind entry 0."""
    first, *rest = stream["chunks"] or [{}]
    verdict.chunks += len(stream["chunks"])
    verdict.expect(that=first.get("type") == "start", otherwise=f"{stream['run']} begins with {first}")
    headers = {"last-event-id": f"{stream['run']}:0", "x-adkwire-client": plan.client}
    reply = await server.get(f"/api/chat/{plan.name}/stream", headers=headers)
    verdict.expect(that=reply.status_code == 200, otherwise=f"{stream['run']} is not in the log: {reply.status_code}")
    numbers, logged = _events(reply.text)
    # A chunk that this client must not see leaves its number out.
    verdict.expect(that=numbers == sorted(set(numbers)), otherwise=f"numbers of the log: {numbers}")
    verdict.compare(f"{stream['run']}", [_line(chunk) for chunk in rest], [_line(chunk) for chunk in logged])
    ends = [chunk["type"] for chunk in logged if chunk["type"] in ("finish", "error")]
    verdict.expect(that=len(ends) == 1, otherwise=f"{stream['run']} ends so: {ends}")


def _judge_errors(verdict: Verdict, report: Report, kills: int) -> None:
    """Cuts are not noticed; that the server was gone is told once for every answer that it left."""
    stopped = [chunk["errorText"] for s in report.streams for chunk in s["chunks"] if chunk["type"] == "error"]
    verdict.stopped = len(stopped)
    verdict.expect(that=report.errors == stopped, otherwise=f"errors {report.errors}, streams told {stopped}")
    verdict.expect(that=set(stopped) <= {STOPPED}, otherwise=f"other errors: {stopped}")
    verdict.expect(that=len(stopped) <= kills, otherwise=f"{len(stopped)} answers were left by {kills} kills")


def _judge_words(verdict: Verdict, report: Report) -> None:
    """The words of an answer are numbered: from the first one on, and all of them unless its server was killed."""
    messages = report.messages
    left = {
        s["chunks"][0].get("messageId") for s in report.streams if s["chunks"] and s["chunks"][-1]["type"] == "error"
    }
    verdict.expect(that=len(messages) % 2 == 0, otherwise=f"{len(messages)} messages")
    verdict.expect(that=messages[-1]["id"] not in left, otherwise="the chat did not go on")
    for asked, answer in zip(messages[::2], messages[1::2], strict=False):
        wanted, words = whole(_text(asked)).split(), _text(answer).split()
        verdict.compare(f"words of {answer['id']}", words, wanted[: len(words)] if answer["id"] in left else wanted)


def _judge_payments(verdict: Verdict, messages: list[Json], ledger: list[Json], *, complete: bool) -> None:
    """Check that approved payments are made once, or after a kill as often as is reported."""
    paid = Counter(line["call"] for line in ledger)
    calls = {part["toolCallId"]: part for m in messages for part in m["parts"] if part["type"] == "tool-pay"}
    verdict.paid = paid.total()
    verdict.expect(that=set(paid) <= set(calls), otherwise=f"paid and not shown: {set(paid) - set(calls)}")
    for call, part in calls.items():
        times = {1} if complete else _times(part)
        verdict.expect(that=paid[call] in times, otherwise=f"paid {paid[call]} times: {part}")


def _times(part: Json) -> set[int]:
    """Return how often a payment may have been made, by the state of its part."""
    if part["state"] == "output-available":
        return {1}
    if part["state"] == "output-error" and "outcome is unknown" in part["errorText"]:
        return {0, 1}
    return {0}


def _events(text: str) -> tuple[list[int], list[Json]]:
    """The numbers and the chunks of a stream."""
    events = [event.split("\n") for event in text.split("\n\n") if event.startswith("id: ")]
    return [int(head.rpartition(":")[2]) for head, _ in events], [json.loads(data[6:]) for _, data in events]


def _line(chunk: Json) -> str:
    return json.dumps(chunk, sort_keys=True)


def _text(message: Json) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def _plain(messages: list[Json]) -> list[Json]:
    """Messages without the id that ai 7 keeps on thoughts."""
    return [{**message, "parts": [_without_id(part) for part in message["parts"]]} for message in messages]


def _without_id(part: Json) -> Json:
    return {key: value for key, value in part.items() if part["type"] != "reasoning" or key != "id"}


def _differences(streamed: list[Json], stored: list[Json]) -> list[tuple[Any, Any]]:
    """The heads and parts that are not the same, the first few of them."""
    pairs = zip_longest(_pieces(streamed), _pieces(stored))
    return [pair for pair in pairs if pair[0] != pair[1]][:SHOWN]


def _pieces(messages: list[Json]) -> list[Json]:
    return [piece for message in messages for piece in ({**message, "parts": None}, *message["parts"])]
