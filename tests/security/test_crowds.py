"""Many subscriptions to one subject: they come and go one by one in the same time as anywhere else."""

from __future__ import annotations

import pytest

from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Subscription

CROWD = 200_000


@pytest.mark.parametrize("subject", [b"one.subject", b"one.*", b"one.>"])
def test_a_crowd_leaves_as_fast_as_it_came(subject: bytes) -> None:
    """One client may subscribe a hundred thousand times; its end held up everybody for seconds, for a million minutes.

    Leaving in the order of coming, and in the other order: one of both was quadratic, whatever the list did.
    """
    interest = Interest()
    crowd = [Subscription(subject, None, b"%d" % number) for number in range(CROWD)]
    for subscription in crowd:
        interest.insert(subscription)
    assert len(interest.match(b"one.subject")) == CROWD
    for subscription in crowd[: CROWD // 2]:
        assert interest.remove(subscription)
    assert len(interest.match(b"one.subject")) == CROWD // 2
    for subscription in reversed(crowd[CROWD // 2 :]):
        assert interest.remove(subscription)
        assert not interest.remove(subscription)
    assert interest.match(b"one.subject") == [] and interest.count == 0


@pytest.mark.parametrize("size", [1, 31, 32, 33, 34, 100])
def test_small_and_large_crowds_are_the_same(size: int) -> None:
    interest = Interest()
    crowd = [Subscription(b"a", b"q" if number % 3 == 0 else None, b"%d" % number) for number in range(size)]
    for subscription in crowd:
        interest.insert(subscription)
    assert interest.match(b"a") == crowd
    stranger = Subscription(b"a", None, b"x")
    assert not interest.remove(stranger)
    for subscription in crowd[::2]:
        assert interest.remove(subscription)
    assert interest.match(b"a") == crowd[1::2]
    for subscription in crowd[::2]:
        again = Subscription(b"a", None, subscription.sid)
        interest.insert(again)
    assert len(interest.match(b"a")) == size == interest.count == len(interest.subscriptions())
