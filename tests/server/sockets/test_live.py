"""`/api/live`: frames in and out, sound both ways, and what a stock client makes of it."""

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adkwire import Bridge, create_app
from adkwire.errors import Unavailable
from adkwire.server.sockets.outbox import AudioPiece, Outbox
from adkwire.stores.base import Batch
from adkwire.stores.memory import MemorySignals, MemoryStreamLog, SharedSignals
from adkwire.stores.stores import Stores
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.server.app_server import PATIENCE, Site, body, message, serving
from tests.server.conftest import Open
from tests.server.sockets.live_client import TALKS, LiveClient, answer, audio, binary, control, open_live, turn_of
from tests.server.sockets.socket_client import (
    OURS,
    abort_frame,
    chunks_of,
    kinds_of,
    open_socket,
    refusal,
    resume_frame,
    send_frame,
    text_in,
    until,
)
from tests.server.sockets.test_chat import OFFICIAL
from tests.support.chats import scripted, settings, texts_in
from tests.support.fixtures import leaked_since
from tests.support.gated_tools import Till, clock, where
from tests.wire.pictures import png

PIECE = bytes(640)
LIVE = "/api/live"


def echo() -> ScriptedModel:
    return ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])


def paying(*more: Any) -> ScriptedModel:
    return ScriptedModel(turns=[[Call("pay", {"amount": 5}, id="c1"), *more], [Say("done")]])


async def asked_about_a_payment(one: LiveClient) -> str:
    """The question that the answer comes to."""
    await one.send(send_frame("pay"))
    question: str = (await one.until("tool-approval-request"))[-1]["chunk"]["approvalId"]
    return question


async def test_ready_comes_first_and_says_how_sound_is_written(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_socket(site, path=LIVE, query="?chat=chat", subprotocols=TALKS) as one:
        assert one.connection.subprotocol == "adkwire.live.v1"
        assert await one.next() == {
            "type": "ready",
            "version": "1.0",
            "chat": "chat",
            "run": None,
            "generation": 0,
            "resumed": False,
            "audio": {
                "input": {"rate": 16_000, "channels": 1, "bitDepth": 16},
                "output": {"rate": 24_000, "channels": 1, "bitDepth": 16},
            },
        }


async def test_a_typed_message_is_answered_in_words_and_sound(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.send(send_frame("hi", "r1"))
        frames = await one.answer("r1")
        assert text_in(frames) == "to hi"
        assert all(frame["id"].count(":") == 1 for frame in frames if frame["type"] == "chunk")
        await one.send({"type": "ping", "timestamp": 5})
        pong = (await one.until("pong"))[-1]
        assert (pong["timestamp"], pong["version"]) == (5, "1.0")
        assert pong["serverTime"] > 1_000_000_000_000
    assert {(piece.kind, piece.generation) for piece in one.heard} == {(1, 1)}
    assert [piece.flags for piece in one.heard] == [*[0] * (len(one.heard) - 1), 1]
    lengths = [len(piece.pcm) // 48 for piece in one.heard]
    assert [piece.position for piece in one.heard] == [sum(lengths[:n]) for n in range(len(lengths))]
    assert sum(lengths) > 0


@pytest.mark.parametrize("given", [{}, {"requestId": "mine", "timestamp": 1}])
async def test_a_message_in_a_form_of_its_own(open_site: Open, given: dict[str, Any]) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.send({"type": "message", "data": {"messages": [message("hi")]}, **given})
        begun = (await one.until("start"))[-1]
        assert begun["requestId"] == given.get("requestId", "message-1")
        assert text_in(await one.answer(begun["requestId"])) == "to hi"


@pytest.mark.parametrize(
    "pieces",
    [
        [binary(PIECE)] * 20,
        [audio(PIECE)] * 20,
        [audio(bytes(1_920), sampleRate=48_000)] * 20,
        [audio(bytes(320), sampleRate=8_000)] * 20,
    ],
    ids=["binary", "base64", "48 kHz", "8 kHz"],
)
async def test_a_spoken_turn_is_pushed(open_site: Open, pieces: list[Any]) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.speak(*pieces)
        before = await one.until("turn")
        pushed = before[-1]
        assert (pushed["origin"], pushed["version"]) == ("voice", "1.0")
        rest = await one.until("end", pushed["requestId"])
        frames = [frame for frame in rest if frame.get("requestId") == pushed["requestId"]]
        assert frames[0]["type"] == "start"
        assert chunks_of(frames)[0] == {"type": "start", "messageId": pushed["messageId"]}
        transcripts = [frame for frame in [*before, *rest] if frame["type"] == "user-transcript"]
        assert {frame["userMessageId"] for frame in transcripts} == {pushed["userMessageId"]}
        assert (transcripts[-1]["text"], transcripts[-1]["final"]) == ("(0.4 seconds of sound)", True)
        assert text_in(frames) == "to (0.4 seconds of sound)"
        states = [frame["state"] for frame in [*before, *rest] if frame["type"] == "state"]
        assert states[-1] == "listening"
        assert {"thinking", "speaking"} <= set(states)
    assert one.heard


async def test_every_frame_of_our_own_has_its_version(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.send({"type": "shout"}, {"type": "ping"})
        await one.speak(binary(PIECE))
        pushed = await one.until("turn")
        frames = [*pushed, *await one.until("end", pushed[-1]["requestId"])]
    ours = [frame for frame in frames if frame["type"] not in ("start", "chunk", "end")]
    assert {frame["type"] for frame in ours} >= {"error", "pong", "turn", "state", "user-transcript"}
    assert {frame["version"] for frame in ours} == {"1.0"}
    assert not any("version" in frame for frame in frames if frame not in ours)


WRONG: list[tuple[Any, str, str]] = [
    (audio(PIECE, sampleRate=96_000), "audio_chunk", "unsupported-type"),
    (audio(PIECE, channels=2), "audio_chunk", "unsupported-type"),
    (audio(PIECE, bitDepth=24), "audio_chunk", "unsupported-type"),
    (audio(b"abc"), "audio_chunk", "unsupported-type"),
    (audio(bytes(16_002)), "audio_chunk", "too-large"),
    (binary(b"abc"), "audio_chunk", "unsupported-type"),
    (binary(bytes(16_002)), "audio_chunk", "too-large"),
    (binary(b"no picture", 2), "video_frame", "unsupported-type"),
    (binary(b"", 9), "binary", "unprocessable"),
    (b"", "binary", "unprocessable"),
    ({"type": "audio_control", "action": "dance"}, "audio_control", "unprocessable"),
    ({"type": "interrupt", "reason": "bored"}, "interrupt", "unprocessable"),
    ({"type": "played", "generation": -1, "ms": 0}, "played", "unprocessable"),
    ({"type": "interrupt", "more": "x" * 64_000}, "interrupt", "too-large"),
    (answer(""), "tool_result", "unprocessable"),
    ({"type": "shout"}, "shout", "unprocessable"),
]


@pytest.mark.parametrize(("frame", "name", "code"), WRONG)
async def test_a_wrong_frame_is_named_and_the_socket_goes_on(
    shared_site: Site, frame: Any, name: str, code: str
) -> None:
    async with open_live(shared_site, "wrong") as one:
        await one.send(frame)
        refused = await one.next()
        assert set(refused) == {"type", "version", "code", "text", "frame"}
        assert (refused["type"], refused["frame"], refused["code"]) == ("error", name, code)
        await one.send({"type": "ping"})
        assert (await one.next())["type"] == "pong"


async def test_a_wrong_frame_of_a_request_is_answered_there(shared_site: Site) -> None:
    async with open_live(shared_site, "wrong") as one:
        await one.send({"type": "message", "requestId": "x", "data": {}})
        assert (await one.answer("x"))[0]["code"] == "unprocessable"


async def test_errors_about_audio_are_limited(shared_site: Site) -> None:
    async with open_live(shared_site, "wrong") as one:
        await one.send(*[audio(PIECE, channels=2)] * 40, {"type": "ping"})
        received = await one.until("pong")
    assert [frame["type"] for frame in received] == [*["error"] * 5, "pong"]


@pytest.mark.parametrize("nonsense", ["nonsense", b"\0", b"\t" * 20, '{"type":"shout"}'])
async def test_too_much_nonsense(shared_site: Site, nonsense: str | bytes) -> None:
    async with open_live(shared_site, "wrong") as one:
        await one.send(*[nonsense] * 11)
        assert await one.closed() == (1008, "too many malformed frames")


async def test_too_many_frames(open_site: Open) -> None:
    site = await open_site(controls_per_second=1)
    async with open_live(site) as one:
        await one.send(*[{"type": "ping"}] * 6)
        assert await one.closed() == (4429, "too many frames")


async def test_too_much_sound_is_left_out_and_far_too_much_ends_it(open_site: Open) -> None:
    site = await open_site(echo(), audio_per_second=10)
    async with open_live(site) as one:
        await one.speak(*[binary(PIECE)] * 80)
        _, frames = await turn_of(one)
        answered_text = text_in(frames)
        assert answered_text.startswith("to (1")  # 50 pieces at once, of 1.6 seconds
        assert answered_text != "to (1.6 seconds of sound)"
    async with open_live(site) as two:
        await two.send(*[binary(PIECE)] * 200)
        assert await two.closed() == (4429, "too many frames")


@pytest.mark.parametrize("query", ["", "?chat=", "?chat=../x", "?chat=a%20b"])
async def test_a_client_of_ours_names_its_chat(shared_site: Site, query: str) -> None:
    async with open_socket(shared_site, path=LIVE, query=query, subprotocols=TALKS) as one:
        assert await one.closed() == (4404, "no such chat")


async def test_a_socket_belongs_to_one_chat(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.send(send_frame("hi", "r1", chat="other"), resume_frame("r2", chat="other"))
        assert (await one.answer("r1"))[0]["code"] == "unprocessable"
        assert (await one.answer("r2"))[0]["code"] == "unprocessable"
    async with open_socket(site, path=LIVE) as stock:
        assert text_in(await stock.ask(send_frame("a", "r1", chat="mine"))) == "to a"
        assert "another chat" in refusal(await stock.ask(send_frame("b", "r2", chat="other")))
        assert text_in(await stock.ask(send_frame("c", "r3", chat="mine", message_id="u2"))) == "to c"


async def test_a_frame_that_is_not_admitted_binds_a_socket_to_no_chat(open_site: Open) -> None:
    site = await open_site(echo(), chats_per_minute=1)
    assert (await site.client.post("/api/chat", json=body())).status_code == 200
    async with open_socket(site, path=LIVE) as stock:
        assert "Too many" in refusal(await stock.ask(send_frame("a", "r1", chat="other")))
        assert (await stock.ask(resume_frame("r2", chat="mine")))[0]["type"] == "no-active"


async def test_a_stock_client_gets_official_frames_only_and_hears_by_chunks(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_socket(site, path=LIVE) as stock:
        frames = await stock.ask(send_frame("hi"))
        await stock.send("nonsense", resume_frame("r9"))
        assert await stock.next() == {"type": "no-active", "requestId": "r9"}
    assert all(set(frame) == OFFICIAL[frame["type"]] for frame in frames)
    assert text_in(frames) == "to hi"
    sounds = [chunk for chunk in chunks_of(frames) if chunk["type"] == "data-pcm"]
    assert all(set(chunk) == {"type", "data", "transient"} for chunk in sounds)
    assert {chunk["data"]["sampleRate"] for chunk in sounds} == {24_000}
    async with open_live(site, "loud") as one:
        await one.send(send_frame("hi", chat="loud"))
        await one.answer("r1")
    received = b"".join(base64.b64decode(chunk["data"]["chunk"]) for chunk in sounds)
    assert received == b"".join(piece.pcm for piece in one.heard) != b""


async def test_a_response_to_a_stock_client_begins_with_start_though_audio_is_faster(
    open_site: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio_waits, put_audio, read = asyncio.Event(), Outbox.put_audio, MemoryStreamLog.read

    def put_audio_and_tell(self: Outbox, piece: AudioPiece) -> None:
        put_audio(self, piece)
        audio_waits.set()

    async def read_after_audio(self: MemoryStreamLog, run: str, after: int, wait: float) -> Batch | None:
        await audio_waits.wait()
        return await read(self, run, after, wait)

    monkeypatch.setattr(Outbox, "put_audio", put_audio_and_tell)
    monkeypatch.setattr(MemoryStreamLog, "read", read_after_audio)
    site = await open_site(echo(), db="memory:")
    async with open_socket(site, path=LIVE) as stock:
        chunks = [chunk["type"] for chunk in chunks_of(await stock.ask(send_frame("hi")))]
    assert chunks[0] == "start"
    assert "data-pcm" in chunks


async def test_what_a_stock_client_may_not_send(shared_site: Site) -> None:
    async with open_socket(shared_site, path=LIVE) as stock:
        await stock.send({"type": "interrupt", "requestId": "x"}, binary(PIECE))
        assert "no frame of the type 'interrupt'" in refusal([await stock.next()])
        assert (await stock.ask(resume_frame("r9", chat="none")))[0]["type"] == "no-active"


async def test_the_subprotocol_of_the_chat_socket(open_site: Open) -> None:
    """Places, codes and pings, but no frame that the official transport would not pass on."""
    site = await open_site(echo())
    async with open_socket(site, path=LIVE, subprotocols=OURS) as one:
        frames = await one.ask(send_frame("hi"))
        assert text_in(frames) == "to hi"
        assert {"id" in frame for frame in frames if frame["type"] == "chunk" and "data" not in frame["chunk"]} == {
            True
        }
        await one.send({"type": "ping", "timestamp": 1})
        assert set(await one.next()) == {"type", "timestamp", "serverTime"}


async def test_a_live_conversation_only_goes_forward(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_socket(site, path=LIVE) as stock:
        assert text_in(await stock.ask(send_frame("hi"))) == "to hi"
        again = send_frame("hi", "r2", trigger="regenerate-message", messageId="m1")
        assert "not answered again" in refusal(await stock.ask(again))
        assert text_in(await stock.ask(send_frame("you", "r3", message_id="u2"))) == "to you"


async def test_a_call_is_approved_while_the_answer_stays_open(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        question = await asked_about_a_payment(one)
        assert till.paid == []
        await one.send(answer("c1", status="approved"))
        rest = await one.until("end")
        assert [frame["chunk"]["output"] for frame in rest if frame.get("chunk", {}).get("output")] == [{"paid": 5}]
        settled = [(frame["toolCallId"], frame["approvalId"]) for frame in rest if frame["type"] == "call-settled"]
        assert settled
        assert set(settled) == {("c1", question)}
        assert [frame["type"] for frame in rest].count("end") == 1
    assert till.paid == [5]


async def test_a_repeated_answer_gets_call_settled_again(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        question = await asked_about_a_payment(one)
        await one.send(answer("c1", status="approved"))
        await one.until("end")
    async with open_live(site) as two:
        await two.send(answer("c1", status="approved"))
        received = await two.next()
        assert (received["type"], received["approvalId"]) == ("call-settled", question)
    assert till.paid == [5]


async def test_an_answer_to_another_question_is_refused(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        question = await asked_about_a_payment(one)
        await one.send(answer("c1", status="approved", approvalId="an older one"))
        refused = (await one.until("error"))[-1]
        assert (refused["code"], refused["toolCallId"]) == ("not-found", "c1")
        await one.send(answer("c1", status="approved", approvalId=question))
        await one.until("end")
    assert till.paid == [5]


@pytest.mark.parametrize("status", ["rejected", "denied"])
async def test_a_call_is_denied(open_site: Open, status: str) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        await one.send(send_frame("pay"))
        await one.until("tool-approval-request")
        await one.send(answer("c1", status=status, reason="too much"))
        rest = await one.until("end")
        assert "tool-output-denied" in [frame["chunk"]["type"] for frame in rest if frame["type"] == "chunk"]
    assert till.paid == []


async def test_the_error_of_an_answer_names_its_call(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        await one.send(send_frame("pay"))
        await one.until("tool-approval-request")
        await one.send(answer("c1", result={"paid": 1}), answer("c9", status="approved"))
        first, second = (await one.until("error"))[-1], (await one.until("error"))[-1]
        assert (first["frame"], first["toolCallId"], first["code"]) == ("tool_result", "c1", "not-found")
        assert "takes a `status`" in first["text"]
        assert (second["frame"], second["toolCallId"]) == ("tool_result", "c9")
        await one.send(answer("c1", status="approved"))
        await one.until("end")
    assert till.paid == [5]


WRONG_ANSWERS = [
    {},
    {"status": "maybe"},
    {"status": "approved", "scope": "ever"},
    {"status": "approved", "arguments": {"amount": 1}},
    {"status": "rejected", "reason": "x" * 1_001},
    {"error": "x" * 64_000},
]


@pytest.mark.parametrize("wrong_answer", WRONG_ANSWERS, ids=lambda wrong_answer: " ".join(wrong_answer) or "nothing")
@pytest.mark.parametrize("named", [{}, {"requestId": "r9"}], ids=["alone", "as a request"])
async def test_the_error_of_a_malformed_answer_names_its_call(
    shared_site: Site, wrong_answer: dict[str, Any], named: dict[str, Any]
) -> None:
    async with open_live(shared_site, "wrong") as one:
        await one.send({**answer("c1", **wrong_answer), **named})
        refused = await one.next()
        assert (refused["type"], refused["toolCallId"], refused.get("requestId")) == (
            "error",
            "c1",
            named.get("requestId"),
        )
        assert refused["code"] in ("unprocessable", "too-large")


async def test_a_call_is_not_executed_with_arguments_that_were_not_meant(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        await one.send(send_frame("pay"))
        await one.until("tool-approval-request")
        await one.send(answer("c1", status="approved", arguments={"amount": 1}))
        assert "unknown field `arguments`" in (await one.until("error"))[-1]["text"]
        await one.send(answer("c1", status="approved", args={"amount": 2}))
        await one.until("end")
    assert till.paid == [2]


async def test_call_settled_is_sent_once(open_site: Open) -> None:
    """Also to the one who has answered: the second of two answers is not taken for confirmed by the first."""
    model = ScriptedModel(turns=[[Call("where", {"exact": True}, id="c1")], [Say("there")]])
    site = await open_site(model, where)
    async with open_live(site) as one, open_live(site) as two:
        await one.send(send_frame("where?"))
        await one.until("tool-approval-request")
        await one.send(answer("c1", status="approved"), answer("c1", result={"city": "Rome"}))
        for each in (one, two):
            received = [frame for frame in await each.until("end") if frame["type"] == "call-settled"]
            assert [frame["state"] for frame in received] == ["offered", "answered"]


async def test_a_browser_gives_its_output(open_site: Open) -> None:
    model = ScriptedModel(turns=[[Call("clock", {"zone": "UTC"}, id="c1")], [Say("noon")]])
    site = await open_site(model, clock)
    async with open_live(site) as one:
        await one.send(send_frame("time?"))
        await one.until("tool-input-available")
        await one.send(answer("c1", result={"time": "12:00"}))
        rest = await one.until("end")
        assert text_in([frame for frame in rest if frame["type"] == "chunk"]) == "noon"


async def test_the_answer_to_a_stock_client_ends_at_a_break_and_goes_on_with_what_it_sends(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_socket(site, path=LIVE) as stock:
        frames = await stock.ask(send_frame("pay"))
        chunks = chunks_of(frames)
        assert [chunk["type"] for chunk in chunks[-2:]] == ["finish-step", "finish"]
        metadata = {"author": "helper", "modelVersion": "scripted"}
        assert chunks[-1] == {"type": "finish", "finishReason": "tool-calls", "messageMetadata": metadata}
        [asked] = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
        assert (await stock.ask(resume_frame("r7")))[0]["type"] == "no-active"
        approval = approving("c1", 5, asked["approvalId"], chunks[0]["messageId"])
        more = await stock.ask(send_frame(request_id="r2", messages=[message("pay"), approval]))
        assert chunks_of(more)[0] == {"type": "start", "messageId": chunks[0]["messageId"]}
        assert text_in(more) == "done"
        kinds = kinds_of(more)
        assert kinds.count("tool-output-available") == 1
        assert "tool-input-available" not in kinds
        assert kinds[-1] in ("finish", "data-pcm")
    assert till.paid == [5]


def approving(call: str, amount: int, question: str, message_id: str) -> dict[str, Any]:
    """The answer of a stock client that has approved a payment."""
    part = {
        "type": "tool-pay",
        "toolCallId": call,
        "state": "approval-responded",
        "input": {"amount": amount},
        "approval": {"id": question, "approved": True},
    }
    return {"id": message_id, "role": "assistant", "parts": [part]}


async def test_a_stock_client_reads_past_breaks_that_its_answer_is_behind(open_site: Open) -> None:
    till = Till()
    both = [Call("pay", {"amount": 5}, id="c1"), Call("pay", {"amount": 6}, id="c2")]
    site = await open_site(ScriptedModel(turns=[both, [Say("done")]]), till.pay)
    async with open_socket(site, path=LIVE) as stock:
        chunks = chunks_of(await stock.ask(send_frame("pay")))
        questions = {chunk["toolCallId"]: chunk["approvalId"] for chunk in chunks if "approvalId" in chunk}
        async with open_live(site) as elsewhere:
            await elsewhere.send(answer("c1", status="approved"))
            received = [(await elsewhere.until("state"))[-1]["state"] for _ in range(2)]
        assert received == ["thinking", "waiting"]
        approval = approving("c2", 6, questions["c2"], chunks[0]["messageId"])
        more = await stock.ask(send_frame(request_id="r2", messages=[message("pay"), approval]))
        assert kinds_of(more).count("tool-output-available") == 2
        assert text_in(more) == "done"
    assert till.paid == [5, 6]


async def test_a_client_of_ours_comes_back_to_a_held_call(open_site: Open) -> None:
    till = Till()
    site = await open_site(paying(), till.pay)
    async with open_live(site) as one:
        await one.send(send_frame("pay"))
        before = await one.until("tool-approval-request")
        one.connection.transport.abort()
    async with open_socket(site, path=LIVE, query="?chat=chat", subprotocols=TALKS) as again:
        two = LiveClient(again.connection)
        ready = await two.next()
        assert (ready["resumed"], ready["run"]) == (True, before[-1]["id"].partition(":")[0])
        last = before[-1]
        await two.send(resume_frame("r1", after=last["id"], lastSequence=last["sequence"]))
        await two.until("start")
        await two.send(answer("c1", status="approved"))
        rest = await two.answer("r1")
        assert text_in([frame for frame in [*before, *rest] if frame["type"] == "chunk"]) == "done"
    assert till.paid == [5]


async def test_an_interruption(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(script=lambda _: [Say("one two "), Wait(held), Say("three")]))
    async with open_live(site) as one:
        await one.send(send_frame("hi"))
        await one.until("text-delta")
        await one.send({"type": "interrupt", "reason": "user_abort"})
        received = await one.until("interrupted")
        assert received[-1]["requestId"] == "r1"
        generation = received[-1]["generation"]
        sounded = len(one.heard)
        rest = await one.until("end", "r1")
        held.set()
        await one.send({"type": "ping"})
        await one.until("pong")
        assert all(piece.generation == generation for piece in one.heard[sounded:])
        assert "three" not in text_in([frame for frame in rest if frame["type"] == "chunk"])


async def test_abort_stops_the_turn_of_its_request(open_site: Open) -> None:
    site = await open_site(ScriptedModel(script=lambda _: [Say("one "), Wait(asyncio.Event())]))
    async with open_live(site) as one:
        await one.send(send_frame("hi"))
        await one.until("text-delta")
        await one.send(abort_frame("r1"))
        assert chunks_of(await one.answer("r1"))[-1]["type"] == "finish"


async def test_close_ends_the_conversation_now(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.send(send_frame("hi"))
        await one.answer("r1")
        assert (await site.client.post("/api/chat", json=body("x", message_id="u2"))).status_code == 409
        await one.send({"type": "close"})
        assert await one.closed() == (1000, "done")
    assert (await site.client.post("/api/chat", json=body("x", message_id="u2"))).status_code == 200


async def test_a_deleted_chat(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_live(site) as one:
        await one.send(send_frame("hi"))
        await one.answer("r1")
        assert (await site.client.delete("/api/chats/chat")).status_code == 204
        assert await one.closed() == (4404, "no such chat")


async def test_going_down(tmp_path: Path) -> None:
    app = create_app(scripted(echo()), settings=settings(tmp_path, drain=5))
    async with serving(app) as site, open_live(site) as one, open_socket(site, path=LIVE) as stock:
        await stock.ask(send_frame("hi", chat="other"))
        closing = asyncio.create_task(app.state.bridge.close())
        notice = await one.next()
        assert (notice["type"], notice["code"], notice["version"]) == ("notice", "server-restart", "1.0")
        assert (await one.closed())[0] == 1001
        assert (await stock.closed())[0] == 1001
        await closing


class Hesitant(MemorySignals):
    """The first time that somebody comes to talk it fails, or never ends to take that down."""

    def __init__(self, shared: SharedSignals, *, fails: bool) -> None:
        super().__init__(shared)
        self._fails = fails
        self.met = asyncio.Event()

    async def acquire(self, name: str) -> str | None:
        last = await super().acquire(name)
        if name.startswith("live ") and not self.met.is_set():
            self.met.set()
            if self._fails:
                raise Unavailable("The store does not answer.")
            await asyncio.Event().wait()
        return last


@pytest.mark.parametrize("fails", [True, False], ids=["refused", "gone"])
async def test_a_client_that_cannot_join_is_no_listener(tmp_path: Path, fails: bool) -> None:
    shared = SharedSignals()
    signals = Hesitant(shared, fails=fails)
    known = settings(tmp_path, db="memory:")
    app = create_app(
        Bridge(
            scripted(echo()),
            settings=known,
            stores=replace(Stores.open(known), signals=signals),
        )
    )
    async with serving(app) as site:
        quiet = asyncio.all_tasks()
        async with open_socket(
            site, path=LIVE, query="?chat=chat" if fails else "", subprotocols=TALKS if fails else ()
        ) as one:
            if fails:
                assert await one.closed() == (4503, "a store does not answer")
            else:
                await one.send(resume_frame())
                await signals.met.wait()
                one.connection.transport.abort()
        await until(lambda: not leaked_since(quiet))
        assert app.state.bridge.live.count == 0
        assert [name for name in shared.holders if name.startswith("live ")] == []
        assert (await site.client.post("/api/chat", json=body())).status_code == 200
        async with open_live(site) as two:
            await two.send(send_frame("hi", message_id="u2"))
            assert text_in(await two.answer("r1")) == "to hi"
        await app.state.bridge.close()


async def test_many_sockets_leave_nothing_behind(open_site: Open) -> None:
    site = await open_site(echo(), sockets_per_user=50, live_grace=0)
    async with open_live(site, "first") as one:
        await one.send({"type": "ping"})
        await one.until("pong")
    quiet = asyncio.all_tasks()
    for number in range(60):
        async with open_socket(site, path=LIVE, query="?chat=many", subprotocols=TALKS if number % 3 else ()) as other:
            if number % 2:
                await other.send(send_frame("hi", chat="many", message_id=f"u{number}"), control("start"), "nonsense")
            if number % 5 == 0:
                other.connection.transport.abort()
    await until(lambda: not leaked_since(quiet))


async def test_pictures_reach_the_model_one_a_second_and_the_newest(open_site: Open) -> None:
    model = echo()
    site = await open_site(model)
    pictures = [png(size, size) for size in (4, 5, 6)]
    async with open_live(site) as one:
        await one.send(send_frame("hi"))
        await one.answer("r1")
        await one.send(*(binary(picture, 3) for picture in pictures))
        connection = await model.connected()
        async with asyncio.timeout(PATIENCE):
            await connection.until(lambda it: len(it.frames) == 2)
    assert [(frame.data, frame.mime_type) for frame in connection.frames] == [
        (pictures[0], "image/png"),
        (pictures[2], "image/png"),
    ]


async def test_audio_reaches_the_model_in_order(open_site: Open) -> None:
    """The first piece comes while the conversation is still being opened."""
    model = echo()
    site = await open_site(model)
    pieces = [bytes([number, 0]) * 320 for number in range(30)]
    async with open_live(site) as one:
        await one.speak(*map(binary, pieces))
        await turn_of(one)
        connection = await model.connected()
    assert bytes(connection.sound) == b"".join(pieces)
    assert connection.marks == ["activity_start", "activity_end"]
