"""A start in which one stream or one consumer cannot be recovered: it is offline with a reason, all others run."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.stream.stream import Stream
from slipstream.testing.sim_disk import SimDisk
from support.bulk_world import BulkPorts, BulkWorld


class Broken:
    """Raises for one stream what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, disk: SimDisk, error: Exception) -> None:
        self._plain = FileStore.open
        self._error = error
        self.directory = ""
        monkeypatch.setattr(FileStore, "open", self.open)

    def open(self, disk: SimDisk, directory: str, options: Any) -> FileStore:
        if directory == self.directory:
            raise self._error
        return self._plain(disk, directory, options)


def two_streams(disk: SimDisk) -> BulkWorld:
    w = BulkWorld(disk)
    for name in "ab":
        w.create(name.upper(), subjects=[f"{name}.>"])
        assert w.publish(f"{name}.x")["seq"] == 1
    return w


def directory_of(w: BulkWorld, name: str) -> str:
    store = w.account.streams[name].store
    return str(store.directory)  # type: ignore[attr-defined]


def started_again(w: BulkWorld) -> BulkWorld:
    """Stop, and start with ports that take exceptions as a server does."""
    w.account.shutdown()
    ports = BulkPorts()
    ports.tolerant = True
    return BulkWorld(w.disk, ports=ports)


def io_error() -> StorageFault:
    fault = StorageFault("input/output error")
    fault.__cause__ = OSError(errno.EIO, "input/output error")
    return fault


@pytest.mark.parametrize("make_error", [lambda: OverflowError("too large"), lambda: MemoryError("none"), io_error])
def test_a_stream_that_cannot_be_opened(make_error: Callable[[], Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    w = two_streams(disk)
    directory = directory_of(w, "A")
    w.account.shutdown()
    before = {name: disk.read(f"{directory}/{name}", 0, 1 << 20) for name in disk.list_dir(directory)}
    with monkeypatch.context() as patch:
        error = make_error()
        Broken(patch, disk, error).directory = directory
        w = BulkWorld(disk)
        assert w.account.offline == {"A": str(error)}
        assert any(level == "ERR" and "'$G > A'" in text for level, text in w.ports.logged)
        for call in ("STREAM.INFO.A", "STREAM.PURGE.A", "STREAM.DELETE.A", "CONSUMER.NAMES.A"):
            assert w.api(call)["error"]["err_code"] == 10194, call
        refused = w.api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]})
        assert refused["error"]["err_code"] == 10194
        assert w.api("STREAM.LIST")["offline"] == {"A": str(error)}
        assert not w.account.snapshot().healthy
        assert w.publish("b.x")["seq"] == 2
        assert w.publish("a.x") is None  # nobody listens there
        w.account.shutdown()
    # Nothing was touched: without the mistake it is all there.
    assert {name: disk.read(f"{directory}/{name}", 0, 1 << 20) for name in disk.list_dir(directory)} == before
    w = BulkWorld(disk)
    assert w.publish("a.x")["seq"] == 2


def test_a_young_stream_that_cannot_be_opened_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    w = two_streams(disk)
    directory = directory_of(w, "A")
    w.account.shutdown()
    for name in disk.list_dir(directory):
        if name.startswith("MANIFEST"):
            disk.remove(f"{directory}/{name}")
    Broken(monkeypatch, disk, OverflowError("too large")).directory = directory
    assert BulkWorld(disk).account.offline == {"A": "too large"}


def test_a_stream_without_a_readable_name_is_known_by_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    w = two_streams(disk)
    directory = directory_of(w, "A")
    w.account.shutdown()
    for name in disk.list_dir(directory):
        disk.truncate(f"{directory}/{name}", 0)
    Broken(monkeypatch, disk, OverflowError("too large")).directory = directory
    w = BulkWorld(disk)
    assert w.account.offline == {directory.rsplit("/", 1)[1]: "too large"}
    assert w.publish("b.x")["seq"] == 2


def test_a_stream_that_opens_and_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    w = two_streams(SimDisk())
    plain = Stream.start

    def start(self: Stream) -> None:
        if self.name == "A":
            raise ZeroDivisionError("a mistake")
        plain(self)

    monkeypatch.setattr(Stream, "start", start)
    w = started_again(w)
    assert list(w.account.offline) == ["A"]
    assert w.publish("b.x")["seq"] == 2
    assert w.api("STREAM.INFO.A")["error"]["err_code"] == 10194


@pytest.mark.parametrize("where", ["start", "on_purged", "__init__"])
def test_a_consumer_that_cannot_be_recovered(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = BulkWorld()
    w.create("S", subjects=["s.>"], retention="interest")
    for name in ("bad", "good"):
        body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit"}}
        w.api(f"CONSUMER.DURABLE.CREATE.S.{name}", body)
    w.publish("s.a")
    plain = getattr(Consumer, where)

    def broken(self: Consumer, *args: Any, **kwargs: Any) -> Any:
        if "bad" in (getattr(self, "name", ""), args[0] if args else ""):
            raise ZeroDivisionError("a mistake")
        return plain(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Consumer, where, broken)
        w = started_again(w)
        assert w.account.offline == {}
        assert w.api("CONSUMER.INFO.S.bad")["error"]["err_code"] == 10195
        assert w.api("CONSUMER.LIST.S")["offline"] == {"bad": "a mistake"}
        w.account.streams["S"].interest.check_invariants()  # type: ignore[attr-defined]
        delivered: list[bytes] = []
        w.ports.subscribe(b"_INBOX.x", lambda _s, reply, _h, _p: delivered.append(reply or b""))
        w.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.good", b"_INBOX.x", None, json.dumps({"batch": 1}).encode())
        w.ports.settle()
        w.ports.route(delivered[0], None, None, b"+ACK")
        w.ports.settle()
        # What the other one has not seen stays, and what comes is kept for it.
        assert w.state()["messages"] == 1
        assert w.publish("s.b")["seq"] == 2
    w = started_again(w)
    assert w.api("CONSUMER.INFO.S.bad")["num_pending"] == 2
    assert w.state()["messages"] == 2


def test_a_consumer_that_is_offline_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    w = BulkWorld()
    w.create("S", subjects=["s.>"], retention="interest")
    body = {"stream_name": "S", "config": {"durable_name": "bad", "ack_policy": "explicit"}}
    w.api("CONSUMER.DURABLE.CREATE.S.bad", body)
    w.publish("s.a")

    def broken(_self: Consumer) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(Consumer, "start", broken)
    w = started_again(w)
    assert w.state()["messages"] == 1
    assert w.api("CONSUMER.DELETE.S.bad")["success"] is True
    assert w.state()["messages"] == 0
