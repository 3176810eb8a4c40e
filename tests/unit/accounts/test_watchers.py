"""Who watches interest and raises: neither the subscriber nor other watchers notice."""

from __future__ import annotations

import pytest

from slipstream.accounts.account import Account
from slipstream.kernels.wire.delivery import Delivery


def test_a_watcher_that_raises() -> None:
    account, failures, heard = Account("A", Delivery(1)), list[Exception](), list[bool]()

    def fail(_heard: bool) -> None:
        raise ZeroDivisionError("a mistake")

    account.watch(b"a", None, fail)
    account.watch(b"a", None, heard.append)
    account.delivery.failed = failures.append
    subscription = account.subscribe(b"a", lambda *_: None)
    account.remove(subscription)
    assert heard == [True, False]
    assert [type(error) for error in failures] == [ZeroDivisionError] * 2
    account.delivery.failed = None
    with pytest.raises(ZeroDivisionError):
        account.subscribe(b"a", lambda *_: None)


def test_a_listener_to_interest_that_raises() -> None:
    account, failures, heard = Account("A", Delivery(1)), list[Exception](), list[int]()

    def fail() -> None:
        raise ZeroDivisionError("a mistake")

    account.interest_listeners = [fail, lambda: heard.append(1)]
    account.delivery.failed = failures.append
    subscription = account.subscribe(b"a", lambda *_: None)
    account.remove(subscription)
    assert heard == [1, 1]
    assert account.interest.count == 0
    assert [type(error) for error in failures] == [ZeroDivisionError] * 2
