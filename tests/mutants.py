"""Do the tests notice when a rule is broken? Each mutant breaks one, in a copy of the source, and a test must fail.

`python -m tests.mutants` tries all, `python -m tests.mutants NAME...` some; with `--check` no test runs, and only what
no longer fits the source is told. First the tests that are named run on an unchanged copy, where they must pass. It
fails when a mutant survives, when its text is not found exactly once any more
(the source has changed: say the mutant anew), and when it does more than break a rule: the code must still load.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "adkwire"
COPY = "MUTANT_COPY"
"""The environment variable that names the folder with the copy."""
PATIENCE = 300.0
"""Seconds for the tests of one mutant; what hangs is not killed."""
OTHER_SOURCE = 77
"""How pytest ends when it would have tested something else than the copy."""


class Mutant(NamedTuple):
    """In `file`, `old` is replaced by `new`; one of `tests`, named from tests/ on and parted by blanks, must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MESSAGES = [
    Mutant(
        "new id on a continuation",
        "runs/answering.py",
        "        chunks += encoder.pause()\n",
        "        chunks += encoder.pause()\n        encoder.message_id += '-2'\n",
        "runs/test_gate.py::test_a_question_then_yes",
    ),
    Mutant(
        "random user ids in history",
        "runs/history.py",
        'mark.get("user") or event.id',
        "event.id",
        "runs/test_turns.py::test_a_turn_with_a_tool_from_start_to_history",
    ),
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
        "wire/encoder.py",
        "            if not self._calls.step_is_over or self._transcripts.goes_on(self._now):\n                return\n"
        "            out += self.pause()\n",
        "            return\n",
        "wire/test_encoder.py::TestTools",
    ),
    Mutant(
        "placeholder shown",
        "wire/encoder.py",
        "            self._calls.leave(fr.id)\n            return\n",
        "            self._calls.leave(fr.id)\n",
        "wire/test_encoder.py::TestApproval",
    ),
    Mutant(
        "denial as an error",
        "wire/calls.py",
        "        return c.ToolOutputDenied(tool_call_id=call.id)\n    response = fr.response",
        "        pass\n    response = fr.response",
        "wire/test_encoder.py::TestApproval",
    ),
    Mutant(
        "final text repeated",
        "wire/encoder.py",
        "elif kind is None or kind in streamed:",
        "elif kind is None:",
        "wire/test_encoder.py::TestText",
    ),
    Mutant(
        "no padding step",
        "wire/encoder.py",
        "            out += [c.StartStep(), c.FinishStep()]\n",
        "",
        "wire/test_encoder.py::TestTools",
    ),
    Mutant(
        "half-written message in history",
        "runs/views.py",
        "            break\n",
        "            return messages + turn.messages()\n",
        "runs/test_turns.py::test_while_an_answer_is_written_history_has_only_its_question",
    ),
    Mutant(
        "a repeated post without what was before",
        "runs/reading.py",
        "    return -run.before if whole else 0\n",
        "    return 0\n",
        "runs/test_continuations.py::test_somebody_who_comes_in_the_middle_gets_the_whole_message",
    ),
    Mutant(
        "disconnect stops the run",
        "runs/reading.py",
        "            self._keeper.left(run)\n",
        "            run.abort()\n",
        "runs/test_readers.py::test_a_reader_who_leaves_does_not_stop_the_run",
    ),
    Mutant(
        "no rewind",
        "runs/asking.py",
        "            await self._keeper.adk.rewind(run.key, told[at].invocation_id)\n",
        "",
        "runs/test_rewinds.py::test_regenerate_the_last_answer",
    ),
    Mutant(
        "verdict sent to clients that do not know it",
        "wire/profiles.py",
        "    ToolApprovalResponse: _ALWAYS_V7,\n",
        "",
        "wire/test_chunks.py::TestSchemas",
    ),
    Mutant(
        "a retried post runs again",
        "runs/asking.py",
        "if (known := await self._known(key, chat, turn)) is not None:",
        "if (known := None) is not None:",
        "runs/test_retries.py::test_while_it_runs",
    ),
    Mutant(
        "partial text lost on stop",
        "runs/run.py",
        "        unsaved = self.encoder.unsaved()\n",
        "        unsaved = self.encoder.unsaved()[:0]\n",
        "runs/test_stop.py::test_stop_in_mid_text",
    ),
    Mutant(
        "no seal in the session on stop",
        "runs/run.py",
        "        return self.loose_ends().sealed(known, ",
        "        return [] and self.loose_ends().sealed(known, ",
        "runs/test_stop_gated.py::test_stop_in_an_approved_tool",
    ),
    Mutant(
        "words of a failure",
        "wire/failures.py",
        'f"The agent could not answer ({failure.code}). Try again',
        'f"The agent could not answer ({failure.code}: {failure.message}). Try again',
        "runs/test_turns.py::test_the_words_of_an_exception_stay_on_the_server",
    ),
    Mutant(
        "words of a failing tool",
        "runs/plugin.py",
        "if self._detail and str(error) else",
        "if str(error) else",
        "runs/test_turns.py::test_the_words_of_an_exception_stay_on_the_server",
    ),
    Mutant(
        "traceback of a failing tool",
        "runs/plugin.py",
        '        return {"error": f"{name}: {error}" if',
        '        import traceback\n        return {"error": "".join(traceback.format_exception(error)) if',
        "runs/test_error_texts.py",
    ),
    Mutant(
        "traceback of a failing run",
        "runs/own_events.py",
        "error_message=None if cancelled else str(cut),",
        'error_message="".join(__import__("traceback").format_exception(cut)),',
        "runs/test_error_texts.py",
    ),
]

BROWSER = [
    Mutant(
        "an output that nobody approved is kept when typed over",
        "runs/answering.py",
        " if call.state is State.OFFERED}",
        "}",
        "runs/test_typed_over.py",
    ),
    Mutant(
        "available before the approval",
        "wire/calls.py",
        "        if not (browser or cut_off):\n",
        "        if not cut_off:\n",
        "wire/test_encoder.py::TestBrowserCalls",
    ),
    Mutant(
        "available though it is settled",
        "wire/calls.py",
        "            if call.phase is Phase.HELD:\n                _make_available(call, out)\n",
        "            if call.phase is Phase.HELD or (call.browser and call.phase is Phase.SETTLED):\n"
        "                _make_available(call, out)\n",
        "wire/test_encoder.py::TestBrowserCalls",
    ),
    Mutant(
        "available though the run failed",
        "wire/encoder.py",
        "            self._calls.seal_held(out)\n",
        "            pass\n",
        "wire/test_encoder.py::TestBrowserCalls",
    ),
    Mutant(
        "available again for latecomers",
        "wire/latecomers.py",
        "    return [quiet for chunk in said for quiet in _quietly(chunk, over)]\n",
        "    return said\n",
        "wire/test_encoder.py::TestLatecomers",
    ),
    Mutant(
        "output and verdict in one message",
        "runs/adk.py",
        "        if verdicts:\n"
        "            beside += [answer_event(call, output_part(call), {**mark, **shapes_of([call])}) "
        "for call in outputs]\n"
        "        for event in beside:\n"
        "            await self.append(key, [event])\n"
        "            yield event\n"
        "        parts = [verdict_part(call) for call in verdicts] or [output_part(call) for call in outputs]\n",
        "        for event in beside:\n"
        "            await self.append(key, [event])\n"
        "            yield event\n"
        "        parts = [verdict_part(call) for call in verdicts] + [output_part(call) for call in outputs]\n",
        "runs/test_steps.py::test_a_gated_and_a_browser_call_in_one_step",
    ),
    Mutant(
        "approval of a browser tool given to adk",
        "runs/own_events.py",
        "    return call.browser and (call.ask is None or ",
        "    return call.browser and (call.ask is None or False and ",
        "runs/test_browser_tools.py::test_a_gated_call_is_released_by_the_yes",
    ),
    Mutant(
        "adk asks about a browser tool",
        "gate/client_tool.py",
        "        return False\n\n    async def asks(",
        "        return self.require_confirmation is True\n\n    async def asks(",
        "gate/test_client_tool.py::test_adk_is_never_told_to_ask",
    ),
    Mutant(
        "a condition that fails opens the gate",
        "gate/client_tool.py",
        "            return True\n\n    def _defaults(",
        "            return False\n\n    def _defaults(",
        "gate/test_client_tool.py::test_a_condition_that_fails_asks",
    ),
    Mutant(
        "approval is taken for the output",
        "gate/judge.py",
        "            State.OFFERED if call.browser and approved else State.ANSWERED,\n",
        "            State.ANSWERED,\n",
        "gate/test_gate.py::test_yes_to_a_browser_call_offers_it_and_its_output_answers_it",
    ),
    Mutant(
        "outputs not validated",
        "gate/judge.py",
        "        if (wrong := problem(given.output, call.output)) is not None:\n",
        "        if (wrong := None) is not None:\n",
        "gate/test_answers.py::test_an_output_that_is_not_what_the_tool_gives",
    ),
    Mutant(
        "outputs of any size",
        "gate/judge.py",
        "        if len(encode_chunk(given.output)) > self._max_output:\n",
        "        if False:\n",
        "gate/test_answers.py::test_an_output_that_is_too_large",
    ),
    Mutant(
        "an output for a call of the server",
        "gate/judge.py",
        "        if given.has_output and not call.browser:\n",
        "        if False:\n",
        "gate/test_answers.py::test_what_does_not_answer_the_question_is_no_answer",
    ),
    Mutant(
        "verdicts read from a message that was typed over",
        "wire/decoder.py",
        "    outputs = tuple(call for call in answers.calls if call.output is not UNSET or call.error is not None)\n",
        "    outputs = answers.calls\n",
        "wire/test_decoder.py::TestTypedOver",
    ),
]

ECHO = "gate/test_answers.py::test_an_answer_to_something_else_is_none"

ANSWERS = [
    Mutant(
        "any yes",
        "wire/calls.py",
        '        return response.get("confirmed") is True\n',
        '        return bool(response.get("confirmed"))\n',
        "wire/test_encoder.py::TestApproval",
    ),
    Mutant(
        "what adk says to its own question is a verdict",
        "wire/encoder.py",
        '            if event.author == "user":  # ADK itself',
        "            if True:  # ADK itself",
        "wire/test_encoder.py::TestApproval",
    ),
    Mutant(
        "a no is told to adk as a yes",
        "runs/own_events.py",
        "    approved = answer is not None and answer.approved is True and not answer.expired\n",
        "    approved = answer is not None\n",
        "runs/test_gate.py::test_a_question_then_no",
    ),
    Mutant(
        "the model does not learn why",
        "runs/own_events.py",
        'return {"error": DENIED, "reason": answer.reason} if',
        'return {"error": DENIED} if',
        "runs/test_gate.py::test_a_question_then_no",
    ),
    Mutant(
        "any approval id",
        "gate/judge.py",
        "    if echo.ask != call.ask and not unasked:\n",
        "    if False and unasked:\n",
        ECHO,
    ),
    Mutant(
        "any arguments",
        "gate/judge.py",
        "not any(same_value(one, echo.input) for one in shown)",
        "False",
        ECHO,
    ),
    Mutant(
        "any tool",
        "gate/judge.py",
        "(echo.message, echo.tool) != (call.message, call.tool)",
        "echo.message != call.message",
        ECHO,
    ),
    Mutant(
        "any message",
        "gate/judge.py",
        "(echo.message, echo.tool) != (call.message, call.tool)",
        "echo.tool != call.tool",
        ECHO,
    ),
    Mutant(
        "nothing is echoed",
        "runs/parked.py",
        "        echo=Echo(message, answer.tool, answer.approval, answer.input),\n",
        "",
        "runs/test_gate.py::test_an_approval_of_something_else_pays_nothing",
    ),
    Mutant(
        "a part that says two things counts",
        "wire/decoder.py",
        "            found[answer.call] = None  # It says two things: neither counts.\n",
        "            pass\n",
        "wire/test_decoder.py",
    ),
    Mutant(
        "user not part of the key in memory",
        "stores/memory.py",
        "        return self._calls.get((user, chat, call))\n",
        "        return next((row for key, row in self._calls.items() if key[1:] == (chat, call)), None)\n",
        "gate/test_answers.py::test_nobody_else_reaches_it",
    ),
    Mutant(
        "user not part of the key in sqlite",
        "stores/sqlite.py",
        '"WHERE user = ? AND chat = ? AND call = ?", user, chat, call)',
        '"WHERE chat = ? AND call = ?", chat, call)',
        "gate/test_answers.py::test_nobody_else_reaches_it",
    ),
    Mutant(
        "chat not part of the key",
        "stores/sqlite.py",
        '"WHERE user = ? AND chat = ? AND call = ?", user, chat, call)',
        '"WHERE user = ? AND call = ?", user, call)',
        "gate/test_answers.py::test_nobody_else_reaches_it",
    ),
    Mutant(
        "everybody's calls are waiting",
        "stores/sqlite.py",
        'f"WHERE user = ? AND state IN ({_marks(states)}) ORDER BY id", user, *states)',
        'f"WHERE state IN ({_marks(states)}) ORDER BY id", *states)',
        "stores/test_sqlite.py",
    ),
    Mutant(
        "settle in any state",
        "gate/judge.py",
        "            case State.ASKED:\n",
        "            case State.ASKED | State.ANSWERED | State.EXECUTING | State.DONE | State.VOID:\n",
        "gate/test_answers.py::test_another_answer_is_late",
    ),
    Mutant(
        "any move",
        "gate/records.py",
        "        if state not in _MOVES[self.state]:\n",
        "        if False:\n",
        "gate/test_records.py::test_no_other_move_exists",
    ),
    Mutant(
        "edited arguments not validated",
        "gate/judge.py",
        "            self._check_edit(call, given.args)\n",
        "            pass\n",
        "gate/test_answers.py::test_an_edit_that_does_not_fit_the_tool",
    ),
    Mutant(
        "edited arguments of any name",
        "gate/judge.py",
        '        unknown = sorted(set(args) - set((call.parameters or {}).get("properties", args)))\n',
        "        unknown = list[str]()\n",
        "gate/test_answers.py::test_an_edit_that_does_not_fit_the_tool",
    ),
    Mutant(
        "edited arguments not held against the policy",
        "gate/judge.py",
        "        if not self.allows(call.tool, args):\n",
        "        if False:\n",
        "gate/test_answers.py::test_an_edit_that_the_policy_forbids",
    ),
    Mutant(
        "an answer when the time is over",
        "gate/judge.py",
        "and call.state in OPEN and call.expires_at <= now:\n",
        "and call.state in OPEN and False:\n",
        "gate/test_grants.py::test_an_answer_after_the_time_is_late",
    ),
    Mutant(
        "expiry approves",
        "gate/gate.py",
        "at=now, expired=True)",
        "at=now, expired=True, approved=True)",
        "gate/test_grants.py::test_a_call_that_nobody_answers_expires",
    ),
    Mutant(
        "no audit of a refusal",
        "gate/gate.py",
        "            await self.refuse(user, chat, call_id, error.code)\n",
        "",
        "gate/test_answers.py::test_a_refused_answer_is_in_the_audit_of_who_tried",
    ),
    Mutant(
        "no audit of a made-up answer",
        "runs/answering.py",
        '            await gate.refuse(*key, made_up[0] if made_up else "", "not-found")\n',
        "",
        "runs/test_gate.py::test_an_approval_of_something_else_pays_nothing",
    ),
    Mutant(
        "no audit of what the policy forbids",
        "runs/plugin.py",
        '            await self._note(seen, context, "forbidden", "not executed")\n',
        "",
        "runs/test_policy_runs.py::test_deny",
    ),
    Mutant(
        "no audit of the end of a call",
        "gate/gate.py",
        "asyncio.create_task(self.note(after, verdict, outcome, actor), ",
        "asyncio.create_task(asyncio.sleep(0), ",
        "gate/test_gate.py::test_who_ended_a_call_is_in_the_audit",
    ),
    Mutant(
        "loop breaker off",
        "runs/chats.py",
        "        return self.repeats > _PATIENCE\n",
        "        return False\n",
        "runs/test_gate.py::test_answers_that_change_nothing_are_not_told_for_ever",
    ),
]

EXECUTION = [
    Mutant(
        "no lock before the tool",
        "runs/plugin.py",
        "        call = await self._gate.claim(user, chat, call_id, args)\n",
        "        call = await self._gate.get(user, chat, call_id)\n",
        "runs/test_once.py",
    ),
    Mutant(
        "a claim that failed is no hindrance",
        "runs/plugin.py",
        '            return {"error": _BEGUN if begun else _NOT_RELEASED}\n',
        "            return None if begun else None\n",
        "runs/test_once.py",
    ),
    Mutant(
        "claim without compare-and-set",
        "gate/gate.py",
        "        return await self._store_move(call.moved(State.EXECUTING))\n",
        "        await self._store_move(call.moved(State.EXECUTING))\n        return call.moved(State.EXECUTING)\n",
        "gate/test_gate.py::test_of_many_claims_one_succeeds",
    ),
    Mutant(
        "no compare-and-set in memory",
        "stores/memory.py",
        "if stored is None or stored.version != row.version:",
        "if stored is None:",
        "stores/test_memory.py",
    ),
    Mutant(
        "no compare-and-set in sqlite",
        "stores/sqlite.py",
        'AND call = ? AND version = ?",\n            *(row.state, row.data, row.expires_at),\n'
        "            *(row.user, row.chat, row.call, row.version),\n",
        'AND call = ?",\n            *(row.state, row.data, row.expires_at),\n'
        "            *(row.user, row.chat, row.call),\n",
        "stores/test_sqlite.py",
    ),
    Mutant(
        "claim of any arguments",
        "gate/gate.py",
        "if call.bound != bind(args) or ",
        "if ",
        "gate/test_gate.py::test_the_claim_is_bound_to_the_arguments_that_were_asked_about",
    ),
    Mutant(
        "claim without the policy",
        "gate/gate.py",
        " or not self._judge.allows(call.tool, call.used):\n",
        ":\n",
        "gate/test_gate.py::test_the_claim_asks_the_policy_again",
    ),
    Mutant(
        "a denied call executes",
        "gate/records.py",
        "answer is not None and answer.approved is True and not self.browser",
        "answer is not None and not self.browser",
        "gate/test_gate.py::test_no_is_never_claimed",
    ),
    Mutant(
        "recovery runs what was executing again",
        "runs/parked.py",
        "        elif call.state is State.EXECUTING or (call.executes and call.call not in asked):\n"
        '            await gate.abandon(*key, call.call, "interrupted")\n',
        "        elif call.state is State.EXECUTING or (call.executes and call.call not in asked):\n"
        "            from msgspec.structs import replace\n"
        "            await gate.reopen(replace(call, state=State.ANSWERED))\n",
        "runs/test_restart_gated.py::test_a_call_that_ran_when_the_server_died",
    ),
    Mutant(
        "recovery runs what may have begun again",
        "runs/parked.py",
        "        elif call.state is State.EXECUTING or (call.executes and call.call not in asked):\n",
        "        elif call.executes and call.call not in asked:\n            await gate.reopen(call)\n"
        "        elif call.state is State.EXECUTING:\n",
        "runs/test_restart_gated.py::test_a_verdict_that_was_stored_before_the_tool_began",
    ),
    Mutant(
        "an unknown call is run again without its rule",
        "gate/judge.py",
        "            case State.UNKNOWN if retry and call.retry and given.approved",
        "            case State.UNKNOWN if retry and given.approved",
        "gate/test_gate.py::test_a_retry_that_the_rule_does_not_allow",
    ),
    Mutant(
        "what was executing is said not to have run",
        "gate/gate.py",
        '(State.UNKNOWN, "unknown") if executing',
        '(State.DONE, "not executed") if executing',
        "gate/test_gate.py::test_a_call_whose_run_is_over",
    ),
    Mutant(
        "no seal on supersede",
        "runs/asking.py",
        '        await self._keeper.seal(run.key, chat, "superseded")\n',
        "",
        "runs/test_supersede.py::test_a_question_that_is_typed_over",
    ),
    Mutant(
        "what is typed over stays armed",
        "runs/keeper.py",
        "        taken = await self.gate.void(*key, why)\n",
        "        taken = list[PendingCall]()\n",
        "runs/test_supersede.py::test_a_question_that_is_typed_over",
    ),
    Mutant(
        "what is typed over has no answer in the session",
        "runs/keeper.py",
        "            await self.adk.append(key, events)\n",
        "            pass\n",
        "runs/test_supersede.py::test_a_question_that_is_typed_over",
    ),
    Mutant(
        "what waits is not stopped",
        "runs/bridge.py",
        'stopped if newer else await self._keeper.seal(key, chat, "stopped") or stopped',
        "stopped",
        "runs/test_stop_gated.py::test_stop_while_a_question_waits",
    ),
    Mutant(
        "a deleted chat leaves its grants",
        "runs/bridge.py",
        "            await self._gate.forget(*key)\n",
        "",
        "runs/test_grants.py::test_a_deleted_chat_takes_its_grants_with_it",
    ),
    Mutant(
        "an approval outlives what took it back",
        "gate/records.py",
        "UNDECIDED = frozenset({*OPEN, State.ANSWERED})",
        "UNDECIDED = OPEN",
        "gate/test_gate.py::test_an_approval_that_was_taken_back_is_void",
    ),
    Mutant(
        "the edit is not what runs",
        "runs/plugin.py",
        "            args.update(edited)\n",
        "            args.update(call.input)\n",
        "runs/test_edits.py::test_the_edit_is_what_runs",
    ),
    Mutant(
        "no refusal inside an agent tool",
        "runs/plugin.py",
        '        if seen is None:\n            return {"error": _NO_PAUSE}\n',
        "        if seen is None:\n            return None\n",
        "runs/test_asking.py::test_a_gated_tool_inside_an_agent_tool_is_refused",
    ),
]

POLICY = [
    Mutant(
        "a grant ignores never",
        "gate/gate.py",
        '        if decision.action == "ask" and decision.grant != "never":\n',
        '        if decision.action == "ask":\n',
        "gate/test_grants.py::test_a_rule_that_grants_never_ignores_old_grants",
    ),
    Mutant(
        "a grant releases what is never granted",
        "gate/gate.py",
        ' or other.tool != call.tool or other.grant == "never":\n',
        " or other.tool != call.tool:\n",
        "gate/test_grants.py",
    ),
    Mutant(
        "a grant releases other tools",
        "gate/gate.py",
        ' or other.tool != call.tool or other.grant == "never":\n',
        ' or other.grant == "never":\n',
        "gate/test_grants.py",
    ),
    Mutant(
        "a scope that is not offered",
        "gate/judge.py",
        "        if given.scope not in call.scopes:\n",
        "        if False:\n",
        "gate/test_grants.py::test_a_tool_that_is_approved_only_once_at_a_time",
    ),
    Mutant(
        "a no grants",
        "gate/gate.py",
        'if answer.approved and scope != "once":',
        'if scope != "once":',
        "gate/test_grants.py::test_a_no_grants_nothing",
    ),
    Mutant(
        "a grant for any arguments serves where the same are wanted",
        "gate/gate.py",
        '_grants(tool, bind(args))[:1] if decision.grant == "same-arguments" else _grants(tool, bind(args))',
        "_grants(tool, bind(args))",
        "gate/test_grants.py::test_a_grant_for_any_arguments_does_not_serve_a_rule_that_wants_the_same",
    ),
    Mutant(
        "a grant for the chat is for all",
        "gate/gate.py",
        'call.chat if scope == "chat" else ""',
        '""',
        "gate/test_grants.py::test_how_far_a_yes_reaches",
    ),
    Mutant(
        "a grant is for everybody",
        "stores/sqlite.py",
        "f\"WHERE user = ? AND chat IN (?, '') AND what IN ({_marks(what)}) LIMIT 1\"",
        "f\"WHERE user <> ? || char(0) AND chat IN (?, '') AND what IN ({_marks(what)}) LIMIT 1\"",
        "stores/test_sqlite.py",
    ),
    Mutant(
        "what cannot be judged is allowed",
        "gate/policy.py",
        "        except conditions.Unclear:\n            return self.action != ",
        "        except conditions.Unclear:\n            return self.action == ",
        "gate/test_policy.py::TestConditions",
    ),
    Mutant(
        "the last rule wins",
        "gate/policy.py",
        "        for name, rule in self._named:\n",
        "        for name, rule in reversed(self._named):\n",
        "gate/test_policy.py::TestDecide",
    ),
]

SEAM = "server/test_socket.py::test_resume_in_the_middle_of_a_continuation_is_whole"
COMING_BACK = "server/test_stream.py::test_coming_back_after_the_end"

READERS = [
    Mutant(
        "resume without what was before",
        "runs/reading.py",
        "        return self.read(head, -head.before)\n",
        "        return self.read(head, 0)\n",
        SEAM,
    ),
    Mutant(
        "start is told twice",
        "runs/reading.py",
        "    if not _joins(batch):\n",
        "    if True:\n",
        SEAM,
    ),
    Mutant(
        "behind what was before comes the start",
        "runs/reading.py",
        "    return 1 if number == -1 and before else number + 1\n",
        "    return number + 1\n",
        "runs/test_continuations.py::test_behind_what_was_before_comes_what_is_new",
    ),
    Mutant(
        "a place one too far",
        "runs/reading.py",
        "and before else number + 1\n",
        "and before else number + 2\n",
        COMING_BACK,
    ),
    Mutant(
        "a place one too short",
        "runs/reading.py",
        "and before else number + 1\n",
        "and before else max(number, 0)\n",
        COMING_BACK,
    ),
    Mutant(
        "a gap that is not told",
        "runs/reading.py",
        "is not None and batch.first == first:\n",
        "is not None:\n",
        "runs/test_readers.py::test_a_reader_who_has_fallen_behind_what_is_kept_is_told",
    ),
    Mutant(
        "a place that is gone is nothing to go on with",
        "runs/bridge.py",
        "            return await self._readers.behind(key, after)\n",
        "            return await self._readers.behind(key, after) if await self._log.head(after.run) else None\n",
        COMING_BACK,
    ),
    Mutant(
        "a place in a chat of somebody else",
        "runs/reading.py",
        "if head is None or (head.user, head.chat) != key:",
        "if head is None:",
        "runs/test_readers.py::test_a_run_is_known_to_its_user_only",
    ),
    Mutant(
        "ids are counted behind what a client must not see",
        "server/chat.py",
        "enumerate(map(profile.fit_encoded, batch.entries), batch.first)",
        "enumerate(filter(None, map(profile.fit_encoded, batch.entries)), batch.first)",
        "server/test_stream.py::test_a_chunk_that_a_client_must_not_see_leaves_its_number_out",
    ),
    Mutant(
        "a slow reader of http is never cut",
        "server/chat.py",
        "                    limit.reschedule(loop.time() + patience(self._patience, untaken + size))\n",
        "",
        "server/test_stream.py::test_a_client_that_does_not_read_is_cut",
    ),
    Mutant(
        "stop is acknowledged before the stream is closed",
        "runs/run.py",
        "            await asyncio.wait([self._task], timeout=STOP_PATIENCE)\n            if not self._task.done():\n",
        "            await self.done.wait()\n            if self.active:\n",
        "runs/test_stop.py::test_a_stop_returns_when_the_stream_is_closed",
    ),
    Mutant(
        "stop of any run",
        "runs/bridge.py",
        "if run_id in (None, run.id)]\n",
        "]\n",
        "runs/test_stop.py::test_stop_of_a_named_older_run_leaves_the_newer_one",
    ),
    Mutant(
        "a recording with secrets",
        "runs/recorded_lines.py",
        "    new = _hidden_when_deep(partial(redact, value))\n",
        "    new = value\n",
        "runs/test_recording.py::test_secrets_in_chunks",
    ),
    Mutant(
        "a recording with headers",
        "runs/recorded_lines.py",
        '            return redact(without_media({**cast(dict[str, object], value), "headers": HIDDEN}))\n',
        "            pass\n",
        "runs/test_recording.py::test_frames_without_headers_secrets_and_pictures",
    ),
]

CUT_OFF = "runs/test_crashed.py::test_words_that_were_shown_are_kept_and_the_reason_is_said"

CRASHES = [
    Mutant(
        "a run that was cut off has no end",
        "runs/bridge.py",
        "                    await self._keeper.elsewhere(ChatKey(head.user, head.chat))\n",
        "                    str(head)\n",
        "runs/test_cut_off.py::test_at_the_start_every_cut_off_run_is_closed",
    ),
    Mutant(
        "what was shown before a crash is not stored",
        "runs/crashed.py",
        "    events = [event for _, event in unsaved]\n",
        "    events = list[Event]()\n",
        CUT_OFF,
    ),
    Mutant(
        "a stream that was cut off ends without an error",
        "runs/crashed.py",
        "    return [*seals, _stop(turn, author)] if stops else seals\n",
        "    return seals\n",
        CUT_OFF,
    ),
    Mutant(
        "no seal for a call that was cut off",
        "runs/crashed.py",
        "    return [*seals, _stop(turn, author)] if stops else seals\n",
        "    return [_stop(turn, author)] if stops else seals\n",
        "runs/test_crashed.py::test_a_call_that_was_not_asked_about_yet",
    ),
    Mutant(
        "what was shown before a continuation is told again",
        "runs/recovery.py",
        "    first, found = -head.before, list[bytes]()\n",
        "    first, found = 0, list[bytes]()\n",
        "runs/test_cut_off.py::test_an_answer_that_went_on_and_was_cut_off",
    ),
    Mutant(
        "a message that never reached the agent is lost",
        "runs/recovery.py",
        "        await self.adk.append(key, [turn.asked])\n",
        "",
        "runs/test_cut_off.py::test_a_message_that_did_not_reach_the_agent_is_kept_and_can_be_sent_again",
    ),
    Mutant(
        "a retried post runs again after a restart",
        "runs/keeper.py",
        "        chat.answered = {turn.user_id for turn in told} - chat.unheard\n",
        "        chat.answered = set[str]()\n",
        "runs/test_retries.py::test_after_a_restart",
    ),
]

WORKERS = [
    Mutant(
        "a chat is not given back",
        "runs/keeper.py",
        "lambda run: self.let_go(run.key)\n",
        "lambda run: None\n",
        "runs/test_workers.py::test_a_question_that_one_asked_is_answered_at_the_other",
    ),
    Mutant(
        "a chat is given back while an answer is written",
        "runs/keeper.py",
        "                    if chat.idle:\n                        await self._release(key)\n",
        "                    await self._release(key)\n",
        "runs/test_workers.py::test_what_one_writes_can_be_read_of_the_other",
    ),
    Mutant(
        "a chat of a living worker is taken",
        "runs/keeper.py",
        "        return last is not None\n",
        "        return True\n",
        "runs/test_workers.py::test_one_that_will_not_stop_keeps_its_chat",
    ),
    Mutant(
        "a stop of one worker stops any run of another",
        "runs/bridge.py",
        "            if wish.run in (None, run.id):\n",
        "            if True:\n",
        "runs/test_workers.py::test_a_wish_for_a_run_that_is_over_leaves_the_next_one",
    ),
    Mutant(
        "a request is run again by the other worker",
        "runs/asking.py",
        "        if head is not None and _is_meant(head, turn):\n",
        "        if False:\n",
        "runs/test_workers.py::test_a_request_that_is_repeated_at_the_other_follows",
    ),
]

STREAMS = [
    Mutant(
        "visible before it is durable",
        "stores/sqlite_streams.py",
        "            sizes = await self._file.write(lambda connection: self._add(connection, jobs, now))\n",
        "            loop = asyncio.get_running_loop()\n"
        "            write = self._file.write\n"
        "            loop.call_later(0.3, lambda: loop.create_task(write(lambda one: self._add(one, jobs, now))))\n"
        "            sizes = [job.size + sum(map(len, job.entries)) for job in jobs]\n",
        "stores/test_sqlite_streams.py::test_what_a_reader_has_seen_is_in_the_file",
    ),
    Mutant(
        "what could not be committed is lost",
        "stores/sqlite_streams.py",
        "                writer.queue[:0] = job.entries\n",
        "",
        "stores/test_sqlite_streams.py::test_a_store_that_fails_says_so_and_loses_nothing_when_it_works_again",
    ),
    Mutant(
        "a commit that fails is not told",
        "stores/sqlite_streams.py",
        "                writer.failure = error if isinstance(error, Unavailable) else None\n",
        "",
        "stores/test_sqlite_streams.py::test_a_store_that_fails_says_so_and_loses_nothing_when_it_works_again",
    ),
    Mutant(
        "closed before it is kept",
        "stores/sqlite_streams.py",
        "        while not writer.done:\n",
        "        while False:\n",
        "stores/test_sqlite_streams.py::test_the_end_is_in_the_file_when_close_returns",
    ),
    Mutant(
        "two workers write one run",
        "stores/sqlite_runs.py",
        "WHERE id = ? AND run = ? AND next = ? AND closed_at IS NULL",
        "WHERE id = ? AND run = ? AND ? IS NOT NULL",
        "stores/test_sqlite_streams.py::test_nothing_comes_behind_an_end_that_another_worker_made",
    ),
]

SOCKETS = [
    Mutant(
        "sequences begin with 1",
        "wire/frames.py",
        "        self._next = first\n",
        "        self._next = first or 1\n",
        "wire/test_frames.py::test_chunks",
    ),
    Mutant(
        "a sequence is left out",
        "wire/frames.py",
        "            if chunk is None:\n                continue\n",
        "            if chunk is None:\n                self._next += 1\n                continue\n",
        "wire/test_frames.py::test_a_chunk_that_a_client_may_not_see_leaves_no_gap",
    ),
    Mutant(
        "a sequence is told twice",
        "wire/frames.py",
        "            if self._next > self._behind:\n",
        "            if self._next >= self._behind:\n",
        "wire/test_frames.py::test_going_on_behind_a_sequence_counts_what_the_client_has",
    ),
    Mutant(
        "going away stops",
        "server/chat_socket.py",
        "                    request.leave()\n            await asyncio.wait(parts)\n",
        "                    self._abort(request)\n                    request.leave()\n"
        "            await asyncio.wait(parts)\n",
        "server/test_socket.py::test_going_away_does_not_stop",
    ),
    Mutant(
        "abort stops the other requests",
        "server/chat_socket.py",
        "                if (request := self._requests.get(frame.request_id)) is not None:\n",
        "                for request in list(self._requests.values()):\n",
        "server/test_socket.py::test_abort_stops_the_run_of_its_request_only",
    ),
    Mutant(
        "abort stops whatever runs in the chat",
        "server/chat_socket.py",
        "            await self._bridge.stop(self._user, request.chat, request.run)\n",
        "            await self._bridge.stop(self._user, request.chat)\n",
        "server/test_socket.py::test_abort_leaves_what_waits_behind_it_in_its_chat",
    ),
    Mutant(
        "no end",
        "server/chat_socket.py",
        "        self._out.put(end_frame(request.id))\n",
        "",
        "server/test_socket.py::test_a_message_and_its_answer",
    ),
    Mutant(
        "places for clients that do not know them",
        "server/chat_socket.py",
        "        run = reading.run if self._ours else None\n",
        "        run = reading.run\n",
        "server/test_socket.py::test_a_message_and_its_answer",
    ),
    Mutant(
        "codes for clients that do not know them",
        "server/chat_socket.py",
        "code if self._ours else None)",
        "code)",
        "server/test_socket.py::test_an_id_that_is_in_use_is_refused",
    ),
    Mutant(
        "notices for clients that do not know them",
        "server/chat_socket.py",
        "        if self._ours:\n            self._out.put(notice_frame",
        "        if True:\n            self._out.put(notice_frame",
        "server/test_socket_limits.py::test_a_frame_that_belongs_to_no_request",
    ),
    Mutant(
        "a seat is not given back",
        "server/limits.py",
        "            self._seats.give_back(self._user)\n",
        "",
        "server/test_socket_limits.py::test_seats_are_given_back",
    ),
    Mutant(
        "a slow reader is never cut",
        "server/outbox.py",
        "                limit.reschedule(due)\n",
        "",
        "server/test_socket_limits.py::test_who_takes_nothing_is_given_up",
    ),
    Mutant(
        "any token opens a socket",
        "server/security.py",
        "        if not any(hmac",
        '        if connection.scope["type"] != "websocket" and not any(hmac',
        "server/test_socket_door.py::test_tokens",
    ),
    Mutant(
        "a token in the address opens everything",
        "server/security.py",
        '    if connection.scope["type"] == "websocket":\n        offered',
        "    if True:\n        offered",
        "server/test_socket_door.py::test_a_token_in_the_address_is_for_sockets_only",
    ),
    Mutant(
        "pages of other sites open sockets",
        "server/security.py",
        "            self._guard.check_origin(socket.headers)\n",
        "",
        "server/test_socket_door.py::test_origins",
    ),
]

LIVE = [
    Mutant(
        "live is not live",
        "runs/live.py",
        "waits for all that is carried.\n                if not self._over:\n",
        "waits for all that is carried.\n                if False:\n",
        "runs/test_live.py::test_typed_turns_one_connection",
    ),
    Mutant(
        "a connection for every turn",
        "runs/live.py",
        "        if connection is not None:\n            self._floor.turns.add(turn)\n",
        "        await self._disconnect()\n        connection = None\n        if connection is not None:\n"
        "            self._floor.turns.add(turn)\n",
        "runs/test_live.py::test_typed_turns_one_connection",
    ),
    Mutant(
        "a message is queued though the history has it",
        "runs/live.py",
        "        else:\n            self._connect(turn)\n",
        "        else:\n            self._connect(turn).queue.send_content(content)\n",
        "runs/test_live.py",
    ),
    Mutant(
        "tools block the conversation",
        "runs/dispatch.py",
        "                twin.behavior = types.Behavior.NON_BLOCKING\n",
        "                twin.behavior = types.Behavior.BLOCKING\n",
        "runs/test_live_gate.py::test_three_kinds_in_one_step",
    ),
    Mutant(
        "a question of a held call is not stored",
        "runs/live_calls.py",
        "        await self._adk.append(self.key, [inner_event(event) if call in self._inside else event])\n",
        "        if event.author == 'user':\n"
        "            await self._adk.append(self.key, [inner_event(event) if call in self._inside else event])\n",
        "runs/test_live_gate.py::test_a_parked_card",
    ),
    Mutant(
        "the verdict on a held call is not stored",
        "runs/live_calls.py",
        "        await self._adk.append(self.key, [inner_event(event) if call in self._inside else event])\n",
        "        if event.author != 'user':\n"
        "            await self._adk.append(self.key, [inner_event(event) if call in self._inside else event])\n",
        "runs/test_live_gate.py::test_a_verdict",
    ),
    Mutant(
        "a call is asked about before it is shown",
        "runs/live_calls.py",
        "            await self._announced.setdefault(call, asyncio.Event()).wait()\n",
        "            pass\n",
        "runs/test_live_moments.py::test_a_call_is_not_asked_about_before_it_is_shown",
    ),
    Mutant(
        "all live turns are one invocation",
        "runs/live_turns.py",
        "        event.invocation_id = turn.invocation\n        turn.began = True\n",
        "        turn.began = True\n",
        "runs/test_live_turns.py::TestTheTable::test_every_turn_is_an_invocation_of_its_own",
    ),
    Mutant(
        "calls wait behind a message that nobody has heard",
        "runs/recovery.py",
        "        await self.supersede(key, chat)\n",
        "",
        "runs/test_recovery.py::test_typing_over_it_when_the_server_dies_before_the_agent_hears",
    ),
    Mutant(
        "an operation is cut off with the one who wanted it",
        "runs/sessions.py",
        "        return await asyncio.shield(task)\n",
        "        return await task\n",
        "runs/test_sessions.py",
    ),
    Mutant(
        "typed words are only in the queue",
        "runs/live.py",
        "        await self._keeper.adk.append(self.key, [question_event(content, turn.invocation, mark)])\n",
        "        if connection is None:\n"
        "            await self._keeper.adk.append(self.key, [question_event(content, turn.invocation, mark)])\n",
        "runs/test_live_moments.py::test_words_are_kept_though_nobody_waits_for_an_answer",
    ),
    Mutant(
        "a stock client stops at breaks that its answer is behind",
        "server/live_reader.py",
        " and batch.first + len(batch.entries) - 1 > past",
        "",
        "server/test_live_frames.py::test_a_stock_client_reads_past_breaks_that_its_answer_is_behind",
    ),
    Mutant(
        "an answer to an old question counts",
        "gate/judge.py",
        "    if given.ask is not None and given.ask != call.ask:\n        raise NotFound(REFUSED)\n",
        "",
        "server/test_live_frames.py::test_an_answer_to_another_question_is_refused",
    ),
    Mutant(
        "what is stored has the time when it was made",
        "runs/live_turns.py",
        "        event.timestamp = time.time()\n",
        "",
        "runs/test_live_turns.py::TestTime",
    ),
    Mutant(
        "what is shown while something is stored comes behind it",
        "runs/live_turns.py",
        "self._storing.timestamp - _MOMENT",
        "self._storing.timestamp + _MOMENT",
        "runs/test_live_turns.py::TestTime",
    ),
    Mutant(
        "a denial is told beside a call that waits",
        "wire/calls.py",
        "        if not self.step_waits:\n            out += self._denials\n            self._denials.clear()\n",
        "        out += self._denials\n        self._denials.clear()\n",
        "wire/test_live_encoder.py",
    ),
    Mutant(
        "a response belongs to the turn at hand",
        "runs/live_turns.py",
        "            return next((turn for call in responses if (turn := self.of_call(call)) is not None), None)\n",
        "            return self._first(stored=True, words=False)\n",
        "runs/test_live_turns.py",
    ),
    Mutant(
        "a turn is over though a call waits",
        "runs/live_turns.py",
        "        if event.turn_complete and not turn.calls and ",
        "        if event.turn_complete and ",
        "runs/test_live_turns.py::TestTheTable",
    ),
    Mutant(
        "a late transcript goes to the turn at hand",
        "runs/live_turns.py",
        "        if event.input_transcription is not None:\n            return self._utterance or self.utter()\n"
        "        return self._first(",
        "        return self._first(",
        "runs/test_live_turns.py::TestSpeech",
    ),
    Mutant(
        "a step for every event",
        "wire/encoder.py",
        "            if not self._calls.step_is_over or self._transcripts.goes_on(self._now):\n                return\n"
        "            out += self.pause()\n",
        "            out += self.pause()\n",
        "wire/test_encoder.py",
    ),
    Mutant(
        "a step after any response",
        "wire/calls.py",
        "        return self._answered and all(call.phase is Phase.SETTLED for call in self._step)\n",
        "        return self._answered\n",
        "wire/test_live_encoder.py wire/test_encoder.py",
    ),
    Mutant(
        "history in the order it was stored",
        "runs/history.py",
        "        turn.events.sort(key=shown_at)\n",
        "",
        "runs/test_live_history.py::test_what_was_shown_first_comes_first",
    ),
    Mutant(
        "a break in mid-text",
        "wire/encoder.py",
        "        return self._calls.is_held and not writing and not self._transcripts.is_open\n",
        "        return self._calls.is_held\n",
        "wire/test_live_encoder.py runs/test_live_moments.py::test_a_call_is_answered_while_the_model_speaks",
    ),
    Mutant(
        "what was said when it was interrupted is lost",
        "runs/showing.py",
        "        for unsaved in carried.run.encoder.unsaved():\n",
        "        for unsaved in carried.run.encoder.unsaved()[:0]:\n",
        "runs/test_live.py runs/test_live_gate.py::test_an_interruption_while_a_call_waits",
    ),
    Mutant(
        "what was stored and not shown is stored again",
        "runs/showing.py",
        "        for event in list(carried.turn.unshown.values()):\n",
        "        for event in list(carried.turn.unshown.values())[:0]:\n",
        "runs/test_live_moments.py::test_cut_between_storing_and_showing",
    ),
    Mutant(
        "what nobody wants to hear is heard",
        "runs/live_turns.py",
        '        """Nothing more of what the model says now is wanted."""\n        turn.wanted = Wanted.NOTHING\n',
        '        """Nothing more of what the model says now is wanted."""\n',
        "runs/test_live_turns.py::TestTheTable",
    ),
    Mutant(
        "a call of a turn that was cut is made",
        "runs/live_turns.py",
        "        if turn.cut and (turn.ended or not responses):\n",
        "        if turn.cut and not calls and (turn.ended or not responses):\n",
        "runs/test_live_turns.py::TestTheTable",
    ),
    Mutant(
        "pictures are not stored",
        "runs/live.py",
        "            if _is_picture(rest):\n",
        "            if _is_picture(rest) and False:\n",
        "runs/test_live_moments.py::test_a_picture_is_there_on_reload",
    ),
    Mutant(
        "a turn that failed was never there",
        "runs/run.py",
        "        return events + await self._seals(adk, gate) + self._ending(cut)\n",
        "        return events + await self._seals(adk, gate)\n",
        "runs/test_turns.py",
    ),
    Mutant(
        "held calls are sealed when nobody comes back",
        "runs/live.py",
        "                each.put(Sign.OVER)\n            for each in carried:\n",
        "                each.run.abort()\n            for each in carried:\n",
        "runs/test_live_gate.py::test_a_parked_card",
    ),
    Mutant(
        "no word about a parked call for the model",
        "runs/showing.py",
        "        if asked:\n            await self._leave_placeholders(carried, asked)\n",
        "",
        "runs/test_live_moments.py::test_the_model_reads_of_no_call_without_an_answer",
    ),
    Mutant(
        "parked calls stay when somebody speaks",
        "runs/live.py",
        '        await self._keeper.seal(self.key, chat, "superseded")\n        session = ',
        "        session = ",
        "runs/test_live_moments.py::test_speech_takes_back_what_is_parked",
    ),
    Mutant(
        "settling without a claim",
        "gate/gate.py",
        "                if (stored := await self._store_move(after)) is not None:\n                    break\n",
        "                stored = await self._store_move(after) or after\n                break\n",
        "gate/test_gate.py::test_of_yes_and_no_at_once_one_counts_and_the_others_are_late",
    ),
    Mutant(
        "the microphone stays where it was",
        "runs/lives.py",
        "            self._microphones[live.key] = listener\n",
        "            self._microphones.setdefault(live.key, listener)\n",
        "runs/test_live.py::test_two_clients_and_one_microphone",
    ),
    Mutant(
        "two have the microphone",
        "runs/lives.py",
        "        if self._microphones.get(live.key) is not listener:\n            return False\n",
        "",
        "runs/test_live.py::test_two_clients_and_one_microphone",
    ),
    Mutant(
        "an interruption is of the same generation",
        "runs/audience.py",
        "        self.generation = (self.generation + 1) % GENERATIONS\n        speeches.interrupt()\n",
        "        speeches.interrupt()\n",
        "runs/test_live_moments.py::test_sound_of_an_interrupted_answer_is_void",
    ),
    Mutant(
        "sound goes on in the generation that is void",
        "runs/audience.py",
        "            self.generation = speeches.generation = (self.generation + 1) % GENERATIONS\n",
        "            speeches.generation = self.generation\n",
        "runs/test_live.py::test_sound_goes_by_and_is_counted",
    ),
    Mutant(
        "what was heard does not matter",
        "runs/audience.py",
        "            self._played = furthest(self._played, Played(generation, ms))\n",
        "            pass\n",
        "runs/test_live.py::test_what_was_not_heard_is_not_kept",
    ),
    Mutant(
        "what was heard is a share of the whole turn",
        "runs/speeches.py",
        "            self.who, self.begin = who, self.sounded\n",
        "            self.who = who\n",
        "runs/test_speeches.py",
    ),
    Mutant(
        "thoughts are said",
        "runs/speeches.py",
        '    return "".join(part for kind, part in unsaved.parts if kind == "text" and isinstance(part, str))\n',
        '    return "".join(part for _, part in unsaved.parts if isinstance(part, str))\n',
        "runs/test_speeches.py",
    ),
    Mutant(
        "sound is in the log",
        "runs/audience.py",
        "            if (pcm := _sound_of(part)) is None:\n                rest.append(part)\n            else:\n",
        "            rest.append(part)\n            if (pcm := _sound_of(part)) is not None:\n",
        "runs/test_live.py::test_sound_goes_by_and_is_counted",
    ),
    Mutant(
        "the grace never ends",
        "runs/lives.py",
        "call_later(seconds, self._end_soon, live)",
        "call_later(seconds + 3600, self._end_soon, live)",
        "runs/test_live.py::test_nothing_is_left_of_many_that_come_and_go",
    ),
    Mutant(
        "no grace",
        "runs/lives.py",
        "call_later(seconds, self._end_soon, live)",
        "call_later(0, self._end_soon, live)",
        "runs/test_live_moments.py::test_a_conversation_waits_for_who_was_lost",
    ),
    Mutant(
        "reconnecting without end",
        "runs/watched_model.py",
        "        if len(self._times) == _MOST and now - self._times[0] < _WITHIN:\n",
        "        if False:\n",
        "runs/test_supervision.py::test_it_is_given_up_when_it_is_lost_again_and_again",
    ),
    Mutant(
        "reconnecting without a pause",
        "runs/watched_model.py",
        "        if recent > 1:\n",
        "        if False:\n",
        "runs/test_supervision.py::test_a_lost_connection_is_sought_at_once_and_then_less_and_less",
    ),
    Mutant(
        "an empty handle takes the place of the last one",
        "runs/watched_model.py",
        "        self.handle = update.new_handle or self.handle\n",
        "        self.handle = update.new_handle\n",
        "runs/test_supervision.py::test_no_handle_now_keeps_the_last_one",
    ),
    Mutant(
        "an approved call is given up with its conversation",
        "runs/showing.py",
        "await self._leave_approved(carried) if not stopped else ():\n",
        "await self._leave_approved(carried) if False else ():\n",
        "runs/test_live_gate.py::test_an_approved_call_that_has_not_begun_is_gone_on_with",
    ),
    Mutant(
        "an approved call is left while somebody begins it",
        "runs/showing.py",
        "            await gate.park(record)\n",
        "",
        "runs/test_live_gate.py::test_an_approved_call_that_has_not_begun_waits_for_the_others",
    ),
    Mutant(
        "a parked call has its answer from the agent",
        "runs/own_events.py",
        '    event = response_event(answers, "user", invocation_id, ',
        '    event = response_event(answers, "teller", invocation_id, ',
        "runs/test_live_gate.py::test_an_approved_call_whose_verdict_is_just_being_stored",
    ),
    Mutant(
        "what was being said on a lost connection says when the next speech began",
        "runs/plugin.py",
        ' by {event.author} on {connection}"',
        ' by {event.author}"',
        "runs/test_supervision.py::test_what_is_said_while_a_call_waits_is_kept_as_far_as_it_came",
    ),
    Mutant(
        "a card fails with what is said beside it",
        "runs/showing.py",
        "    return any(call.is_offered for call in carried.run.encoder.waiting())\n",
        "    return carried.run.encoder.is_held\n",
        "runs/test_supervision.py::test_a_call_that_waits_is_parked_in_the_middle_of_what_is_said_beside_it",
    ),
    Mutant(
        "a card inside a tool outlives the connection",
        "runs/showing.py",
        "                ends = isinstance(step, Exception) or ",
        "                if isinstance(step, Exception) and not carried.run.encoder.is_held:\n"
        "                    raise step\n"
        "                ends = isinstance(step, Exception) or ",
        "runs/test_live_gate.py::test_what_waits_inside_a_tool_is_over_when_the_connection_is_lost",
    ),
    Mutant(
        "a turn waits for ever for a model that has forgotten its call",
        "runs/live_turns.py",
        "        last.talked_over = last.talked_over or bool(last.calls)\n",
        "",
        "runs/test_live_moments.py::test_a_model_has_forgotten_the_call_when_it_is_answered",
    ),
    Mutant(
        "what is said before a call stays open while somebody is asked",
        "runs/transcripts.py",
        "        elif response.get_function_calls() and (words",
        "        elif False and (words",
        "runs/test_transcripts.py",
    ),
    Mutant(
        "nobody is told that the model goes away",
        "runs/watched_model.py",
        "            self.watcher.going_away()\n",
        "",
        "runs/test_supervision.py::test_a_model_that_goes_away",
    ),
    Mutant(
        "a deaf connection is kept",
        "runs/live_connection.py",
        "            if self.queue.neglected() > _DEAF and self.is_open:\n",
        "            if False:\n",
        "runs/test_supervision.py::test_a_connection_that_has_gone_deaf",
    ),
    Mutant(
        "who died over a message is not missed",
        "runs/live_queue.py",
        "        self._taken = time.monotonic()\n",
        "",
        "runs/test_live_queue.py",
    ),
    Mutant(
        "the newest sound is dropped",
        "runs/live_queue.py",
        "        del self._queue[next(i for i, item in enumerate(self._queue) if _kind(item) == kind)]\n",
        "        del self._queue[max(i for i, item in enumerate(self._queue) if _kind(item) == kind)]\n",
        "runs/test_live_queue.py",
    ),
    Mutant(
        "sound for the model without end",
        "runs/live_queue.py",
        "                self._drop(kind)\n",
        "                pass\n",
        "runs/test_live_queue.py",
    ),
    Mutant(
        "a message to another worker ends what is being said",
        "runs/lives.py",
        "        return live is not None and wish.why not in (",
        "        return live is None and wish.why not in (",
        "runs/test_live_workers.py::test_a_wish_to_go_on_elsewhere_leaves_what_is_being_said",
    ),
    Mutant(
        "the conversation stays at the other worker",
        "runs/lives.py",
        "        if wish.why in (TAKEN_OVER, DELETED):\n",
        "        if wish.why == DELETED:\n",
        "runs/test_live_workers.py::test_who_joins_at_the_other_takes_the_conversation_with_its_card",
    ),
    Mutant(
        "held calls do not hear of answers elsewhere",
        "runs/bridge.py",
        "        self._adk.holds.changed(ChatKey(call.user, call.chat), call.call)\n",
        "",
        "runs/test_live_workers.py::test_an_answer_given_at_the_other_reaches_a_held_call",
    ),
]

MUTANTS = [*MESSAGES, *BROWSER, *ANSWERS, *EXECUTION, *POLICY, *READERS, *CRASHES, *WORKERS, *STREAMS, *SOCKETS, *LIVE]


def pytest_collection_finish() -> None:
    """As a plugin of pytest: only the copy is tested."""
    import adkwire

    if not Path(adkwire.__file__).is_relative_to(os.environ[COPY]):
        pytest.exit(f"{adkwire.__file__} is not the copy", returncode=OTHER_SOURCE)


def copied(folder: Path) -> Path:
    """A copy of the source, compiled as the original is."""
    return Path(shutil.copytree(SOURCE, folder / SOURCE.name))


def broken(mutant: Mutant, copy: Path) -> str | None:
    """Put the mutant into a copy; what is wrong with it, if anything is."""
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    if (times := text.count(mutant.old)) != 1:
        return f"its text is in {mutant.file} {times} times"
    changed = text.replace(mutant.old, mutant.new)
    try:
        compile(changed, path, "exec")
    except SyntaxError as error:
        return f"it is no Python: {error}"
    path.write_text(changed, encoding="utf-8")
    return None


def tested(copy: Path, tests: Iterable[str], *options: str) -> tuple[int | None, str]:
    """How pytest ended on a copy (None: it did not), and what it said."""
    folder = str(copy.parent)
    env = {**os.environ, "PYTHONPATH": folder, COPY: folder, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
    wanted = [f"tests/{test}" for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants", "-p", "no:cacheprovider", *options, *wanted]
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return None, f"the tests did not end in {PATIENCE:.0f} s"
    return done.returncode, done.stdout + done.stderr


def unbroken(mutants: Iterable[Mutant]) -> str | None:
    """Run all tests that the mutants name without a mutant; what pytest says if they do not pass."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests.split())
    with tempfile.TemporaryDirectory(prefix="adkwire-mutant-") as folder:
        ended, said = tested(copied(Path(folder)), tests)
    return None if ended == 0 else said


def verdict(mutant: Mutant) -> tuple[bool, str]:
    """Whether a mutant is killed, and by what; else why not."""
    with tempfile.TemporaryDirectory(prefix="adkwire-mutant-") as folder:
        copy = copied(Path(folder))
        if wrong := broken(mutant, copy):
            return False, wrong
        ended, said = tested(copy, mutant.tests.split(), "-x")
    if ended == 0:
        return False, f"it survives {mutant.tests}"
    if ended != 1:
        return False, said
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", said, re.MULTILINE)
    return True, failed[1] if failed else ""


def unfit(mutants: Iterable[Mutant]) -> list[str]:
    """What is wrong with the mutants themselves; no test runs."""
    found: list[str] = []
    for mutant in mutants:
        with tempfile.TemporaryDirectory(prefix="adkwire-mutant-") as folder:
            path = Path(folder) / mutant.file
            path.parent.mkdir(parents=True)
            shutil.copy(SOURCE / mutant.file, path)
            wrong = broken(mutant, Path(folder))
        if wrong is not None:
            found.append(f"{mutant.name}: {wrong}")
    return found


def main(names: list[str], *, check: bool) -> int:
    """Try the mutants that are named, or all; with `check` only see whether they fit the source."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"No such mutant: {', '.join(unknown)}. Known: {', '.join(known)}.")
    chosen = [known[name] for name in names] or MUTANTS
    if wrong := unfit(chosen):
        print(*wrong, sep="\n")
        return 1
    if check:
        return 0
    began = time.monotonic()
    if (said := unbroken(chosen)) is not None:
        print(f"{said}\nThe tests fail without any mutant.")
        return 1
    alive = 0
    for mutant in chosen:
        killed, why = verdict(mutant)
        alive += not killed
        print(f"{'killed' if killed else 'ALIVE '}  {mutant.name}: {why}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} killed in {time.monotonic() - began:.0f} s")
    return 1 if alive else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to try; all without any")
    parser.add_argument("--check", action="store_true", help="only see whether they fit the source")
    given = parser.parse_args()
    sys.exit(main(given.names, check=given.check))
