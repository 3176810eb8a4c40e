"""`slipstream migrate` of directories written by hand: what it refuses, and that a run can end anywhere."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from slipstream.jetstream.config.stored import from_stored
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.values import ALL, SEQ_MAX, StoredMessage
from slipstream.jetstream.stream.copies.source_positions import position_notes
from slipstream.testing import ServerThread
from support.cli import Cli
from support.nats_files import block, write_meta, write_stream

CONSUMER = {"ack_policy": "explicit", "deliver_policy": "all", "replay_policy": "instant", "ack_wait": 30 * 10**9}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two accounts, three streams, a consumer."""
    store = tmp_path / "theirs"
    for name, account in (("A", "$G"), ("B", "$G"), ("C", "OTHER")):
        messages = [(seq, b"%b.x" % name.lower().encode(), b"", b"%b %d" % (name.encode(), seq)) for seq in range(1, 6)]
        directory = write_stream(store, name, {1: block(name, 1, messages)}, account)
    write_meta(directory / "obs" / "worker", "C/worker", {"Name": "worker", "durable_name": "worker", **CONSUMER})
    return store


def held(target: Path) -> dict[str, Any]:
    """What is in place: for each stream its messages and consumers."""
    found: dict[str, Any] = {}
    options = FileStoreOptions(random64=lambda: 1, noise=bytes, now_ns=lambda: 1)
    for directory in sorted((target / "jetstream").glob("*/streams/*")):
        store = FileStore.open(RealDisk(), str(directory), options)
        name = from_stored(store.config)[0].name
        assert name not in found
        messages = store.read_batch(ALL, 1, max_msgs=100, max_bytes=10**6, up_to_seq=SEQ_MAX)
        bodies = [message.payload for message in messages if isinstance(message, StoredMessage)]
        found[name] = (directory.parent.parent.name, bodies, sorted(store.journal.entries()))
    return found


EXPECTED = {
    name: (account, [b"%b %d" % (name.encode(), seq) for seq in range(1, 6)], consumers)
    for name, account, consumers in (("A", "$G", []), ("B", "$G", []), ("C", "OTHER", [b"worker"]))
}


def test_all_accounts(cli: Cli, source: Path, tmp_path: Path) -> None:
    said = cli.call("migrate", str(source), "--to", str(tmp_path / "ours")).stdout
    assert held(tmp_path / "ours") == EXPECTED
    assert "3 streams, 15 messages" in said
    assert f"slipstream-server -js -sd {tmp_path / 'ours'}" in said.replace("\n", " ").replace("  ", " ")
    assert not (tmp_path / "ours" / "jetstream" / ".migrating").exists()


def test_one_account_and_the_inner_directory(cli: Cli, source: Path, tmp_path: Path) -> None:
    cli.call("migrate", str(source / "jetstream"), "--to", str(tmp_path / "ours"), "--account", "OTHER")
    assert held(tmp_path / "ours") == {"C": EXPECTED["C"]}
    refused = cli.call("migrate", str(source), "--to", str(tmp_path / "more"), "--account", "NONE", status=1)
    assert "there are no streams of account NONE; there are of $G, OTHER" in refused.stderr


def test_json(cli: Cli, source: Path, tmp_path: Path) -> None:
    found = cli.json("migrate", str(source), "--to", str(tmp_path / "ours"), "--json")
    assert [(one["stream"], one["messages"], one["first_seq"], one["last_seq"]) for one in found["done"]] == [
        (name, 5, 1, 5) for name in "ABC"
    ]
    assert found["placed"] and all(len(one["digest"]) == 32 for one in found["done"])


def test_a_dry_run_writes_nothing(cli: Cli, source: Path, tmp_path: Path) -> None:
    said = cli.call("migrate", str(source), "--to", str(tmp_path / "ours"), "--dry-run").stdout
    assert "Everything can be migrated; nothing was written" in said
    assert not (tmp_path / "ours").exists()


def test_what_is_there_stays(cli: Cli, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "ours"
    cli.call("migrate", str(source), "--to", str(target), "--account", "OTHER")
    cli.call("migrate", str(source), "--to", str(target), "--account", "$G")
    assert held(target) == EXPECTED
    refused = cli.call("migrate", str(source), "--to", str(target), status=1)
    assert "holds 2 streams of account $G already" in " ".join(refused.stderr.split())
    assert held(target) == EXPECTED


def test_source_and_target_are_two(cli: Cli, source: Path) -> None:
    for target in (source, source / "jetstream"):
        refused = cli.call("migrate", str(source), "--to", str(target), status=1)
        assert "the target must be another directory" in refused.stderr


def test_a_directory_in_use(cli: Cli, source: Path, tmp_path: Path) -> None:
    with ServerThread(store_dir=str(tmp_path / "ours")):
        refused = cli.call("migrate", str(source), "--to", str(tmp_path / "ours"), status=1)
    assert "is in use by a server or another migration" in refused.stderr


def test_somewhere_to_read_from(cli: Cli, source: Path, tmp_path: Path) -> None:
    for words in ([], [str(source), "--from", "nats://127.0.0.1:1"]):
        refused = cli.call("migrate", *words, "--to", str(tmp_path / "ours"), status=2)
        assert "say where to read from" in refused.stderr


def test_a_node_of_a_cluster(cli: Cli, source: Path, tmp_path: Path) -> None:
    (source / "jetstream" / "$SYS" / "_js_" / "S-R3F-abc").mkdir(parents=True)
    said = cli.call("migrate", str(source), "--to", str(tmp_path / "one"))
    assert "one node of a cluster" in said.stderr
    write_stream(source, "R", {}, num_replicas=3)
    refused = cli.call("migrate", str(source), "--to", str(tmp_path / "ours"), status=1)
    assert "give --replica" in " ".join(refused.stderr.split())
    taken = cli.call("migrate", str(source), "--to", str(tmp_path / "ours"), "--replica")
    assert "$G > R: it had 3 replicas and has one now" in taken.stdout


class Crash(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_a_run_may_end_anywhere(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = getattr(os, call)
    for point in itertools.count():
        target = tmp_path / f"ours{point}"
        left = [point]

        def crashing(*args: Any, left: list[int] = left, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, crashing)
            try:
                cli.call("migrate", str(source), "--to", str(target))
            except Crash:
                finished = False
            else:
                finished = True
        if finished:
            assert point > 3
            return
        placed = held(target)
        assert placed.keys() <= EXPECTED.keys()
        if (target / "jetstream" / ".migrating").exists() or not placed:
            cli.call("migrate", str(source), "--to", str(target))
        assert held(target) == EXPECTED
        assert not (target / "jetstream" / ".migrating").exists()
        shutil.rmtree(target)


def test_a_second_run_goes_on(cli: Cli, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "ours"
    damaged = source / "jetstream" / "OTHER" / "streams" / "C" / "msgs" / "1.blk"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole.replace(b"C 3", b"C 9"))
    refused = cli.call("migrate", str(source), "--to", str(target), status=1)
    assert "OTHER > C is damaged: block 1" in refused.stderr
    assert held(target) == {}
    other = cli.call("migrate", str(source), "--to", str(target), "--account", "$G", status=0)
    assert "2 streams had been completed by an earlier run" in other.stdout
    assert held(target) == {"A": EXPECTED["A"], "B": EXPECTED["B"]}


def test_what_has_changed_is_read_again(cli: Cli, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "ours"
    damaged = source / "jetstream" / "OTHER" / "streams" / "C" / "msgs" / "1.blk"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole.replace(b"C 3", b"C 9"))
    cli.call("migrate", str(source), "--to", str(target), status=1)
    damaged.write_bytes(whole)
    said = cli.call("migrate", str(source), "--to", str(target)).stdout
    assert "2 streams had been completed by an earlier run" in said
    assert held(target) == EXPECTED


def test_a_migration_of_something_else_is_not_continued(cli: Cli, source: Path, tmp_path: Path) -> None:
    progress = tmp_path / "ours" / "jetstream" / ".migrating" / "progress.json"
    progress.parent.mkdir(parents=True)
    progress.write_text(json.dumps({"source": "/elsewhere", "streams": []}))
    refused = cli.call("migrate", str(source), "--to", str(tmp_path / "ours"), status=1)
    assert "a migration from /elsewhere is not finished here" in " ".join(refused.stderr.split())
    progress.write_text("{")
    refused = cli.call("migrate", str(source), "--to", str(tmp_path / "ours"), status=1)
    assert "remove the directory" in " ".join(refused.stderr.split())


def test_positions_of_sources_are_kept(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "theirs"
    directory = write_stream(
        store, "S", {1: block("S", 1, [(3, b"x", b"", b"kept")])}, subjects=[], sources=[{"name": "A"}, {"name": "B"}]
    )
    entries = b"".join(bytes((len(name),)) + name + bytes((seq, 0)) for name, seq in ((b"A > >", 7), (b"B > >", 9)))
    (directory / "sources.db").write_bytes(b"\x01" + (2).to_bytes(8, "little") + (4).to_bytes(8, "little") + entries)
    cli.call("migrate", str(store), "--to", str(tmp_path / "ours"))
    (place,) = (tmp_path / "ours" / "jetstream").glob("*/streams/*")
    options = FileStoreOptions(random64=lambda: 1, noise=bytes, now_ns=lambda: 1)
    notes = FileStore.open(RealDisk(), str(place), options).notes()
    assert notes == position_notes(3, {"A > >": 7, "B > >": 9})
