"""Mutants of `bridge`: what breaks when one of its rules is broken."""

from tests.mutants.mutant import Mutant

COMING_BACK = "server/test_stream.py::test_coming_back_after_the_end"

MUTANTS = [
    Mutant(
        "what waits is not stopped",
        "bridge.py",
        'stopped if newer else await self._sealing.seal(key, chat, "stopped") or stopped',
        "stopped",
        "runs/test_stop_gated.py::test_stop_voids_a_call_that_waits_for_a_verdict",
    ),
    Mutant(
        "a deleted chat leaves its grants",
        "bridge.py",
        "            await self._gate.forget(*key)\n",
        "",
        "runs/test_grants.py::test_a_deleted_chat_takes_its_grants_with_it",
    ),
    Mutant(
        "a place that is gone is nothing to go on with",
        "bridge.py",
        "            return await self._readers.after(key, after)\n",
        "            return await self._readers.after(key, after) if await self._log.head(after.run) else None\n",
        COMING_BACK,
    ),
    Mutant(
        "stop of any run",
        "bridge.py",
        "if run_id in (None, run.id)]\n",
        "]\n",
        "runs/test_stop.py::test_stop_of_a_named_older_run_leaves_the_newer_one",
    ),
    Mutant(
        "a run that was cut off has no end",
        "runs/ownership.py",
        "                    await self.run_elsewhere(ChatKey(head.user, head.chat))\n",
        "                    str(head)\n",
        "runs/test_cut_off.py::test_a_server_that_starts_closes_every_run_that_was_cut_off",
    ),
    Mutant(
        "a stop of one worker stops any run of another",
        "bridge.py",
        "            if wish.run in (None, run.id):\n",
        "            if True:\n",
        "runs/test_workers.py::test_a_stop_message_for_an_older_run_changes_nothing",
    ),
    Mutant(
        "held calls do not hear of answers elsewhere",
        "bridge.py",
        "            lambda call: self._runner.held_calls.changed(ChatKey(call.user, call.chat), call.call),\n",
        "",
        "live/test_workers.py::test_an_answer_given_at_the_other_reaches_a_held_call",
    ),
]
