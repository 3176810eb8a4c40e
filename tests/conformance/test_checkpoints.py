"""Checkpoints: signed by the server's own key, kept elsewhere, held against the stream."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from slipstream.cli.main import cli
from slipstream.cli.stream.verify import hold_against
from slipstream.jetstream.api.verify import report_fields
from slipstream.jetstream.store.checkpoints import Checkpoint
from slipstream.jetstream.store.file.chain_check import check_directory
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.server.jetstream.signing import ServerKey
from slipstream.testing import ServerThread
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, commit, new_file_store, upkeep

CHAINED = ("--subjects", "ledger.>", "--storage", "file", "--metadata", "slipstream.chain=blake2b", "--defaults")


def run(*words: str, url: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*(("-s", url) if url else ()), *words], catch_exceptions=False)
    return done.exit_code, " ".join(done.output.split())


def pay(url: str, *entries: str) -> None:
    for entry in entries:
        assert run("pub", "ledger.paid", entry, url=url)[0] == 0


def take(url: str, stream: str = "LEDGER") -> dict[str, object]:
    done = CliRunner().invoke(cli, ["-s", url, "stream", "checkpoint", stream], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.output)
    return found


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """`older`, `store` that went on from there, and `kept.json`, taken at sequence 2 of 3; no server runs any more."""
    store, kept = tmp_path / "store", tmp_path / "kept.json"
    with ServerThread(store_dir=str(store)) as server:
        assert run("stream", "add", "LEDGER", *CHAINED, url=server.url)[0] == 0
        pay(server.url, "one")
    shutil.copytree(store, tmp_path / "older")
    with ServerThread(store_dir=str(store)) as server:
        pay(server.url, "two")
        code, said = run("stream", "checkpoint", "LEDGER", "-o", str(kept), url=server.url)
        assert code == 0 and "Checkpoint of stream LEDGER at sequence 2" in said
        pay(server.url, "three")
        signer = str(json.loads(kept.read_text())["server"])
        code, said = run("stream", "verify", "--checkpoint", str(kept), "--signer", signer, url=server.url)
        assert code == 0 and "LEDGER is intact up to sequence 3" in said and "at sequence 2, signed by N" in said
    return tmp_path


def verify(history: Path, directory: str) -> tuple[int, str]:
    return run(
        "stream", "verify", "LEDGER", "--dir", str(history / directory), "--checkpoint", str(history / "kept.json")
    )


def test_a_stream_that_went_on_is_intact(history: Path) -> None:
    code, said = verify(history, "store")
    assert code == 0 and "intact up to sequence 3" in said and "the chain goes on from there" in said


def test_an_older_copy_of_the_directory(history: Path) -> None:
    older, kept = str(history / "older"), str(history / "kept.json")
    assert run("stream", "verify", "LEDGER", "--dir", older)[0] == 0, "it is whole in itself"
    code, said = verify(history, "older")
    assert code == 1 and "the log ends before the checkpoint" in said
    with ServerThread(store_dir=older) as server:
        code, said = run("stream", "verify", "LEDGER", "--checkpoint", kept, url=server.url)
        assert code == 1 and "the log ends before the checkpoint" in said
        pay(server.url, *(f"other {number}" for number in range(5)))  # and one that goes on from there
        assert run("stream", "verify", "LEDGER", url=server.url)[0] == 0
        code, said = run("stream", "verify", "LEDGER", "--checkpoint", kept, url=server.url)
        assert code == 1 and "the log is not the one of the checkpoint" in said
    code, said = verify(history, "older")
    assert code == 1 and "the log is not the one of the checkpoint" in said


def test_a_tail_that_was_cut_off(history: Path) -> None:
    """All that tells of the end goes with it: manifests and index files."""
    (segment,) = (history / "store").rglob("*.seg")
    data = segment.read_bytes()
    end = len((history / "older" / segment.relative_to(history / "store")).read_bytes().rstrip(b"\0"))
    segment.write_bytes(data[:end] + bytes(len(data) - end))
    for path in (*segment.parent.glob("MANIFEST.*"), *segment.parent.glob("*.sdx")):
        path.unlink()
    code, said = run("stream", "verify", "LEDGER", "--dir", str(history / "store"))
    assert code == 0 and "intact up to sequence 1" in said, "the chain alone cannot know"
    code, said = verify(history, "store")
    assert code == 1 and "the log ends before the checkpoint" in said


def test_a_signature_that_was_forged(history: Path) -> None:
    kept = history / "kept.json"
    fields = json.loads(kept.read_text())
    signer = fields["server"]
    older = json.loads(
        CliRunner().invoke(cli, ["stream", "verify", "LEDGER", "--dir", str(history / "older"), "--json"]).output
    )
    # Who went back to an older copy makes the checkpoint fit it.
    forged = {**fields, **{key: older[key] for key in ("records", "link", "last_seq")}}
    kept.write_text(json.dumps(forged))
    code, said = verify(history, "older")
    assert code == 1 and "the signature is not that of the server that it names" in said
    assert run("stream", "checkpoint", "--check", str(kept))[0] == 1
    # With a key of his own it is a checkpoint, of another server.
    (history / "own").mkdir()
    key = ServerKey(RealDisk(), str(history / "own"))
    forged = {name: value for name, value in forged.items() if name != "signature"} | {"server": key.public}
    text = json.dumps(forged, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    kept.write_text(json.dumps({**forged, "signature": key.sign(text)}))
    assert verify(history, "older")[0] == 0
    words = ("--checkpoint", str(kept), "--signer", signer)
    code, said = run("stream", "verify", "LEDGER", "--dir", str(history / "older"), *words)
    assert code == 1 and f"was signed by {key.public}, not by {signer}" in said
    code, said = run("stream", "checkpoint", "--check", str(kept), "--signer", signer)
    assert code == 1 and "was signed by" in said


def test_a_checkpoint_of_another_stream(history: Path) -> None:
    store, kept = str(history / "store"), str(history / "kept.json")
    with ServerThread(store_dir=store) as server:
        other = ("--subjects", "other", "--storage", "file", "--metadata", "slipstream.chain=blake2b", "--defaults")
        assert run("stream", "add", "OTHER", *other, url=server.url)[0] == 0
        assert run("stream", "add", "PLAIN", "--subjects", "plain", "--defaults", url=server.url)[0] == 0
        code, said = run("stream", "verify", "OTHER", "--checkpoint", kept, url=server.url)
        assert code == 1 and "is a checkpoint of stream LEDGER, not of OTHER" in said
        code, said = run("stream", "checkpoint", "PLAIN", url=server.url)
        assert code == 1 and "stream has no hash chain" in said
        assert run("stream", "rm", "LEDGER", "-f", url=server.url)[0] == 0
        assert run("stream", "add", "LEDGER", *CHAINED, url=server.url)[0] == 0
        code, said = run("stream", "verify", "LEDGER", "--checkpoint", kept, url=server.url)
        assert code == 1 and "another stream than that of the checkpoint" in said
        code, said = run("stream", "verify", "LEDGER", "--json", "--checkpoint", kept, url=server.url)
        assert code == 1 and '"intact": false' in said
    code, said = verify(history, "store")
    assert code == 1 and "another stream than that of the checkpoint" in said
    code, said = run("stream", "verify", "OTHER", "--dir", store, "--checkpoint", kept)
    assert code == 1 and "is a checkpoint of stream LEDGER, not of OTHER" in said


def test_a_checkpoint_that_is_older_than_all_that_is_left() -> None:
    """It could be that of any chain: it is no proof, and not taken for one."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192, chained=True)
    heads = []
    for seq in range(1, 201):
        store.append(seq, seq, b"s", b"", bytes(200))
        commit(store)
        heads.append(store.chain_head)
    store.trim_to(180)
    commit(store)
    upkeep(store)
    store.close()
    for head, holds in ((heads[9], False), (heads[189], True)):
        assert head is not None
        report = check_directory(disk, DIRECTORY, wanted=head)
        assert report.intact and report.start.records > 10
        kept = Checkpoint(
            account="$G",
            stream="S",
            identity=report.uid.hex(),
            records=head.records,
            link=head.link.hex(),
            last_seq=head.last_seq,
            time="",
            server="",
        )
        fields: dict[str, Any] = report_fields(report)
        hold_against(fields, kept)
        assert fields["intact"] == holds
        assert holds or "all that the checkpoint covers was removed" in fields["broken"]["problem"]


def test_anybody_can_check_one_with_the_public_key_alone(tmp_path: Path) -> None:
    with ServerThread(store_dir=str(tmp_path)) as server:
        assert run("stream", "add", "BÜCHER", *CHAINED, url=server.url)[0] == 0
        pay(server.url, "one")
        fields = take(server.url, "BÜCHER")
    assert (fields["stream"], fields["account"], fields["last_seq"]) == ("BÜCHER", "$G", 1)
    signature = base64.urlsafe_b64decode(str(fields.pop("signature")) + "==")
    public = Ed25519PublicKey.from_public_bytes(base64.b32decode(str(fields["server"]))[1:33])
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    public.verify(signature, text)
    with pytest.raises(InvalidSignature):
        public.verify(signature, text.replace(b"$G", b"$H"))


def test_the_server_keeps_its_key(history: Path) -> None:
    before = json.loads((history / "kept.json").read_text())["server"]
    with ServerThread(store_dir=str(history / "store")) as server:
        assert take(server.url)["server"] == before
    key = history / "store" / "jetstream" / "SERVER.nk"
    key.write_text("no key")
    with ServerThread(store_dir=str(history / "store")) as server:
        code, said = run("stream", "checkpoint", "LEDGER", url=server.url)
        assert code == 1 and "the server's key cannot be used" in said
    assert key.read_text() == "no key", "a key is never replaced by another"


def test_words_that_do_not_go_together(history: Path) -> None:
    kept = str(history / "kept.json")
    assert run("stream", "verify", "LEDGER", "--dir", str(history / "store"), "--signer", "N")[0] == 2
    assert run("stream", "checkpoint", "LEDGER", "--check", kept)[0] == 2
    assert run("stream", "checkpoint", "LEDGER", "--signer", "N")[0] == 2
    code, said = run("stream", "checkpoint", "--check", kept)
    assert code == 0 and "Checkpoint of stream LEDGER of account $G at sequence 2, signed by N" in said
