"""Mutants of `wire`: what breaks when one of its rules is broken."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "unknown field in start",
        "wire/chunks.py",
        "    message_id: str | UnsetType = UNSET\n    message_metadata: Json | UnsetType = UNSET\n\n\nclass StartStep",
        "    message_id: str | UnsetType = UNSET\n    message_metadata: Json | UnsetType = UNSET\n"
        '    server: str = "adkwire"\n\n\nclass StartStep',
        "wire/test_chunks.py::TestSchemas",
    ),
    Mutant(
        "no step after tools",
        "wire/encode/encoder.py",
        "            if within or not self._calls.step_is_over or self._spoken.goes_on(self._now):\n"
        "                return\n"
        "            out += self.pause()\n",
        "            return\n",
        "wire/encode/test_tool_calls.py::TestTools",
    ),
    Mutant(
        "a failure stays when the message goes on",
        "wire/encode/outcome.py",
        '        told: dict[str, Json] = {"ended": None, "error": None} if self._has_failed else {}\n',
        "        told: dict[str, Json] = {}\n",
        "wire/encode/test_encoder.py::TestEnd runs/test_ended.py",
    ),
    Mutant(
        "a call that waits is told as interrupted",
        "wire/encode/outcome.py",
        "        return told if self._interrupted is None or waiting else",
        "        return told if self._interrupted is None else",
        "wire/encode/test_live_encoder.py::TestInterruptions",
    ),
    Mutant(
        "placeholder shown",
        "wire/encode/encoder.py",
        "            self._calls.take_back(response.id)\n            return\n",
        "            self._calls.take_back(response.id)\n",
        "wire/encode/test_approval_requests.py",
    ),
    Mutant(
        "denial as an error",
        "wire/encode/tool_calls.py",
        "        return c.ToolOutputDenied(tool_call_id=call.id)\n    response = fr.response",
        "        pass\n    response = fr.response",
        "wire/encode/test_approval_requests.py",
    ),
    Mutant(
        "final text repeated",
        "wire/encode/encoder.py",
        "elif kind is None or kind in streamed:",
        "elif kind is None:",
        "wire/encode/test_written_text.py",
    ),
    Mutant(
        "no padding step",
        "wire/encode/encoder.py",
        "            out += [c.StartStep(), c.FinishStep()]\n",
        "",
        "wire/encode/test_tool_calls.py::TestTools",
    ),
    Mutant(
        "verdict sent to clients that do not know it",
        "wire/profiles.py",
        "    ToolApprovalResponse: _ALWAYS_V7,\n",
        "",
        "wire/test_chunks.py::TestSchemas",
    ),
    Mutant(
        "message of a failure",
        "wire/failures.py",
        'f"The agent could not answer ({failure.code}). Try again',
        'f"The agent could not answer ({failure.code}: {failure.message}). Try again',
        "runs/test_turns.py::test_the_text_of_an_exception_stays_on_the_server",
    ),
    Mutant(
        "available before the approval",
        "wire/encode/tool_calls.py",
        "        if not (browser or cut_off):\n",
        "        if not cut_off:\n",
        "wire/encode/test_browser_calls.py::TestBrowserCalls",
    ),
    Mutant(
        "available though it is settled",
        "wire/encode/tool_calls.py",
        "            if call.phase is Phase.WITHHELD:\n                _make_available(call, out)\n",
        "            if call.phase is Phase.WITHHELD or (call.browser and call.phase is Phase.SETTLED):\n"
        "                _make_available(call, out)\n",
        "wire/encode/test_browser_calls.py::TestBrowserCalls",
    ),
    Mutant(
        "available though the run failed",
        "wire/encode/encoder.py",
        "            self._calls.seal_withheld(out)\n",
        "            pass\n",
        "wire/encode/test_browser_calls.py::TestBrowserCalls",
    ),
    Mutant(
        "available again for a late reader",
        "wire/encode/tool_calls.py",
        "    return [replaced for chunk in chunks for replaced in _not_executable(chunk, settled)]\n",
        "    return chunks\n",
        "wire/encode/test_tool_calls.py::TestLateReader",
    ),
    Mutant(
        "verdicts read from the message before the user's",
        "wire/decode/decoder.py",
        "    outputs = tuple(answer for answer in answers.calls if answer.is_executed)\n",
        "    outputs = answers.calls\n",
        "wire/decode/test_call_answers.py::TestTypedOver",
    ),
    Mutant(
        "any truthy yes",
        "wire/encode/tool_calls.py",
        '        return response.get("confirmed") is True\n',
        '        return bool(response.get("confirmed"))\n',
        "wire/encode/test_approval_requests.py",
    ),
    Mutant(
        "the answer of adk to its own request is a verdict",
        "wire/encode/encoder.py",
        '            if event.author == "user":  # ADK itself',
        "            if True:  # ADK itself",
        "wire/encode/test_approval_requests.py",
    ),
    Mutant(
        "one of two different answers to a call counts",
        "wire/decode/call_answers.py",
        "            found[answer.call] = None  # Two different answers to one call: neither counts.\n",
        "            pass\n",
        "wire/decode/test_call_answers.py",
    ),
    Mutant(
        "sequences begin with 1",
        "wire/socket/frames_out.py",
        "        self._next = first\n",
        "        self._next = first or 1\n",
        "wire/socket/test_frames_out.py::test_chunks",
    ),
    Mutant(
        "a sequence is left out",
        "wire/socket/frames_out.py",
        "            if chunk is None:\n                continue\n",
        "            if chunk is None:\n                self._next += 1\n                continue\n",
        "wire/socket/test_frames_out.py::test_a_chunk_that_a_client_must_not_get_leaves_no_gap",
    ),
    Mutant(
        "a sequence is sent twice",
        "wire/socket/frames_out.py",
        "            if self._next > self._behind:\n",
        "            if self._next >= self._behind:\n",
        "wire/socket/test_frames_out.py::test_resuming_after_a_sequence_counts_the_chunks_that_the_client_has",
    ),
    Mutant(
        "a denial is sent beside a pending call",
        "wire/encode/tool_calls.py",
        "        if not self.step_waits:\n            out += self._denials\n            self._denials.clear()\n",
        "        out += self._denials\n        self._denials.clear()\n",
        "wire/encode/test_live_encoder.py",
    ),
    Mutant(
        "a step for every event",
        "wire/encode/encoder.py",
        "            if within or not self._calls.step_is_over or self._spoken.goes_on(self._now):\n"
        "                return\n"
        "            out += self.pause()\n",
        "            out += self.pause()\n",
        "wire/encode/test_written_text.py",
    ),
    Mutant(
        "a step after any response",
        "wire/encode/tool_calls.py",
        "        return self._answered and all(call.phase is Phase.SETTLED for call in self._step)\n",
        "        return self._answered\n",
        "wire/encode/test_live_encoder.py wire/encode/test_tool_calls.py",
    ),
    Mutant(
        "a break in mid-text",
        "wire/encode/encoder.py",
        "        return self._calls.is_waiting and not self._written.is_open and not self._spoken.is_open\n",
        "        return self._calls.is_waiting\n",
        "wire/encode/test_live_encoder.py live/test_moments.py::test_a_call_is_answered_while_the_model_speaks",
    ),
]
