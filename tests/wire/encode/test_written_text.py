"""Text and reasoning that a model writes: events in, the whole chunk list out."""

from google.adk.events.event import Event, NodeInfo
from google.genai import types

from adkwire.wire import chunks as c
from adkwire.wire.folding import fold
from adkwire.wire.messages import TextPart
from tests.wire.adk_events import (
    model,
    partial,
    response_of,
    text,
    thought,
)
from tests.wire.encode.expected_chunks import START, finish, text_part, thought_of


class TestText:
    def test_partial_texts_are_written_and_the_complete_text_only_closes_the_part(self) -> None:
        chunks = response_of(partial(text("Hel")), partial(text("lo")), model(text("Hello")))

        assert chunks == [START, c.StartStep(), *text_part("text-1", "Hel", "lo"), c.FinishStep(), finish()]

    def test_the_text_of_a_model_that_does_not_stream_is_written_at_once(self) -> None:
        assert response_of(model(text("Hello"))) == [
            START,
            c.StartStep(),
            *text_part("text-1", "Hello"),
            c.FinishStep(),
            finish(),
        ]

    def test_the_rest_of_a_complete_text_that_was_not_streamed_is_added(self) -> None:
        chunks = response_of(partial(thought("a")), partial(text("b")), model(thought("a"), text("bcd")))

        assert chunks[2:-2] == [*thought_of("reasoning-1", "a"), *text_part("text-2", "b", "cd")]

    def test_a_complete_text_that_differs_from_the_streamed_text_is_not_added(self) -> None:
        chunks = response_of(partial(text("draft")), model(text("Clean copy")))

        assert chunks[2:-2] == text_part("text-1", "draft")

    def test_thoughts_come_as_reasoning(self) -> None:
        chunks = response_of(partial(thought("hm")), partial(text("ok")), model(thought("hm"), text("ok")))

        assert chunks[2:-2] == [*thought_of("reasoning-1", "hm"), *text_part("text-2", "ok")]

    def test_thoughts_and_text_in_turn_each_get_a_part(self) -> None:
        streamed = [thought("a"), text("b"), thought("c"), text("d")]
        expected = [
            *thought_of("reasoning-1", "a"),
            *text_part("text-2", "b"),
            *thought_of("reasoning-3", "c"),
            *text_part("text-4", "d"),
        ]

        assert response_of(*map(partial, streamed), model(*streamed))[2:-2] == expected
        assert response_of(model(*streamed))[2:-2] == expected

    def test_empty_partial_texts_emit_nothing(self) -> None:
        assert response_of(partial(text("")), partial(), model(text(""))) == [START, finish()]

    def test_an_empty_answer_is_no_error(self) -> None:
        empty = Event(author="agent", error_code="MODEL_RETURNED_NO_CONTENT")

        assert response_of(empty) == [START, finish(author=None)]

    def test_a_message_of_the_user_is_not_part_of_the_answer(self) -> None:
        asked_for = Event(author="user", content=types.Content(role="user", parts=[text("Hi")]))

        assert response_of(asked_for) == [START, finish(author=None)]

    def test_two_complete_texts_share_a_step_while_no_tool_was_used(self) -> None:
        chunks = response_of(model(text("a")), model(text("b"), author="second"))

        assert chunks[1:-1] == [c.StartStep(), *text_part("text-1", "a"), *text_part("text-2", "b"), c.FinishStep()]

    def test_parallel_agents_do_not_mix_their_texts(self) -> None:
        chunks = response_of(
            partial(text("red "), author="a", branch="a"),
            partial(text("blue "), author="b", branch="b"),
            partial(text("rose"), author="a", branch="a"),
            model(text("red rose"), author="a", branch="a"),
            partial(text("sky"), author="b", branch="b"),
            model(text("blue sky"), author="b", branch="b"),
        )

        texts = [part.text for part in fold(chunks).parts if isinstance(part, TextPart)]
        assert texts == ["red rose", "blue sky"]
        assert chunks[-1] == finish(author="b")

    def test_a_workflow_writes_the_output_of_the_whole_graph_only(self) -> None:
        inner = Event(author="flow", output="half", node_info=NodeInfo(output_for=["flow@1/upper@1"]))
        whole = Event(author="flow", output="DONE", node_info=NodeInfo(output_for=["flow@1"]))
        as_data = Event(author="flow", output={"n": 1}, node_info=NodeInfo(output_for=["flow@1"]))

        assert response_of(inner, whole)[1:-2] == [c.StartStep(), *text_part("text-1", "DONE")]
        assert response_of(as_data)[1:-2] == [c.StartStep(), *text_part("text-1", '{"n":1}')]
