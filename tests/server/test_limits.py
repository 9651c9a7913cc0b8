"""Token buckets and the quota of sockets."""

import pytest

from adkwire.server.limits import SocketQuota, TokenBucket


def test_released_slots_can_be_taken_again() -> None:
    quota = SocketQuota(1)
    first, other = quota.take("ann"), quota.take("bob")
    assert first is not None
    assert other is not None
    assert quota.take("ann") is None
    first.release()
    first.release()
    second = quota.take("ann")
    assert second is not None
    assert quota.take("ann") is None
    for slot in (second, other):
        slot.release()
    assert not +quota._open  # pyright: ignore[reportPrivateUsage] - what it keeps is the question


def test_a_bucket_fills_again() -> None:
    now = 0.0
    bucket = TokenBucket(10, 5.0, clock=lambda: now)
    assert [bucket.take() for _ in range(10)] == [0.0] * 10
    assert bucket.take() == pytest.approx(0.5)
    now = 0.5
    assert bucket.take() == 0.0
    assert bucket.take() > 0
    now = 1_000.0
    assert [bucket.take() for _ in range(10)] == [0.0] * 10
    assert bucket.take() > 0
