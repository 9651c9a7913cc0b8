"""The recorder: which lines it writes in which order, what it redacts, and that its errors never affect a run."""

import itertools
import json
import logging
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from pydantic import BaseModel, SecretStr, model_serializer

from adkwire.errors import ConfigError
from adkwire.recording.files import file_names
from adkwire.recording.recorded_log import RecordedLog
from adkwire.recording.recorder import Recorder
from adkwire.recording.redacted_lines import RecordedLine, SplitSecretBuffer
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey, RunHead
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Say, ScriptedModel
from adkwire.wire.chunks import Chunk, Finish, Start, TextDelta, TextEnd, ToolInputDelta, ToolOutputAvailable
from adkwire.wire.profiles import encode_chunks
from adkwire.wire.redaction import Secrets
from tests.support.fixtures import Make

KEY = ChatKey("local", "chat")
CANARY = "canary-0123456789-abcdef"


def lines(folder: Path, name: str = "chat") -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in (folder / f"{name}.jsonl").read_bytes().split(b"\n") if raw]


def chunks(folder: Path, name: str = "chat") -> list[dict[str, Any]]:
    return [line["chunk"] for line in lines(folder, name) if line["location"] == "server-chunk"]


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.rglob("*.jsonl"))


def head(run: str = "run-1", user: str = "local", chat: str = "chat") -> RunHead:
    return RunHead(run, user, chat, f"msg-{run}")


def deltas(*texts: str) -> list[Chunk]:
    return [TextDelta(id="1", delta=text) for text in texts]


async def record(folder: Path, sent: Iterable[Chunk], *, secrets: Sequence[str] = ()) -> None:
    """Record one run with these chunks, each appended by itself."""
    recorder = Recorder(folder, secrets=secrets)
    log = RecordedLog(MemoryStreamLog(ttl=60), recorder)
    await log.open(head())
    for entry in encode_chunks([Start(message_id="m"), *sent]):
        await log.append("run-1", [entry])
    await log.close("run-1")
    await recorder.close()


async def test_requests_events_and_chunks_are_one_line_each(tmp_path: Path) -> None:
    ticks = itertools.count(1_700_000_000)
    recorder = Recorder(tmp_path, clock=lambda: next(ticks))
    log = RecordedLog(MemoryStreamLog(ttl=60), recorder)
    recorder.frame("local", "chat", "websocket", b'{"type": "send", "id": "chat"}')
    await log.open(head())
    await log.append("run-1", encode_chunks([Start(message_id="m")]))
    recorder.event(KEY, Event(author="helper", content=types.Content(role="model", parts=[types.Part(text="Hi")])))
    await log.append("run-1", encode_chunks([*deltas("Hi"), Finish()]))
    await log.close("run-1")
    recorder.frame("local", "chat", "sse", b"{}")
    await recorder.close()
    found = lines(tmp_path)
    assert [tuple(line) for line in found] == [
        ("timestamp", "chat", "mode", "location", "direction", "sequence", "chunk")
    ] * 6
    assert [(line["mode"], line["location"], line["direction"], line["sequence"]) for line in found] == [
        ("websocket", "client-frame", "in", 0),
        ("websocket", "server-chunk", "out", 0),
        ("websocket", "server-adk-event", "in", 0),
        ("websocket", "server-chunk", "out", 1),
        ("websocket", "server-chunk", "out", 2),
        ("sse", "client-frame", "in", 1),
    ]
    assert [line["timestamp"] for line in found] == [(1_700_000_000 + n) * 1000 for n in range(6)]
    assert found[2]["chunk"]["content"] == {"parts": [{"text": "Hi"}], "role": "model"}
    assert "errorCode" not in found[2]["chunk"]


async def test_a_chunk_is_written_as_it_was_encoded(tmp_path: Path) -> None:
    output = ToolOutputAvailable(tool_call_id="c", output={"é\u2028": [1.5, None, "a\nb"], "url": "data:,x"})
    await record(tmp_path, [output])
    assert encode_chunks([output])[0] in (tmp_path / "chat.jsonl").read_bytes()


async def test_runs_are_not_mixed(tmp_path: Path) -> None:
    """A run that replaces another one sends `start` before that one has ended."""
    recorder = Recorder(tmp_path)
    log = RecordedLog(MemoryStreamLog(ttl=60), recorder)
    for run in ("old", "new", "newest"):
        await log.open(head(run))
        await log.append(run, encode_chunks([Start(message_id=run)]))
    await log.append("newest", encode_chunks(deltas("newest")))
    await log.close("newest")
    await log.append("old", encode_chunks(deltas("old")))
    await log.close("old")
    await log.append("new", encode_chunks(deltas("new")))
    await log.close("new")
    await recorder.close()
    order = [chunk.get("messageId") or chunk["delta"] for chunk in chunks(tmp_path)]
    assert order == ["old", "old", "new", "new", "newest", "newest"]


async def test_a_run_without_chunks_does_not_delay_other_runs(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    log = RecordedLog(MemoryStreamLog(ttl=60), recorder)
    await log.open(head("dead"))
    await log.open(head("alive"))
    await log.append("alive", encode_chunks([Start(message_id="alive")]))
    await recorder.close()
    assert len(chunks(tmp_path)) == 1


async def test_the_end_of_a_run_of_another_process(tmp_path: Path) -> None:
    shared = MemoryStreamLog(ttl=60)
    await shared.open(msgspec.structs.replace(head(), before=1), encode_chunks([Start(message_id="m")]))
    await shared.append("run-1", encode_chunks([Start(message_id="m"), *deltas("a", "b")]))
    recorder = Recorder(tmp_path)
    log = RecordedLog(shared, recorder)
    await log.append("run-1", encode_chunks([*deltas("c"), Finish()]))
    await log.close("run-1")
    await recorder.close()
    assert [line["sequence"] for line in lines(tmp_path)] == [3, 4]


async def test_each_user_has_a_file_for_a_chat_of_the_same_id(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    log = RecordedLog(MemoryStreamLog(ttl=60), recorder)
    for user in ("local", "ann", "Ann"):
        await log.open(head(user, user))
        await log.append(user, encode_chunks([Start(message_id=user)]))
        await log.close(user)
    await recorder.close()
    files = names(tmp_path)
    assert {"chat", "chat~ann"} < set(files)
    found = [[chunk["messageId"] for chunk in chunks(tmp_path, name)] for name in files]
    assert sorted(found) == [["Ann"], ["ann"], ["local"]]


async def test_an_agent_is_recorded(make: Make, tmp_path: Path) -> None:
    chat = make(ScriptedModel(script=lambda _: [Say("Hello.")]), record=tmp_path / "recordings")
    answer = await chat.say("hi")
    await chat.bridge.close()
    assert chunks(tmp_path / "recordings", "chat~ann") == answer.plain
    events = [line for line in lines(tmp_path / "recordings", "chat~ann") if line["location"] == "server-adk-event"]
    assert any(part.get("text") == "Hello." for line in events for part in line["chunk"]["content"]["parts"])


async def test_without_the_setting_nothing_is_recorded(make: Make, tmp_path: Path) -> None:
    chat = make(ScriptedModel(script=lambda _: [Say("Hello.")]))
    await chat.say("hi")
    assert chat.bridge.recorder is None
    assert not isinstance(chat.bridge._log, RecordedLog)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--record"):
        Recorder.of(Settings(record=tmp_path / "file" / "deep"))


async def test_an_error_of_the_disk_ends_the_recording_only(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recordings"
    chat = make(ScriptedModel(script=lambda _: [Say("Hello.")]), record=folder)
    shutil.rmtree(folder)
    for _ in range(3):
        assert (await chat.say("hi")).text == "Hello."
    await chat.bridge.close()
    errors = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "nothing more is recorded" in errors[0]
    assert not folder.exists()


async def test_a_disk_that_is_too_slow_ends_the_recording(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(tmp_path, max_queued=1_000)
    recorder.frame("local", "chat", "sse", b'"%b"' % (b"x" * 2_000))
    recorder.frame("local", "chat", "sse", b'"later"')
    await recorder.close()
    assert [entry.getMessage() for entry in caplog.records] == [
        f"nothing more is recorded in {tmp_path}: the disk does not keep up"
    ]
    assert "later" not in [line["chunk"] for name in names(tmp_path) for line in lines(tmp_path, name)]


async def test_a_chat_whose_file_names_are_taken_is_not_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(tmp_path)
    for name in file_names("local", "chat"):
        (tmp_path / name).mkdir()
    for chat in ("chat", "other", "chat"):
        recorder.frame("local", chat, "sse", b"{}")
    await recorder.close()
    assert len(lines(tmp_path, "other")) == 1
    assert [entry.getMessage() for entry in caplog.records] == [
        "chat chat is not recorded: the names for its file are taken by something else"
    ]


async def test_frames_without_headers_secrets_and_pictures(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, secrets=[CANARY])
    picture = "data:image/png;base64," + "A" * 5000
    frame = {
        "type": "send",
        "headers": {"x-own": "hush"},
        "body": {"apiKey": "hush", "note": f"the key is {CANARY}"},
        "messages": [{"parts": [{"type": "file", "url": picture}, {"type": "text", "text": "kept"}]}],
    }
    recorder.frame("local", "chat", "websocket", json.dumps(frame).encode())
    recorder.frame("local", "chat", "sse", b"not json: hush")
    recorder.frame("local", "chat", "sse", b"[" * 900 + b"]" * 900)
    # A secret with an escaped letter, and half of a surrogate pair: JavaScript may send both.
    recorder.frame("local", "chat", "sse", b'{"text": "\\u0063anary-0123456789-abcdef \\ud800"}')
    await recorder.close()
    written = (tmp_path / "chat.jsonl").read_bytes()
    assert b"hush" not in written
    assert CANARY.encode() not in written
    assert len(written) < 4000
    first, second, third, fourth = (line["chunk"] for line in lines(tmp_path))
    assert first["messages"][0]["parts"][1] == {"type": "text", "text": "kept"}
    assert (second, third) == ("[redacted]", "[redacted]")
    assert fourth == {"text": "[redacted] \ufffd"}


async def test_secrets_in_chunks(tmp_path: Path) -> None:
    output = ToolOutputAvailable(
        tool_call_id="c", output={"user": "ann", "password": "hush", "said": f"<{CANARY}>", "inner": '{"token":"hush"}'}
    )
    await record(tmp_path, [output, Finish(message_metadata={"usage": {"totalTokens": 12}})], secrets=[CANARY])
    assert b"hush" not in (tmp_path / "chat.jsonl").read_bytes()
    assert [chunk.get("output") for chunk in chunks(tmp_path)][1] == {
        "user": "ann",
        "password": "[redacted]",
        "said": "<[redacted]>",
        "inner": '{"token":"[redacted]"}',
    }
    assert chunks(tmp_path)[2]["messageMetadata"] == {"usage": {"totalTokens": 12}}


@pytest.mark.parametrize("size", [1, 2, 5, 11, len(CANARY) - 1, len(CANARY)])
async def test_a_secret_that_is_split_over_chunks(tmp_path: Path, size: int) -> None:
    text = f"It is {CANARY}, or {CANARY[:7]}{CANARY}{CANARY}; not {CANARY[:9]} canary"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    await record(tmp_path, [*deltas(*pieces), TextEnd(id="1"), Finish()], secrets=[CANARY])
    recorded = "".join(chunk.get("delta", "") for chunk in chunks(tmp_path))
    assert recorded == text.replace(CANARY, "[redacted]")
    assert [line["sequence"] for line in lines(tmp_path)] == list(range(len(pieces) + 3))


async def test_secrets_in_two_texts_that_are_streamed_at_once(tmp_path: Path) -> None:
    first, second = CANARY[:10], CANARY[10:]
    written = [
        *(TextDelta(id="1", delta=f"a {first}"), ToolInputDelta(tool_call_id="c", input_text_delta=f'{{"k":"{first}')),
        *(TextDelta(id="1", delta=f"{second} b"), ToolInputDelta(tool_call_id="c", input_text_delta=f'{second}"}}')),
    ]
    await record(tmp_path, written, secrets=[CANARY])
    found = chunks(tmp_path)[1:]
    assert [chunk.get("delta", chunk.get("inputTextDelta")) for chunk in found] == [
        *("a [redacted] b", '{"k":"[redacted]"}'),
        *("", ""),
    ]


def test_text_that_only_begins_like_a_secret_is_written_soon() -> None:
    buffer = SplitSecretBuffer(Secrets([CANARY]))
    entries = encode_chunks([Start(message_id="m"), *deltas("a can"), TextEnd(id="1"), *deltas("can")])
    start, delta, end, last = (RecordedLine(1, "sse", "server-chunk", "out", n, raw) for n, raw in enumerate(entries))
    assert buffer.add(start) == [start]
    assert buffer.add(delta) == []
    assert buffer.add(end) == [delta, end]
    assert [buffer.add(last) for _ in range(999)] == [[]] * 999
    assert len(buffer.add(last)) == 1000


async def test_buffered_lines_are_written_on_close(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, secrets=[CANARY])
    log = RecordedLog(MemoryStreamLog(ttl=60), recorder)
    await log.open(head())
    await log.append("run-1", encode_chunks([Start(message_id="m"), *deltas("a can")]))
    await recorder.close()
    assert [chunk["type"] for chunk in chunks(tmp_path)] == ["start", "text-delta"]


async def test_a_secret_in_partial_events(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, secrets=[CANARY])
    for thought in (False, True):
        for piece in (CANARY[:4], CANARY[4:15], f"{CANARY[15:]}!"):
            parts = [types.Part(text=piece, thought=thought or None)]
            recorder.event(KEY, Event(author="a", partial=True, content=types.Content(role="model", parts=parts)))
        whole = [types.Part(text=f"{CANARY}!", thought=thought or None)]
        recorder.event(KEY, Event(author="a", content=types.Content(role="model", parts=whole)))
    await recorder.close()
    texts = [line["chunk"]["content"]["parts"][0]["text"] for line in lines(tmp_path)]
    assert texts == ["[redacted]!", "", "", "[redacted]!"] * 2


async def test_media_of_events_is_replaced_by_its_size(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    parts = [types.Part.from_bytes(data=b"x" * 100_000, mime_type="image/png")]
    recorder.event(KEY, Event(author="a", content=types.Content(role="model", parts=parts)))
    await recorder.close()
    (line,) = lines(tmp_path)
    assert line["chunk"]["content"]["parts"][0]["inlineData"] == {"mimeType": "image/png", "data": "[100000 bytes]"}


async def test_events_with_values_that_json_does_not_have(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    endless: dict[str, Any] = {}
    endless["self"] = endless
    for odd in (endless, {"set": {1}, "thing": object(), ("a", "b"): 1}):
        recorder.event(KEY, Event(author="a", actions=EventActions(state_delta={"odd": odd})))
    await recorder.close()
    first, second = (line["chunk"] for line in lines(tmp_path))
    assert first == "[redacted]"
    assert second["actions"]["stateDelta"]["odd"]["set"] == [1]


async def test_an_event_that_cannot_be_dumped_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Undumpable(BaseModel):
        @model_serializer
        def dump(self) -> str:
            raise ArithmeticError("never")

    recorder = Recorder(tmp_path)
    recorder.event(KEY, Event(author="a", actions=EventActions(state_delta={"key": Undumpable()})))
    recorder.frame("local", "chat", "sse", b"{}")
    await recorder.close()
    assert [line["location"] for line in lines(tmp_path)] == ["client-frame"]
    assert "could not be recorded" in caplog.text


async def test_the_servers_own_keys_are_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "google-canary-1")
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-canary-2")
    monkeypatch.setenv("ADKWIRE_TOKEN", "token-canary-3")
    recorder = Recorder.of(Settings(record=tmp_path, token=SecretStr("made-up-canary-4")))
    assert recorder is not None
    text = "google-canary-1 gemini-canary-2 token-canary-3 made-up-canary-4"
    recorder.frame("local", "chat", "sse", json.dumps({"text": text}).encode())
    await recorder.close()
    assert lines(tmp_path)[0]["chunk"] == {"text": " ".join(["[redacted]"] * 4)}


async def test_a_closed_recorder_records_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    await recorder.close()
    recorder.frame("local", "chat", "sse", b"{}")
    await recorder.close()
    assert names(tmp_path) == []
