"""Who watches interest and raises: neither the subscriber nor other watchers notice."""

from __future__ import annotations

import pytest

from slipstream.accounts.account import Account
from slipstream.kernels.wire.delivery import Delivery


def test_a_watcher_that_raises() -> None:
    failures, heard = list[Exception](), list[bool]()
    account = Account("A", Delivery(1, failures.append))

    def fail(_heard: bool) -> None:
        raise ZeroDivisionError("a mistake")

    account.watch(b"a", None, fail)
    account.watch(b"a", None, heard.append)
    subscription = account.subscribe(b"a", lambda *_: None)
    account.remove(subscription)
    assert heard == [True, False]
    assert [type(error) for error in failures] == [ZeroDivisionError] * 2
    loud = Account("A", Delivery(1))
    loud.watch(b"a", None, fail)
    with pytest.raises(ZeroDivisionError):
        loud.subscribe(b"a", lambda *_: None)


def test_a_listener_to_interest_that_raises() -> None:
    failures, heard = list[Exception](), list[int]()
    account = Account("A", Delivery(1, failures.append))

    def fail() -> None:
        raise ZeroDivisionError("a mistake")

    account.interest_listeners = [fail, lambda: heard.append(1)]
    subscription = account.subscribe(b"a", lambda *_: None)
    account.remove(subscription)
    assert heard == [1, 1]
    assert account.interest.count == 0
    assert [type(error) for error in failures] == [ZeroDivisionError] * 2
