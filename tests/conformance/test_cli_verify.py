"""`slipstream stream verify`: of a running server, and of the files of one that is stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slipstream.cli.main import cli
from slipstream.testing import ServerThread

CHAINED = ("--subjects", "ledger.>", "--storage", "file", "--metadata", "slipstream.chain=blake2b", "--defaults")


def run(*words: str, url: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*(("-s", url) if url else ()), *words], catch_exceptions=False)
    return done.exit_code, done.output


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The files of a server that has stopped, with a chained stream and one without."""
    with ServerThread(store_dir=str(tmp_path)) as server:
        assert run("stream", "add", "LEDGER", *CHAINED, url=server.url)[0] == 0
        assert run("stream", "add", "PLAIN", "--subjects", "plain", "--defaults", url=server.url)[0] == 0
        for number in range(5):
            assert run("pub", "ledger.paid", f"entry {number}", url=server.url)[0] == 0
        code, said = run("stream", "verify", "LEDGER", url=server.url)
        assert code == 0 and "Stream LEDGER is intact up to sequence 5" in said
        assert run("stream", "verify", "PLAIN", url=server.url)[0] == 1
    return tmp_path


def test_files(store: Path) -> None:
    code, said = run("stream", "verify", "LEDGER", "--dir", str(store))
    assert code == 0 and "intact up to sequence 5" in said
    code, said = run("stream", "verify", "LEDGER", "--dir", str(store), "--json")
    assert code == 0 and json.loads(said)["intact"]
    code, said = run("stream", "verify", "PLAIN", "--dir", str(store))
    assert code == 1 and "has no hash chain" in said
    code, said = run("stream", "verify", "OTHER", "--dir", str(store))
    assert code == 1 and "there is no stream OTHER" in said
    assert run("stream", "verify", "--dir", str(store))[0] == 2


def test_files_that_were_changed(store: Path) -> None:
    (path,) = (path for path in store.rglob("*.seg") if b"entry 3" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"entry 3", b"ENTRY 3"))
    code, said = run("stream", "verify", "LEDGER", "--dir", str(store))
    assert code == 1 and "stream LEDGER is broken at sequence 4" in " ".join(said.split())
    code, said = run("stream", "verify", "LEDGER", "--dir", str(store), "--json")
    assert code == 1 and json.loads(said)["broken"]["first_seq"] == 4
