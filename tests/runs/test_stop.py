"""Stop ends the run, keeps the text that was sent, and leaves a chat that can go on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from pydantic import PrivateAttr

from adkwire.adk import sessions
from adkwire.errors import NotFound, Unavailable
from adkwire.runs import run as runs
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Call, Say, ScriptedModel, Step, Think, Wait
from tests.patience import PATIENCE
from tests.support.chats import assert_legal, stored, texts_in, tool_parts
from tests.support.fixtures import Make


class ClosingModel(ScriptedModel):
    """A model with an event that is set when its generator is closed."""

    _closed: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @property
    def closed(self) -> asyncio.Event:
        return self._closed

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async with AsyncExitStack() as stack:
            stack.callback(self._closed.set)
            responses = super().generate_content_async(llm_request, stream)
            stack.push_async_callback(responses.aclose)
            async for response in responses:
                yield response


class Tool:
    """A tool that hangs until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def hang(self) -> str:
        """Never return."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "never"


@pytest.mark.parametrize("rate", [0, 30])
async def test_stop_keeps_the_text_that_was_sent(make: Make, tmp_path: Path, rate: float) -> None:
    never = asyncio.Event()
    model = ClosingModel(turns=[[Think("Hm."), Say("It is "), Wait(never), Say("never")], [Say("Fine.")]])
    chat = make(model, events_per_second=rate)
    run = await chat.begin("hello")
    reader = chat.reader(run)
    await reader.until("text-delta")
    assert await chat.stop()
    assert model.closed.is_set()
    kept = await stored(tmp_path)
    answer = await reader.rest()
    assert answer.text == "It is "
    assert answer.types[-3:] == ["finish-step", "abort", "finish"]
    assert answer.plain[-1]["finishReason"] == "interrupted"
    assert (await chat.messages())[-1] == answer.message
    assert await stored(tmp_path) == kept
    after = await chat.say("go on")
    assert after.text == "Fine."
    assert texts_in(model.requests[-1]) == [("user", "hello"), ("model", "It is "), ("user", "go on")]
    assert (await chat.messages())[1] == answer.message


async def test_stop_cancels_a_tool_and_seals_its_call(make: Make) -> None:
    tool = Tool()
    model = ScriptedModel(turns=[[Say("Wait. "), Call("hang", {}, "c1")], [Say("Fine.")]])
    chat = make(model, tool.hang)
    run = await chat.begin("hello")
    async with asyncio.timeout(PATIENCE):
        await tool.started.wait()
    assert await chat.stop()
    assert tool.cancelled.is_set()
    answer = await chat.read(run)
    assert [(part["state"], bool(part["errorText"])) for part in tool_parts(answer.message)] == [("output-error", True)]
    assert answer.types[-2:] == ["abort", "finish"]
    assert (await chat.messages())[-1] == answer.message
    after = await chat.say("go on")
    assert after.types[-1] == "finish"
    assert_legal(model.requests[-1])
    assert (await chat.messages())[1] == answer.message


async def test_stop_seals_one_of_two_calls(make: Make) -> None:
    tool = Tool()

    def quick() -> str:
        """Return at once."""
        return "quick"

    model = ScriptedModel(turns=[[Call("quick", {}, "c1"), Call("hang", {}, "c2")], [Say("Fine.")]])
    chat = make(model, tool.hang, quick)
    run = await chat.begin("hello")
    async with asyncio.timeout(PATIENCE):
        await tool.started.wait()
    assert await chat.stop()
    answer = await chat.read(run)
    assert all(part["state"].startswith("output-") for part in tool_parts(answer.message))
    assert (await chat.messages())[-1] == answer.message
    await chat.say("go on")
    assert_legal(model.requests[-1])


async def test_a_tool_that_ignores_the_abort_is_cancelled_and_stores_nothing_later(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "STOP_PATIENCE", 0.1)
    started, let_go = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        """Swallow the first cancellation."""
        started.set()
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            await let_go.wait()
        return "done after all"

    model = ScriptedModel(turns=[[Say("Wait. "), Call("stubborn", {}, "c1")], [Say("Fine.")]])
    chat = make(model, stubborn)
    run = await chat.begin("hello")
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    assert await chat.stop()
    kept = await stored(tmp_path)
    let_go.set()
    answer = await chat.read(run)
    assert await stored(tmp_path) == kept
    assert answer.types[-1] == "finish"
    assert (await chat.messages())[-1] == answer.message
    await chat.say("go on")
    assert_legal(model.requests[-1])


async def test_stop_before_the_request_to_the_model_keeps_the_user_message(make: Make) -> None:
    model = ScriptedModel(turns=[[Say("never")]])
    chat = make(model)
    run = await chat.begin("hello")
    assert await chat.stop()
    answer = await chat.read(run)
    assert answer.types[-1] == "finish"
    question, kept = await chat.messages()
    assert (question["id"], kept) == ("u1", answer.message)
    after = await chat.say("again")
    assert after.types[-1] == "finish"


async def test_stop_without_a_run_returns_false(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("ok")]]))
    assert not await chat.stop()
    answer = await chat.say("hello")
    assert not await chat.stop()
    assert not await chat.stop(answer.run.id)
    assert (await chat.messages())[-1] == answer.message


async def test_stop_of_a_named_older_run_leaves_the_newer_one(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Say("one")], [Say("two "), Wait(held), Say("three")]]))
    first = await chat.say("a")
    run = await chat.begin("b")
    await chat.reader(run).until("text-delta")
    assert not await chat.stop(first.run.id)
    assert not await chat.stop("run-unknown")
    held.set()
    assert (await chat.read(run)).text == "two three"


async def test_stops_at_once_end_a_run_once(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("It is "), Wait(asyncio.Event())]]))
    run = await chat.begin("hello")
    await chat.reader(run).until("text-delta")
    await asyncio.gather(*(chat.stop() for _ in range(5)))
    answer = await chat.read(run)
    assert answer.types.count("finish") == 1
    assert (await chat.messages())[-1] == answer.message


async def test_delete_stops_a_run(make: Make) -> None:
    model = ClosingModel(turns=[[Say("It is "), Wait(asyncio.Event())]])
    chat = make(model)
    run = await chat.begin("hello")
    reader = chat.reader(run)
    await reader.until("text-delta")
    await chat.bridge.delete(chat.user, chat.id)
    assert model.closed.is_set()
    assert "no longer kept" in (await reader.rest()).plain[-1]["errorText"]
    with pytest.raises(NotFound):
        await chat.messages()
    again = await chat.begin("hello")
    await chat.reader(again).until("text-delta")
    assert texts_in(model.requests[-1]) == [("user", "hello")]
    await chat.stop()


async def test_a_message_during_a_delete_starts_a_new_chat_or_is_deleted(make: Make) -> None:
    model = ScriptedModel(script=lambda _: [Say("ok")])
    chat = make(model)
    await chat.say("old")
    _, run = await asyncio.gather(chat.bridge.delete(chat.user, chat.id), chat.begin("new"))
    if (await chat.read(run)).text == "ok":
        assert await chat.texts() == [("user", "new"), ("assistant", "ok")]
    else:  # The message was first, and is deleted with its chat.
        with pytest.raises(NotFound):
            await chat.messages()


async def test_close_waits_for_running_answers(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Say("It is "), Wait(held), Say("done.")]]))
    run = await chat.begin("hello")
    reader = chat.reader(run)
    await reader.until("text-delta")
    closing = asyncio.create_task(chat.bridge.close())
    await asyncio.sleep(0)
    held.set()
    async with asyncio.timeout(PATIENCE):
        await closing
    assert (await reader.rest()).text == "It is done."


async def test_close_stops_runs_that_do_not_end_in_time(make: Make) -> None:
    model = ClosingModel(turns=[[Say("It is "), Wait(asyncio.Event())]])
    chat = make(model, drain=0.01)
    run = await chat.begin("hello")
    reader = chat.reader(run)
    await reader.until("text-delta")
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.close()
    assert model.closed.is_set()
    answer = await reader.rest()
    assert answer.types[-2:] == ["abort", "finish"]
    assert (await chat.messages())[-1] == answer.message


async def test_a_closed_bridge_takes_no_more_turns(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("ok")]]))
    await chat.bridge.close()
    with pytest.raises(Unavailable):
        await chat.begin("hello")
    assert not await chat.bridge.ready()


async def test_a_rename_during_a_stop_is_stored(make: Make) -> None:
    """Both write to the session."""
    chat = make(ScriptedModel(turns=[[Say("It is "), Wait(asyncio.Event())], [Say("Fine.")]]))
    run = await chat.begin("hello")
    await chat.reader(run).until("text-delta")
    stopping = asyncio.create_task(chat.stop())
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.rename(chat.user, chat.id, "new title")
        assert await stopping
    answer = await chat.read(run)
    assert answer.types[-2:] == ["abort", "finish"]
    history = await chat.bridge.history(chat.user, chat.id)
    assert history.title == "new title"
    assert (await chat.messages())[-1] == answer.message


async def test_history_leaves_out_an_answer_that_is_being_stopped(make: Make) -> None:
    started, let_go = asyncio.Event(), asyncio.Event()

    async def tidy_up() -> str:
        """Take a while to be cancelled."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await let_go.wait()
        return "never"

    chat = make(ScriptedModel(turns=[[Say("Wait. "), Call("tidy_up", {}, "c1")], [Say("Fine.")]]), tidy_up)
    run = await chat.begin("hello")
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    stopping = asyncio.create_task(chat.stop())
    await asyncio.sleep(0.01)
    assert [role for role, _ in await chat.texts()] == ["user"]
    assert chat.bridge.running(chat.user, chat.id) is run
    let_go.set()
    assert await stopping
    assert (await chat.messages())[-1] == (await chat.read(run)).message


class HeldSessions(InMemorySessionService):
    """Sessions that are loaded or created only after `go_on` is set."""

    def __init__(self, operation: str) -> None:
        super().__init__()
        self._operation = operation
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        await self._hold("get")
        return await super().get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        await self._hold("create")
        return await super().create_session(app_name=app_name, user_id=user_id, state=state, session_id=session_id)

    async def _hold(self, operation: str) -> None:
        if operation == self._operation:
            self.reached.set()
            await self.go_on.wait()


class HeldLog(MemoryStreamLog):
    """A log that takes entries only after `go_on` is set."""

    def __init__(self) -> None:
        super().__init__(ttl=60)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        self.reached.set()
        await self.go_on.wait()
        await super().append(run, entries)


class HeldCloseLog(MemoryStreamLog):
    """A log that closes streams only after `go_on` is set."""

    def __init__(self) -> None:
        super().__init__(ttl=60)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def close(self, run: str) -> None:
        self.reached.set()
        await self.go_on.wait()
        await super().close(run)


async def test_a_stop_returns_when_the_stream_is_closed(make: Make) -> None:
    log = HeldCloseLog()
    chat = make(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]), stream_log=log)
    run = await chat.begin("a")
    await chat.reader(run).until("text-delta")
    stopping = asyncio.create_task(chat.stop())
    async with asyncio.timeout(PATIENCE):
        await log.reached.wait()
        # Time in which a stop that does not wait would have returned.
        early, _ = await asyncio.wait([stopping], timeout=0.1)
        log.go_on.set()
        assert await stopping
    assert not early
    assert await log.unclosed() == []


async def test_a_request_that_loads_its_session_while_the_bridge_closes_is_refused(make: Make) -> None:
    service = HeldSessions("get")
    chat = make(ScriptedModel(turns=[[Say("never")]]), session_service=service)
    starting = asyncio.create_task(chat.begin("hello"))
    async with asyncio.timeout(PATIENCE):
        await service.reached.wait()
        await chat.bridge.close()
    service.go_on.set()
    with pytest.raises(Unavailable):
        await starting
    assert chat.bridge.active_runs == []


async def test_a_run_that_begins_while_the_bridge_closes_is_ended(make: Make) -> None:
    log = HeldLog()
    chat = make(ScriptedModel(turns=[[Say("It is "), Wait(asyncio.Event())]]), stream_log=log, drain=0.01)
    starting = asyncio.create_task(chat.begin("hello"))
    async with asyncio.timeout(PATIENCE):
        await log.reached.wait()
        closing = asyncio.create_task(chat.bridge.close())
        await asyncio.wait([closing], timeout=0.1)
        log.go_on.set()
        with pytest.raises(Unavailable):
            await starting
        await closing
    assert chat.bridge.active_runs == []


async def test_a_message_waits_for_a_run_that_ignores_its_cancellation(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a message between the two was stopped."""
    monkeypatch.setattr(runs, "STOP_PATIENCE", 0.05)
    started, let_go = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def stubborn() -> str:
        """Swallow every cancellation."""
        started.set()
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()
        order.append("let go")
        return "done after all"

    def script(request: LlmRequest) -> list[Step]:
        last = texts_in(request.contents)[-1][1]
        order.append(last)
        return [Call("stubborn")] if last == "a" else [Say("ok")]

    chat = make(ScriptedModel(script=script), stubborn)
    first = await chat.begin("a")
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    second = await chat.begin("b")
    assert await chat.stop(second.id)
    third = await chat.begin("c")
    # Time in which it would have asked the model.
    ended, waiting = await asyncio.wait([asyncio.create_task(third.done.wait())], timeout=0.3)
    assert not ended
    assert first.active
    assert order == ["a"]
    let_go.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(waiting)
    assert not first.active
    assert order == ["a", "let go", "c"]
    assert (await chat.read(third)).text == "ok"


async def test_a_run_that_is_stopped_before_anything_is_stored_ends_with_an_abort(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "STOP_PATIENCE", 0.05)
    monkeypatch.setattr(sessions, "PATIENCE", 0.05)
    service = HeldSessions("create")
    model = ScriptedModel(script=lambda _: [Say("ok")])
    chat = make(model, session_service=service)
    run = await chat.begin("hello")
    async with asyncio.timeout(PATIENCE):
        await service.reached.wait()
    assert await chat.stop()
    answer = await chat.read(run)
    assert answer.types[-2:] == ["abort", "finish"]
    assert answer.plain[-1]["finishReason"] == "interrupted"
    assert model.requests == []
    service.go_on.set()
    assert (await chat.say("again")).text == "ok"
