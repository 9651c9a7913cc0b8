"""Notifications of the listeners of a live conversation: one that fails does not keep the others from theirs."""

import logging
from collections.abc import Callable

import pytest
from google.adk.events.event import Event
from google.genai import types

from adkwire.gate.records import Answer, CallRecord, State
from adkwire.live.listeners import Listeners
from adkwire.live.streamed_turn import StreamedTurn
from adkwire.live.turn_router import RoutedTurn
from adkwire.runs.run import Run
from adkwire.stores.base import ChatKey
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.encoder import Encoder
from tests.live.live_chat import CHAT, ME, RecordingListener


class FailingListener(RecordingListener):
    """A listener with a bug in every method."""

    def _fail(self, *_: object, **__: object) -> bool:
        raise ZeroDivisionError("a bug in a listener")

    turn = transcript = state = interrupted = settled = notice = sound = ended = _fail


def turn_of(*text: str) -> StreamedTurn:
    turn = RoutedTurn("m", "u", "typed")
    return StreamedTurn(turn, Run("run", ChatKey(ME, CHAT), UserMessage("u", text), Encoder("m")))


def play(listeners: Listeners) -> None:
    blob = types.Blob(mime_type="audio/pcm;rate=24000", data=bytes(96))
    content = types.Content(role="model", parts=[types.Part(inline_data=blob)])
    streamed = turn_of()
    listeners.play(streamed, Event(author="teller", content=content))
    listeners.end_sound(streamed)


def transcribe(listeners: Listeners) -> None:
    transcript = types.Transcription(text="hello", finished=True)
    listeners.transcribe(turn_of().turn, Event(author="user", input_transcription=transcript))


def settle(listeners: Listeners) -> None:
    answer = Answer(actor=ME, at=0.0, approved=True)
    listeners.settled(
        CallRecord(
            user=ME,
            chat=CHAT,
            call="c",
            message="m",
            tool="pay",
            state=State.ANSWERED,
            input={},
            args_hash="",
            answer=answer,
        )
    )


@pytest.mark.parametrize(
    ("notify", "recorded"),
    [
        pytest.param(lambda listeners: listeners.turn(turn_of("hi").run, "typed"), "turns transcripts", id="turn"),
        pytest.param(transcribe, "transcripts", id="transcript"),
        pytest.param(lambda listeners: listeners.set_state("thinking"), "states", id="state"),
        pytest.param(lambda listeners: listeners.interrupt(turn_of()), "interruptions", id="interruption"),
        pytest.param(settle, "settlements", id="settled"),
        pytest.param(lambda listeners: listeners.notice("info", "code", "text"), "notices", id="notice"),
        pytest.param(play, "sounds", id="sound"),
        pytest.param(lambda listeners: listeners.end(deleted=False), "is_over", id="end"),
    ],
)
async def test_a_listener_that_fails_does_not_keep_the_others_from_a_notification(
    notify: Callable[[Listeners], None], recorded: str, caplog: pytest.LogCaptureFixture
) -> None:
    listeners, working = Listeners(), RecordingListener()
    listeners.all += [FailingListener(), working]
    notify(listeners)
    assert all(getattr(working, name) for name in recorded.split())
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
