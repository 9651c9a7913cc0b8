"""Mutants of `recording`: what breaks when one of its rules is broken."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "a recording with secrets",
        "recording/redacted_lines.py",
        "    new = _hidden_if_too_deep(partial(redact, value))\n",
        "    new = value\n",
        "recording/test_recorder.py::test_secrets_in_chunks",
    ),
    Mutant(
        "a recording with headers",
        "recording/redacted_lines.py",
        '            return redact(without_media({**cast(dict[str, object], value), "headers": HIDDEN}))\n',
        "            pass\n",
        "recording/test_recorder.py::test_frames_without_headers_secrets_and_pictures",
    ),
]
