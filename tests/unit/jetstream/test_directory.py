"""Streams in directories: found again, removed for good, moved aside when they cannot be read."""

import errno
import random

import pytest

from slipstream.jetstream.account.directory import account_directory
from slipstream.testing.sim_disk import SimDisk
from slipstream.units import SECOND_NS
from support.disk_world import ROOT, disk_world
from support.jetstream_world import FakePorts
from support.sealing import both_forms

at_rest = both_forms()


def later(ports: FakePorts) -> FakePorts:
    """Ports of the next process: the clock goes on."""
    fresh = FakePorts()
    fresh.clock_ns = ports.clock_ns + SECOND_NS
    return fresh


@pytest.mark.parametrize(
    ("account", "name"), [("$G", "$G"), ("a b", "a%20b"), ("../x", "%2E%2E%2Fx"), ("é", "%C3%A9"), ("%", "%25")]
)
def test_account_names_become_file_names(account: str, name: str) -> None:
    assert account_directory(account) == name


def test_streams_are_there_after_a_restart() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    created = w.create("A", subjects=["a.>"], first_seq=5, metadata={"k": "v"})["created"]
    w.create("M", storage="memory")
    w.publish("a.1", b"one", Nats_Msg_Id="x")
    w.api("STREAM.UPDATE.A", {"name": "A", "subjects": ["a.>"], "first_seq": 5, "description": "d"})
    w.account.shutdown()
    w = disk_world(disk, later(w.ports))
    info = w.api("STREAM.INFO.A")
    assert (info["created"], info["config"]["description"], info["state"]["last_seq"]) == (created, "d", 5)
    assert w.api("STREAM.NAMES")["streams"] == ["A"]
    assert w.publish("a.1", b"one", Nats_Msg_Id="x")["duplicate"] is True
    assert w.publish("a.2") == {"stream": "A", "seq": 6}


def test_a_deleted_stream_leaves_nothing() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    w.create("A")
    w.publish("A")
    assert w.api("STREAM.DELETE.A")["success"] is True
    assert disk.list_dir(f"{ROOT}/streams") == []
    assert disk_world(disk, later(w.ports)).account.streams == {}


def test_an_interrupted_removal_is_finished() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    w.create("A")
    w.publish("A")
    (directory,) = disk.list_dir(f"{ROOT}/streams")
    disk.create(f"{ROOT}/streams/{directory}/DELETED")
    w = disk_world(disk, later(w.ports))
    assert w.account.streams == {}
    assert disk.list_dir(f"{ROOT}/streams") == []
    assert w.account.snapshot().healthy


def test_what_is_not_a_stream_is_moved_aside() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    w.create("A")
    w.account.shutdown()
    disk.make_dir(f"{ROOT}/streams/notes")
    disk.create(f"{ROOT}/streams/notes/todo.txt")
    disk.make_dir(f"{ROOT}/streams/{'0' * 32}")
    disk.create(f"{ROOT}/streams/{'0' * 32}/0000000001.0000.seg")
    disk.create(f"{ROOT}/streams/{'0' * 32}/MANIFEST.1")
    disk.make_dir(f"{ROOT}/streams/{'3' * 32}")
    disk.create(f"{ROOT}/streams/{'3' * 32}/0000000001.0000.seg")
    disk.make_dir(f"{ROOT}/streams/{'1' * 32}")
    disk.create(f"{ROOT}/streams/{'1' * 32}/MANIFEST.0")
    disk.make_dir(f"{ROOT}/streams/{'2' * 32}")
    w = disk_world(disk, later(w.ports))
    assert w.api("STREAM.NAMES")["streams"] == ["A"]
    assert disk.list_dir(f"{ROOT}/quarantine") == ["0" * 32, "notes"]
    assert disk.list_dir(f"{ROOT}/quarantine/notes") == ["todo.txt"]
    assert disk.list_dir(f"{ROOT}/unfinished") == ["1" * 32, "3" * 32]
    assert len(disk.list_dir(f"{ROOT}/streams")) == 1
    assert not w.account.snapshot().healthy
    assert sum(level == "WRN" for level, _ in w.ports.logged) >= 2


def test_two_directories_with_one_name() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    w.create("A")
    w.publish("A", b"old")
    (old,) = disk.list_dir(f"{ROOT}/streams")
    w.account.shutdown()
    hidden = {
        name: bytes(disk.content(f"{ROOT}/streams/{old}/{name}")) for name in disk.list_dir(f"{ROOT}/streams/{old}")
    }
    disk.make_dir("/elsewhere")
    for name in hidden:
        disk.rename(f"{ROOT}/streams/{old}/{name}", f"/elsewhere/{name}")
    disk.remove_dir(f"{ROOT}/streams/{old}")
    w = disk_world(disk, later(w.ports))
    w.create("A")
    w.publish("A", b"new")
    w.publish("A", b"newer")
    w.account.shutdown()
    disk.make_dir(f"{ROOT}/streams/{old}")
    for name in hidden:
        disk.rename(f"/elsewhere/{name}", f"{ROOT}/streams/{old}/{name}")
    w = disk_world(disk, later(w.ports))
    assert w.state("A")["messages"] == 2
    assert disk.list_dir(f"{ROOT}/quarantine") == [old]


@pytest.mark.parametrize("seed", range(12))
def test_power_loss_during_create_and_delete(seed: int) -> None:
    rng = random.Random(seed)
    disk = SimDisk()
    w = disk_world(disk)
    for name in "ABC":
        w.create(name)
        w.publish(name)
    w.api("STREAM.DELETE.B")
    w = disk_world(disk.crash(rng, keep=rng.random(), torn=True), later(w.ports))
    assert w.api("STREAM.NAMES")["streams"] == ["A", "C"]
    assert w.account.snapshot().healthy
    w.create("B")
    assert w.publish("B") == {"stream": "B", "seq": 1}


def test_a_full_disk_refuses_and_recovers() -> None:
    disk = SimDisk(capacity=3_000_000)
    w = disk_world(disk)
    w.create("A")
    answers = [w.publish("A", b"x" * 60_000) for _ in range(80)]
    refused = [answer for answer in answers if "error" in answer]
    assert refused
    assert {answer["error"]["err_code"] for answer in refused} == {10047}
    stored = len(answers) - len(refused)
    assert w.state("A")["messages"] == stored
    w.ports.advance(10 * SECOND_NS)
    assert w.full == ["A"]
    assert w.api("STREAM.PURGE.A")["purged"] == stored
    w.ports.advance(30 * SECOND_NS)
    assert "error" not in w.publish("A", b"x" * 60_000)
    assert w.full == ["A"]


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_a_creation_that_failed_does_not_come_back(keep: float) -> None:
    """Whatever call of it failed: the stream made afterwards under the name is the one a restart finds."""
    quiet = SimDisk()
    disk_world(quiet).create("A")
    for at in range(1, quiet.calls + 1):
        disk = SimDisk()
        disk.faults[at] = errno.EIO
        w = disk_world(disk)
        answer = w.api("STREAM.CREATE.A", {"name": "A", "description": "refused"})
        if "error" in answer:
            w.create("A", description="made")
        w.publish("A", b"kept")
        w = disk_world(disk.crash(random.Random(at), keep=keep, torn=False), later(w.ports))
        assert w.api("STREAM.INFO.A")["config"]["description"] == ("made" if "error" in answer else "refused")
        assert w.state("A")["messages"] == 1
        assert w.account.snapshot().quarantined == []
