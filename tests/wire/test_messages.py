"""`fold` makes of chunks the message a client holds, and refuses what a client would refuse."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.folding import BrokenStream, fold
from adkwire.wire.messages import (
    Approval,
    CustomPart,
    DataPart,
    FilePart,
    Part,
    ReasoningFilePart,
    ReasoningPart,
    SourceDocumentPart,
    SourceUrlPart,
    SteeringPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
)

META = {"google": {"k": 1}}
MORE = {"google": {"k": 2}}


def announced(call_id: str = "c1", **more: Any) -> c.ToolInputAvailable:
    return c.ToolInputAvailable(tool_call_id=call_id, tool_name="pay", input={"n": 1}, **more)


def tool(**fields: Any) -> ToolPart:
    plain: dict[str, Any] = {"type": "tool-pay", "tool_call_id": "c1", "state": "input-available", "input": {"n": 1}}
    return ToolPart(**plain | fields)


def only_part(*chunks: Chunk) -> Any:
    [part] = fold(chunks).parts
    return part


class TestText:
    def test_deltas_are_joined(self) -> None:
        chunks = [
            c.TextStart(id="t"),
            c.TextDelta(id="t", delta="a"),
            c.TextDelta(id="t", delta="b"),
            c.TextEnd(id="t"),
        ]

        assert only_part(*chunks) == TextPart(text="ab", state="done")
        assert only_part(*chunks[:2]) == TextPart(text="a", state="streaming")

    def test_metadata_and_citations(self) -> None:
        part = only_part(
            c.TextStart(id="t", provider_metadata=META),
            c.TextDelta(id="t", delta="a", provider_metadata=MORE),
            c.TextEnd(id="t", citations=[1]),
        )

        assert part == TextPart(text="a", state="done", provider_metadata=MORE, citations=[1])

    def test_two_parts_may_be_open_at_once(self) -> None:
        chunks = [
            c.TextStart(id="a"),
            c.TextStart(id="b"),
            c.TextDelta(id="a", delta="1"),
            c.TextDelta(id="b", delta="2"),
        ]

        assert [part.text for part in fold(chunks).parts if isinstance(part, TextPart)] == ["1", "2"]

    def test_an_id_may_be_used_again(self) -> None:
        assert len(fold([c.TextStart(id="t"), c.TextEnd(id="t")] * 2).parts) == 2

    def test_reasoning(self) -> None:
        chunks = [
            c.ReasoningStart(id="r", provider_metadata=META),
            c.ReasoningDelta(id="r", delta="a", provider_metadata=MORE),
            c.ReasoningEnd(id="r"),
        ]

        assert only_part(*chunks) == ReasoningPart(id="r", text="a", state="done", provider_metadata=MORE)
        assert only_part(chunks[0]).state == "streaming"


class TestTools:
    def test_from_input_to_output(self) -> None:
        chunks: list[Chunk] = [
            c.ToolInputStart(tool_call_id="c1", tool_name="pay", title="Pay", input_encoding="json"),
            c.ToolInputDelta(tool_call_id="c1", input_text_delta='{"n"'),
            c.ToolInputDelta(tool_call_id="c1", input_text_delta=":1}"),
            announced(provider_metadata=META),
            c.ToolOutputAvailable(tool_call_id="c1", output=5, preliminary=True),
            c.ToolOutputAvailable(tool_call_id="c1", output=None, provider_metadata=MORE, provider_executed=False),
        ]
        states = [msgspec.to_builtins(only_part(*chunks[: count + 1])) for count in range(len(chunks))]

        begun = {
            "type": "tool-pay",
            "toolCallId": "c1",
            "title": "Pay",
            "state": "input-streaming",
            "inputEncoding": "json",
        }
        whole = {
            "type": "tool-pay",
            "toolCallId": "c1",
            "title": "Pay",
            "input": {"n": 1},
            "callProviderMetadata": META,
        }
        assert states == [
            begun,
            begun | {"rawInput": '{"n"'},
            begun | {"rawInput": '{"n":1}', "input": {"n": 1}},
            whole | {"state": "input-available"},
            whole | {"state": "output-available", "output": 5, "preliminary": True},
            whole
            | {"state": "output-available", "output": None, "resultProviderMetadata": MORE, "providerExecuted": False},
        ]

    def test_dynamic_tools_carry_their_name(self) -> None:
        part = only_part(announced(dynamic=True, provider_executed=True, tool_metadata={"k": 1}))

        assert part == tool(type="dynamic-tool", tool_name="pay", provider_executed=True, tool_metadata={"k": 1})

    def test_errors(self) -> None:
        bad = c.ToolInputError(tool_call_id="c1", tool_name="pay", input="{", error_text="no JSON")
        failed = c.ToolOutputError(tool_call_id="c1", error_text="broke")
        first_look = c.ToolOutputAvailable(tool_call_id="c1", output=1, preliminary=True)

        assert only_part(bad) == tool(state="output-error", input="{", error_text="no JSON")
        assert only_part(announced(), first_look, failed) == tool(state="output-error", error_text="broke")

    def test_a_call_announced_again_in_its_step_starts_over(self) -> None:
        done = c.ToolOutputAvailable(tool_call_id="c1", output=1)

        assert only_part(announced(), done, announced(provider_executed=True)) == tool(provider_executed=True)

    def test_approval(self) -> None:
        request = c.ToolApprovalRequest(
            approval_id="a1",
            tool_call_id="c1",
            reason="much money",
            is_automatic=False,
            approval_descriptor={"d": 1},
            input_schema_input={"s": 1},
            signature="sig",
        )
        answer = c.ToolApprovalResponse(approval_id="a1", approved=False, reason="too much")
        asked = Approval(
            id="a1",
            request_reason="much money",
            is_automatic=False,
            descriptor={"d": 1},
            input_schema_input={"s": 1},
            signature="sig",
        )
        answered = msgspec.structs.replace(asked, approved=False, reason="too much")

        assert only_part(announced(), request) == tool(state="approval-requested", approval=asked)
        assert only_part(announced(), request, answer) == tool(state="approval-responded", approval=answered)
        assert only_part(announced(), request, answer, c.ToolOutputDenied(tool_call_id="c1")) == tool(
            state="output-denied", approval=answered
        )

    @pytest.mark.parametrize(
        ("outcome", "settled"),
        [
            (c.ToolOutputAvailable(tool_call_id="c1", output=1), {"state": "output-available", "output": 1}),
            (c.ToolOutputError(tool_call_id="c1", error_text="x"), {"state": "output-error", "error_text": "x"}),
            (c.ToolOutputDenied(tool_call_id="c1"), {"state": "output-denied"}),
            (
                c.ToolApprovalRequest(approval_id="a1", tool_call_id="c1"),
                {"state": "approval-requested", "approval": Approval(id="a1")},
            ),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_a_call_may_be_asked_about_or_settled_straight_from_its_text(self, outcome: Chunk, settled: Any) -> None:
        chunks = [
            c.ToolInputStart(tool_call_id="c1", tool_name="pay"),
            c.ToolInputDelta(tool_call_id="c1", input_text_delta='{"n":1}'),
        ]

        assert only_part(*chunks, outcome) == tool(**settled)

    def test_an_approval_finds_its_call_among_others(self) -> None:
        message = fold(
            [
                c.TextStart(id="t"),
                announced("c1"),
                announced("c2"),
                c.ToolApprovalRequest(approval_id="a1", tool_call_id="c1"),
                c.ToolApprovalRequest(approval_id="a2", tool_call_id="c2"),
                c.ToolApprovalResponse(approval_id="a2", approved=True),
            ]
        )

        assert [part.state for part in message.parts if isinstance(part, ToolPart)] == [
            "approval-requested",
            "approval-responded",
        ]

    def test_an_output_in_a_later_step_reaches_the_call_of_an_earlier(self) -> None:
        message = fold([announced(), c.StartStep(), c.ToolOutputAvailable(tool_call_id="c1", output=1)])

        assert message.parts == [tool(state="output-available", output=1), StepStartPart()]


class TestOtherParts:
    @pytest.mark.parametrize(
        ("chunk", "part"),
        [
            (
                c.SourceUrl(source_id="s", url="https://a.test/", title="A", provider_metadata=META),
                SourceUrlPart(source_id="s", url="https://a.test/", title="A", provider_metadata=META),
            ),
            (
                c.SourceDocument(source_id="s", media_type="text/plain", title="A", filename="a.txt"),
                SourceDocumentPart(source_id="s", media_type="text/plain", title="A", filename="a.txt"),
            ),
            (c.File(url="data:,", media_type="image/png"), FilePart(url="data:,", media_type="image/png")),
            (
                c.ReasoningFile(url="data:,", media_type="image/png"),
                ReasoningFilePart(url="data:,", media_type="image/png"),
            ),
            (c.Custom(kind="google.x", provider_metadata=META), CustomPart(kind="google.x", provider_metadata=META)),
            (c.SteeringMessage(id="s", parts=[1]), SteeringPart(id="s", parts=[1])),
            (c.StartStep(), StepStartPart()),
            (c.Data(type="data-x", data=None), DataPart(type="data-x", data=None)),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_whole_parts(self, chunk: Chunk, part: Any) -> None:
        assert only_part(chunk) == part

    @pytest.mark.parametrize("chunk", [c.Error(error_text="x"), c.Abort(), c.FinishStep(), c.ResetStep()])
    def test_what_leaves_no_part(self, chunk: Chunk) -> None:
        assert fold([chunk]).parts == []

    def test_data_with_an_id_is_replaced_in_place(self) -> None:
        chunks = [
            c.Data(type="data-x", id="1", data=1),
            c.Data(type="data-x", data=2),
            c.Data(type="data-y", id="1", data=3),
            c.Data(type="data-x", id="1", data=4),
            c.Data(type="data-x", data=5),
        ]

        assert fold(chunks).parts == [
            DataPart(type="data-x", id="1", data=4),
            DataPart(type="data-x", data=2),
            DataPart(type="data-y", id="1", data=3),
            DataPart(type="data-x", data=5),
        ]

    def test_transient_data_are_not_kept(self) -> None:
        assert fold([c.Data(type="data-pcm", data=1, transient=True)]).parts == []
        assert len(fold([c.Data(type="data-pcm", data=1, transient=False)]).parts) == 1

    def test_a_step_can_be_taken_back(self) -> None:
        chunks = [c.StartStep(), c.TextStart(id="t"), c.ReasoningStart(id="r"), c.ResetStep(), c.FinishStep()]

        assert fold(chunks).parts == [StepStartPart()]


class TestMessage:
    def test_start_names_it(self) -> None:
        assert fold([c.Start(message_id="m1")]) == UIMessage(id="m1", role="assistant", parts=[])
        assert fold([c.Start()]).id == ""

    def test_metadata_are_merged_deeply(self) -> None:
        chunks = [
            c.Start(message_metadata={"a": {"x": 1, "y": [1]}, "b": 1}),
            c.MessageMetadata(message_metadata={"a": {"y": [2], "z": None}, "b": {"n": 1}}),
            c.MessageMetadata(message_metadata=None),
            c.Finish(message_metadata={"a": {"x": None}}),
            c.Finish(),
        ]

        assert fold(chunks).metadata == {"a": {"x": None, "y": [2], "z": None}, "b": {"n": 1}}

    def test_metadata_need_not_be_an_object(self) -> None:
        assert fold([c.Start(message_metadata={"a": 1}), c.Finish(message_metadata=5)]).metadata == 5
        assert fold([c.Start(message_metadata=5), c.Finish(message_metadata={"a": 1})]).metadata == {"a": 1}
        assert fold([c.Finish()]).metadata is UNSET

    def test_merging_leaves_the_chunks_as_they_are(self) -> None:
        first = c.Start(message_metadata={"a": {"x": 1}})
        fold([first, c.Finish(message_metadata={"a": {"y": 2}})])

        assert first.message_metadata == {"a": {"x": 1}}

    def test_a_continuation_patches_the_message_it_continues(self) -> None:
        first = fold(
            [c.Start(message_id="m1"), c.StartStep(), announced(), c.FinishStep(), c.Finish(message_metadata={"a": 1})]
        )
        second = fold(
            [
                c.Start(message_id="m1"),
                c.ToolOutputAvailable(tool_call_id="c1", output=1),
                c.StartStep(),
                c.TextStart(id="t"),
                c.TextEnd(id="t"),
                c.FinishStep(),
                c.Finish(message_metadata={"b": 2}),
            ],
            into=first,
        )

        parts: list[Part] = [
            StepStartPart(),
            tool(state="output-available", output=1),
            StepStartPart(),
            TextPart(text="", state="done"),
        ]
        assert second == UIMessage(id="m1", role="assistant", metadata={"a": 1, "b": 2}, parts=parts)

    def test_on_the_wire(self) -> None:
        message = UIMessage(id="m1", role="assistant", parts=[StepStartPart(), tool(), TextPart(text="a")])

        assert msgspec.json.encode(message) == (
            b'{"id":"m1","role":"assistant","parts":[{"type":"step-start"},'
            b'{"type":"tool-pay","toolCallId":"c1","state":"input-available","input":{"n":1}},'
            b'{"type":"text","text":"a"}]}'
        )


class TestBrokenStreams:
    @pytest.mark.parametrize(
        ("chunks", "why"),
        [
            ([c.TextDelta(id="t", delta="a")], "text part 't' is not open"),
            ([c.TextEnd(id="t")], "text part 't' is not open"),
            ([c.TextStart(id="t"), c.TextEnd(id="t"), c.TextEnd(id="t")], "text part 't' is not open"),
            ([c.ReasoningStart(id="t"), c.TextDelta(id="t", delta="a")], "text part 't' is not open"),
            ([c.ReasoningDelta(id="r", delta="a")], "reasoning part 'r' is not open"),
            ([c.ReasoningEnd(id="r")], "reasoning part 'r' is not open"),
            ([c.StartStep(), c.TextStart(id="t"), c.FinishStep()], "finish-step while"),
            ([c.StartStep(), c.ReasoningStart(id="t"), c.FinishStep()], "finish-step while"),
            ([c.TextStart(id="t"), c.ResetStep(), c.TextDelta(id="t", delta="a")], "not open"),
            ([c.ToolInputDelta(tool_call_id="c1", input_text_delta="{")], "not started"),
            ([announced(), c.ToolInputDelta(tool_call_id="c1", input_text_delta="{")], "not started"),
            ([announced(), c.StartStep(), announced()], "announced again"),
            ([c.ToolOutputAvailable(tool_call_id="c1", output=1)], "No tool invocation found for tool call ID 'c1'"),
            ([c.TextStart(id="t"), c.ToolOutputError(tool_call_id="c1", error_text="x")], "No tool invocation"),
            ([announced("c2"), c.ToolOutputDenied(tool_call_id="c1")], "No tool invocation"),
            ([c.ToolApprovalRequest(approval_id="a", tool_call_id="c1")], "No tool invocation"),
            ([announced(), c.ToolApprovalResponse(approval_id="a", approved=True)], "approval ID 'a'"),
        ],
    )
    def test_what_a_client_would_refuse(self, chunks: list[Chunk], why: str) -> None:
        with pytest.raises(BrokenStream, match=why):
            fold(chunks)
