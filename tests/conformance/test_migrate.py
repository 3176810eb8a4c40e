"""`slipstream migrate` of what the real nats-server wrote: afterwards our server shows the same, to the last byte."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import Cli
from support.nats_stores import OBJECT, FilledStore
from support.servers import ServerPool

KEY = "a key with some words"


def config(store: Path, encryption: str = "") -> str:
    return f'jetstream {{ store_dir: "{store}", {encryption} }}'


def tree(root: Path) -> dict[str, str]:
    """Every file under a directory with a digest."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home)


@pytest.fixture
def written(server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A store written by the real server, which was stopped or killed; what was in it."""
    how, encryption = request.param
    store = tmp_path / "theirs"
    server = server_pool.prepared("real", config(store, encryption), ()).start()
    filled = FilledStore(server.port)
    filled.fill()
    if how == "killed":
        # What the server had not written yet is gone: what counts is what it would find itself.
        server.kill()
        copy = tmp_path / "copy"
        shutil.copytree(store, copy)
        server = server_pool.prepared("real", config(copy, encryption), ()).start()
        filled = FilledStore(server.port)
    before = filled.contents(), filled.buckets()
    server.stop()
    yield store, before


def served(server_pool: ServerPool, store: Path) -> Any:
    """What our server shows of a store."""
    server = server_pool.prepared("ours", config(store), ()).start()
    try:
        filled = FilledStore(server.port)
        return filled.contents(), filled.buckets()
    finally:
        server.end()


def without_defaults(ours: Any, theirs: Any) -> Any:
    """What we show, without what an older server does not mention: members that are empty, and a durable's name."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return ours
    return {
        key: without_defaults(value, theirs.get(key))
        for key, value in ours.items()
        if key in theirs or (value and key != "name") or (key == "name" and value != ours.get("durable_name"))
    }


def refuse(server_pool: ServerPool, store: Path, directory: Path) -> None:
    """Our server, by the other's name, does not start on the store."""
    server = server_pool.prepared("ours", config(store), ())
    link = directory / "nats-server"
    link.symlink_to(server.binary)
    server.binary = link
    assert server.run_to_end() == 1
    assert any(f"run `slipstream migrate {store} --to" in line for line in server.log_lines), server.log_lines


CASES = [
    pytest.param(("stopped", ""), (), id="stopped"),
    pytest.param(("killed", ""), (), id="killed"),
    pytest.param(("stopped", f'key: "{KEY}", cipher: chacha'), ("--key", KEY), id="chacha"),
    pytest.param(("killed", f'key: "{KEY}", cipher: chacha'), ("--key", KEY), id="chacha-killed"),
    pytest.param(("stopped", f'key: "{KEY}", cipher: aes'), ("--key", KEY), id="aes"),
    pytest.param(("killed", f'key: "{KEY}", cipher: aes'), ("--key", KEY), id="aes-killed"),
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("written", "flags"), CASES, indirect=["written"])
def test_everything_arrives(
    server_pool: ServerPool, tmp_path: Path, cli: Cli, written: Any, flags: tuple[str, ...]
) -> None:
    store, (before, buckets) = written
    files = tree(store)
    refuse(server_pool, store, tmp_path)
    assert tree(store) == files
    cli.call("migrate", str(store), "--to", str(tmp_path / "ours"), *flags)
    assert tree(store) == files
    after, buckets_after = served(server_pool, tmp_path / "ours")
    assert after.keys() == before.keys()
    for name, stream in before.items():
        for part, expected in stream.items():
            assert without_defaults(after[name][part], expected) == expected, (name, part)
    assert buckets_after == buckets
    assert buckets[-1] == OBJECT
    shutil.rmtree(tmp_path / "ours")


def differences(ours: Any, theirs: Any) -> list[tuple[str, str]]:
    """Which parts of which streams differ."""
    assert ours.keys() == theirs.keys()
    return [
        (name, part)
        for name, stream in theirs.items()
        for part, expected in stream.items()
        if without_defaults(ours[name][part], expected) != expected
    ]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("encryption", ["", f'key: "{KEY}"'])
def test_from_a_running_server_into_a_directory(
    server_pool: ServerPool, tmp_path: Path, cli: Cli, encryption: str
) -> None:
    server = server_pool.prepared("real", config(tmp_path / "theirs", encryption), ()).start()
    try:
        filled = FilledStore(server.port)
        filled.fill()
        before = filled.contents()
        cli.call("migrate", "--from", server.url, "--to", str(tmp_path / "ours"))
        assert filled.contents() == before
        buckets = filled.buckets()
    finally:
        server.end()
    after, buckets_after = served(server_pool, tmp_path / "ours")
    assert differences(after, before) == []
    assert buckets_after == buckets


def restored(contents: Any) -> Any:
    """What a restore keeps: not when a stream or consumer was made, nor the time of a message that was removed."""
    return {
        name: {
            "config": stream["config"],
            "messages": stream["messages"],
            "state": {key: value for key, value in stream["state"].items() if key != "last_ts"},
            "consumers": {
                consumer: {key: value for key, value in info.items() if key != "created"}
                for consumer, info in stream["consumers"].items()
            },
        }
        for name, stream in contents.items()
    }


@pytest.mark.timeout(180)
def test_from_a_running_server_into_another(server_pool: ServerPool, tmp_path: Path, cli: Cli) -> None:
    source = server_pool.prepared("real", config(tmp_path / "theirs"), ()).start()
    target = server_pool.prepared("ours", config(tmp_path / "ours"), ()).start()
    try:
        filled, received = FilledStore(source.port), FilledStore(target.port)
        filled.fill()
        filled.in_memory()
        before = filled.contents()
        cli.call("migrate", "--from", source.url, "--to", target.url)
        after = received.contents()
        assert differences(restored(after), restored(before)) == []
        again = cli.call("migrate", "--from", source.url, "--to", target.url, status=1)
        assert "there is a stream of this name in the target already" in again.stderr.replace("\n  ", " ")
        assert received.contents() == after
        assert received.buckets() == filled.buckets()
    finally:
        source.end()
        target.end()


@pytest.mark.timeout(180)
def test_mirrors_and_sources_go_on_where_they_were(server_pool: ServerPool, tmp_path: Path, cli: Cli) -> None:
    server = server_pool.prepared("real", config(tmp_path / "theirs"), ()).start()
    filled = FilledStore(server.port)
    filled.fill(with_kv=False)
    filled.copy_orders(wait_for=192)
    before = filled.contents()
    server.stop()
    cli.call("migrate", str(tmp_path / "theirs"), "--to", str(tmp_path / "ours"))
    ours = server_pool.prepared("ours", config(tmp_path / "ours"), ()).start()
    try:
        target = FilledStore(ours.port)
        target.publish("orders.3", b"one")
        target.wait_for("MIRROR", "COPIES", last_payload=b"one")
        target.publish("later.x", b"two")
        target.wait_for("COPIES", "WORKED", last_payload=b"two")
        after = target.contents()
    finally:
        ours.end()
    for name, new in (("MIRROR", 1), ("COPIES", 2), ("WORKED", 1)):
        kept = len(before[name]["messages"])
        assert after[name]["messages"][:kept] == before[name]["messages"], name
        assert len(after[name]["messages"]) == kept + new, name
