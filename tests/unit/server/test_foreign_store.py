"""A store directory that somebody else wrote: the server says so, and touches nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import slipstream
from slipstream.server.errors import StartError
from slipstream.testing import ServerThread


def nats_stream(root: Path, *, account: str = "$G", name: str = "ORDERS", meta: bool = True) -> None:
    """Files as nats-server lays them out."""
    stream = root / "jetstream" / account / "streams" / name
    (stream / "msgs").mkdir(parents=True)
    (stream / "obs").mkdir()
    (stream / "msgs" / "1.blk").write_bytes(b"\x1e" + bytes(29))
    if meta:
        (stream / "meta.inf").write_text(f'{{"name": "{name}"}}')
        (stream / "meta.sum").write_text("00")


def tree(root: Path) -> dict[str, str]:
    """Every path under a directory, with a digest of what is in it."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize(
    "streams",
    [
        [{}],
        [{"account": "APP"}],
        [{"meta": False}],
        # A name that looks like one of our directories.
        [{"name": "0123456789abcdef0123456789abcdef"}],
        [{"account": "A"}, {"account": "B"}],
    ],
)
def test_a_store_of_nats_server_is_refused_and_left_alone(tmp_path: Path, streams: list[dict[str, object]]) -> None:
    for stream in streams:
        nats_stream(tmp_path, **stream)  # type: ignore[arg-type]
    before = tree(tmp_path)
    with pytest.raises(StartError) as caught:
        ServerThread(store_dir=str(tmp_path)).start()
    assert "was written by nats-server" in str(caught.value)
    assert f"slipstream migrate {tmp_path} --to" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert tree(tmp_path) == before


async def test_an_embedded_server_raises_the_same(tmp_path: Path) -> None:
    nats_stream(tmp_path)
    server = slipstream.Server(port=-1, store_dir=str(tmp_path))
    with pytest.raises(StartError, match="slipstream migrate"):
        await server.start()


def test_a_store_with_streams_of_both_is_refused(tmp_path: Path) -> None:
    with ServerThread(store_dir=str(tmp_path)):
        pass
    own = tmp_path / "jetstream" / "$G" / "streams" / ("0" * 32)
    own.mkdir(parents=True)
    (own / "MANIFEST.0").write_bytes(b"ours")
    nats_stream(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(StartError, match="slipstream migrate"):
        ServerThread(store_dir=str(tmp_path)).start()
    assert tree(tmp_path) == before


def test_an_unfinished_migration_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "jetstream" / ".migrating").mkdir(parents=True)
    with pytest.raises(StartError, match=r"a migration .* is not finished: run `slipstream migrate` again"):
        ServerThread(store_dir=str(tmp_path)).start()


def test_other_directories_are_no_reason(tmp_path: Path) -> None:
    (tmp_path / "jetstream" / "$G" / "streams").mkdir(parents=True)
    (tmp_path / "jetstream" / "notes").mkdir()
    (tmp_path / "jetstream" / "README").write_text("hello")
    with ServerThread(store_dir=str(tmp_path)):
        pass
