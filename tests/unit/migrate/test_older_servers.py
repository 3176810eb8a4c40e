"""Stores that older servers wrote, kept as archives: each is migrated and served as that server served it.

    2.10 stopped    2.11 killed    2.12 stopped, AES    2.14 killed, ChaCha20

An archive holds the store and `contents.json`, what that server showed of it when it was started again.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from slipstream.testing import ServerThread
from support.cli import Cli
from support.nats_stores import FilledStore

ARCHIVES = Path(__file__).parents[2] / "fixtures" / "nats-stores"
KEY = "a key with some words"


@pytest.mark.parametrize("version", ["2.10", "2.11", "2.12", "2.14"])
def test_what_an_older_server_wrote(tmp_path: Path, version: str) -> None:
    with tarfile.open(ARCHIVES / f"{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "key").write_text(KEY + "\n")
    flags = {
        "2.12": ["--key-file", str(tmp_path / "key")],
        "2.14": ["--key", "a new one", "--prev-key-file", str(tmp_path / "key")],
    }.get(version, [])
    Cli(tmp_path).call("migrate", str(tmp_path / "store"), "--to", str(tmp_path / "ours"), *flags)
    expected: dict[str, Any] = json.loads((tmp_path / "contents.json").read_text())
    with ServerThread(store_dir=str(tmp_path / "ours")) as server:
        found = FilledStore(server.port).contents()
    assert found.keys() == expected.keys()
    for name, stream in json.loads(json.dumps(found)).items():
        theirs = expected[name]
        if theirs["state"]["last_ts"].startswith("0001-"):
            # Of an erased message at the end, which had none left for that server.
            theirs["state"]["last_ts"] = stream["state"]["last_ts"]
        for part in ("created", "state"):
            assert stream[part] == theirs[part], (name, part)
        # Erasing a message in a compressed block made it unreadable for 2.10 itself; nothing of it is lost here.
        assert len(stream["messages"]) == stream["state"]["messages"]
        assert all(message in stream["messages"] for message in theirs["messages"])
        assert stream["config"].items() >= theirs["config"].items()
        assert stream["consumers"].keys() == theirs["consumers"].keys()
        for consumer, info in theirs["consumers"].items():
            ours = stream["consumers"][consumer]
            assert ours.pop("config").items() >= info.pop("config").items()
            assert ours == info, (name, consumer)


@pytest.mark.parametrize("version", ["2.12", "2.14"])
def test_a_wrong_key_opens_nothing(tmp_path: Path, version: str) -> None:
    with tarfile.open(ARCHIVES / f"{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    words = ["migrate", str(tmp_path / "store"), "--to", str(tmp_path / "ours")]
    without = Cli(tmp_path).call(*words, status=1)
    assert "stream $G > JOBS: it is encrypted: give the server's key" in " ".join(without.stderr.split())
    wrong = Cli(tmp_path).call(*words, "--key", KEY + "!", status=1)
    assert "stream $G > JOBS: the key does not fit" in " ".join(wrong.stderr.split())
    assert not list((tmp_path / "ours" / "jetstream").glob("*/streams/*"))
