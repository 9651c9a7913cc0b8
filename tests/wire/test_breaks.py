"""Breaks of a stream log: no client gets them."""

import pytest

from adkwire.wire import chunks as c
from adkwire.wire.breaks import break_chunks, break_entry, decode_log, is_break
from adkwire.wire.profiles import Profile, encode_chunks

ENDS: list[c.Chunk] = [c.FinishStep(), c.Finish(finish_reason="tool-calls", message_metadata={"author": "a"})]
BREAK = break_entry(ENDS)
CHUNKS = [c.Start(message_id="m1"), c.Finish(finish_reason="interrupted", message_metadata={})]


def test_a_break_is_not_a_chunk() -> None:
    first, last = encode_chunks(CHUNKS)

    assert [is_break(entry) for entry in (first, BREAK, last)] == [False, True, False]
    assert decode_log([first, BREAK, last, BREAK]) == CHUNKS
    assert break_chunks(BREAK) == ENDS


@pytest.mark.parametrize("client", [None, "ai/6.0.0", "ai/7.0.0", "ai/7.0.169"])
def test_no_client_gets_a_break(client: str | None) -> None:
    assert Profile.declared(client).fit_encoded(BREAK) is None


@pytest.mark.parametrize(
    ("client", "reason"), [(None, "other"), ("ai/7.0.148", "other"), ("ai/7.0.149", "interrupted")]
)
def test_only_a_client_that_knows_the_finish_reason_interrupted_gets_it(client: str | None, reason: str) -> None:
    (entry,) = encode_chunks(CHUNKS[1:])

    assert decode_log([Profile.declared(client).fit_encoded(entry) or b""]) == [
        c.Finish(finish_reason=reason, message_metadata={})  # type: ignore[arg-type]
    ]
