"""Who gets a thread for its password, and when."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slipstream.server.limits import PASSWORD_CHECK_THREADS
from slipstream.server.logins.password_checks import PasswordChecks


class Connection:
    """As much of a connection as a check needs."""

    def __init__(self, ip: str) -> None:
        self.peer = SimpleNamespace(ip=ip)


class Threads:
    """Threads that finish when told to."""

    def __init__(self) -> None:
        self.busy: list[tuple[Callable[[], bool], Callable[[bool], None]]] = []
        self.checks = PasswordChecks(lambda job, done: self.busy.append((job, done)))
        self.answers: list[tuple[str, bool]] = []

    def submit(self, name: str, ip: str) -> Any:
        connection: Any = Connection(ip)
        self.checks.submit(connection, lambda: True, lambda matched: self.answers.append((name, matched)))
        return connection

    def finish(self) -> None:
        job, done = self.busy.pop(0)
        done(job())

    def finish_all(self) -> list[str]:
        while self.busy:
            self.finish()
        return [name for name, _ in self.answers]


def test_few_at_a_time() -> None:
    threads = Threads()
    for index in range(10):
        threads.submit(str(index), "192.0.2.1")
    assert len(threads.busy) == PASSWORD_CHECK_THREADS and len(threads.checks) == 10 - PASSWORD_CHECK_THREADS
    assert threads.finish_all() == [str(index) for index in range(10)]
    assert len(threads.checks) == 0


def test_addresses_take_turns() -> None:
    threads = Threads()
    for index in range(50):
        threads.submit(f"flood-{index}", "192.0.2.1")
    threads.submit("guest", "192.0.2.2")
    threads.submit("other guest", "192.0.2.3")
    order = threads.finish_all()
    assert order.index("guest") <= PASSWORD_CHECK_THREADS + 1
    assert order.index("other guest") <= PASSWORD_CHECK_THREADS + 2
    assert sorted(order) == sorted({*order}) and len(order) == 52


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:0:ffff::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("not:an:address", "not:an:address", True),
    ],
)
def test_what_counts_as_one_address(first: str, second: str, same: bool) -> None:
    threads = Threads()
    for index in range(10):
        threads.submit(f"flood-{index}", first)
    threads.submit("guest", second)
    assert (threads.finish_all()[-1] == "guest") is same


def test_who_left_does_not_wait() -> None:
    threads = Threads()
    connections = [threads.submit(str(index), f"192.0.2.{index % 3}") for index in range(9)]
    for connection in connections:
        threads.checks.forget(connection)
        threads.checks.forget(connection)
    assert len(threads.checks) == 0
    assert len(threads.finish_all()) == PASSWORD_CHECK_THREADS, "those under way come to their end"
    threads.submit("later", "192.0.2.1")
    assert threads.finish_all()[-1] == "later"


def test_an_answer_that_fails_does_not_keep_its_thread() -> None:
    threads = Threads()
    connection: Any = Connection("")

    def fail(_: bool) -> None:
        raise RuntimeError

    threads.checks.submit(connection, lambda: True, fail)
    with pytest.raises(RuntimeError):
        threads.finish()
    for index in range(5):
        threads.submit(str(index), "192.0.2.1")
    assert len(threads.finish_all()) == 5
