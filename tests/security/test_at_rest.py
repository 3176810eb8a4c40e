"""A server with encryption at rest: what is on its disk tells nobody anything, and a wrong key changes nothing."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

import slipstream
from slipstream.cli.main import cli
from slipstream.jetstream.store.checkpoints import read_checkpoint
from support.server_process import ServerProcess, ServerStartError
from support.servers import Launcher

KEY = "hush-main-key-of-this-server-0123"
WORDS = ("plainorders", "PLAINSTREAM", "plainconsumer", "plainpayload", "plainheader", "plainbucket", "plainkey")
WORDS += ("plainvalue", "plainobjects", "plainobject", "plaincontent", "PLAINACCOUNT", "plainnote", KEY)
ACCOUNTS = "accounts { PLAINACCOUNT { jetstream: enabled, users: [{ user: u, password: p }] } }"


def config(store: Path, encryption: str, more: str = ACCOUNTS) -> str:
    return f'jetstream {{ store_dir: "{store}", {encryption} }}\n{more}'


def url_of(server: ServerProcess) -> str:
    return f"nats://u:p@127.0.0.1:{server.port}"


def fill(server: ServerProcess) -> None:
    """Something of everything that a server keeps."""
    with slipstream.connect(url_of(server)) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("PLAINSTREAM", subjects=["plainorders.>"], description="plainnote")
        for number in range(300):
            jetstream.publish(f"plainorders.{number % 5}", b"plainpayload" * 30, headers={"plainheader": "x"})
        consumer = stream.create_consumer("plainconsumer")
        for message in consumer.fetch(20, timeout=5):
            message.ack(wait=True)
        bucket = jetstream.create_kv("plainbucket", history=5)
        for number in range(50):
            bucket[f"plainkey.{number % 9}"] = b"plainvalue"
        jetstream.create_objects("plainobjects").put("plainobject", b"plaincontent" * 30_000)


def is_filled(server: ServerProcess) -> bool:
    with slipstream.connect(url_of(server)) as client:
        jetstream = client.jetstream()
        messages = [message.data for message in jetstream.stream("PLAINSTREAM").read()]
        assert jetstream.kv("plainbucket").get("plainkey.3").value == b"plainvalue"
        assert jetstream.objects("plainobjects").get("plainobject") == b"plaincontent" * 30_000
        return messages == [b"plainpayload" * 30] * 300


def files(root: Path) -> dict[str, bytes]:
    return {
        str(Path(at, name).relative_to(root)): Path(at, name).read_bytes()
        for at, _, names in os.walk(root)
        for name in names
    }


def readable(root: Path) -> list[tuple[str, str]]:
    """Words that somebody finds in a file or its name."""
    return [
        (path, word)
        for path, content in files(root).items()
        for word in WORDS
        if word in path or word.encode() in content
    ]


@pytest.mark.parametrize("cipher", ["aes", "chacha"])
def test_nothing_readable_and_nothing_lost(ours: Launcher, tmp_path: Path, cipher: str) -> None:
    encryption = f'key: "{KEY}", cipher: {cipher}'
    server = ours.fresh(config(tmp_path, encryption))
    fill(server)
    server.kill()
    assert readable(tmp_path) == []
    server.start()
    assert is_filled(server)
    server.stop()
    assert readable(tmp_path) == []
    assert not [line for line in server.log_lines for word in WORDS if word in line]
    again = ours.fresh(config(tmp_path, encryption))
    assert is_filled(again)


def test_the_search_finds_what_is_plain(ours: Launcher, tmp_path: Path) -> None:
    """The control."""
    server = ours.fresh(config(tmp_path, "max_mem: 1G"))
    fill(server)
    server.stop()
    assert {word for _, word in readable(tmp_path)} >= {"plainorders", "plainpayload", "plaincontent", "PLAINACCOUNT"}


@pytest.mark.parametrize(
    ("encryption", "said"),
    [
        ('key: "another-key-than-the-one-before-x"', "are encrypted with another key"),
        ("max_mem: 1G", "are encrypted and the configuration has no key"),
        ('key_file: "/nowhere/at/all"', "the encryption key cannot be read"),
        ('key_command: "false"', "the key command ended with status 1"),
        ('key_command: "/nowhere/at/all"', "the key command cannot be run"),
        ('key_command: "true"', "the key command gives no encryption key"),
    ],
)
def test_a_wrong_key_is_said_and_changes_nothing(ours: Launcher, tmp_path: Path, encryption: str, said: str) -> None:
    server = ours.fresh(config(tmp_path, f'key: "{KEY}"'))
    fill(server)
    server.stop()
    before = files(tmp_path)
    with pytest.raises(ServerStartError, match=said) as refused:
        ours.fresh(config(tmp_path, encryption))
    assert KEY not in str(refused.value)
    assert files(tmp_path) == before
    assert is_filled(ours.fresh(config(tmp_path, f'key: "{KEY}"')))


@pytest.mark.parametrize("cipher", ["aes", "chacha"])
def test_the_key_is_changed(ours: Launcher, tmp_path: Path, cipher: str) -> None:
    server = ours.fresh(config(tmp_path, f'key: "{KEY}", cipher: aes'))
    fill(server)
    server.stop()
    another = 'key: "the-key-that-comes-after-the-first"'
    with pytest.raises(ServerStartError, match="another key"):
        ours.fresh(config(tmp_path, f'{another}, prev_key: "neither-this-nor-that"'))
    server = ours.fresh(config(tmp_path, f'{another}, prev_key: "{KEY}", cipher: {cipher}'))
    assert is_filled(server)
    server.kill()
    assert readable(tmp_path) == []
    server = ours.fresh(config(tmp_path, f"{another}, cipher: {cipher}"))
    assert is_filled(server)
    server.stop()
    with pytest.raises(ServerStartError, match="another key"):
        ours.fresh(config(tmp_path, f'key: "{KEY}"'))


def test_the_key_is_changed_while_the_server_runs(ours: Launcher, tmp_path: Path) -> None:
    """Clients stay, nothing is lost, the key before opens nothing any more; one that does not fit changes nothing."""
    first, second = f'key: "{KEY}", cipher: aes', 'key: "the-key-that-comes-after-the-first", cipher: aes'
    server = ours.fresh(config(tmp_path, first))
    fill(server)
    with slipstream.connect(url_of(server)) as client:
        stream = client.jetstream().stream("PLAINSTREAM")
        for wrong in (f'{second}, prev_key: "neither-this-nor-that"', second, ""):
            server.reload(config(tmp_path, wrong))
            assert "the encryption key of JetStream stays" in server.log_lines[-1]
            assert stream.info()["state"]["messages"] == 300
        server.reload(config(tmp_path, f'{second}, prev_key: "{KEY}"'))
        assert any("Changed the encryption key of" in line for line in server.log_lines)
        client.jetstream().publish("plainorders.5", b"plainpayload" * 30)
        assert stream.info()["state"]["messages"] == 301
        consumer = stream.consumer("plainconsumer")
        assert len(consumer.fetch(5, timeout=5)) == 5
        starts = sum("to start JetStream" in line for line in server.log_lines)
        server.reload(config(tmp_path, second))
        assert sum("to start JetStream" in line for line in server.log_lines) == starts == 2, "nothing was to be done"
        stream.delete_message(301)
    assert is_filled(server)
    server.kill()
    assert readable(tmp_path) == []
    with pytest.raises(ServerStartError, match="another key"):
        ours.fresh(config(tmp_path, first))
    assert is_filled(ours.fresh(config(tmp_path, second)))


def test_it_is_turned_on_by_a_reload(ours: Launcher, tmp_path: Path) -> None:
    server = ours.fresh(config(tmp_path, "max_mem: 1G") + "\nhttp: -1")
    fill(server)
    server.reload(config(tmp_path, f'max_mem: 1G, key: "{KEY}"') + "\nhttp: -1")
    until_done(server)
    assert readable(tmp_path) == []
    assert is_filled(server)


def test_the_key_that_signs_checkpoints(ours: Launcher, tmp_path: Path) -> None:
    """It is sealed, told to nobody, and the same after another main key."""

    def signer(server: ServerProcess) -> str:
        with slipstream.connect(url_of(server)) as client:
            answer = json.loads(client.request("$JS.API.STREAM.CHECKPOINT.LEDGER", timeout=10).data)
        found = read_checkpoint(json.dumps(answer["checkpoint"]).encode())
        assert (found.account, found.stream, found.last_seq) == ("PLAINACCOUNT", "LEDGER", 1)
        return found.server

    server = ours.fresh(config(tmp_path, f'key: "{KEY}"') + "\ndebug: true, trace: true")
    with slipstream.connect(url_of(server)) as client:
        metadata = {"slipstream.chain": "blake2b"}
        client.jetstream().create_stream("LEDGER", subjects=["ledger"], metadata=metadata)
        client.jetstream().publish("ledger", b"plainpayload")
    public = signer(server)
    server.stop()
    another = 'key: "the-key-that-comes-after-the-first"'
    again = ours.fresh(config(tmp_path, f'{another}, prev_key: "{KEY}"') + "\ndebug: true, trace: true")
    assert signer(again) == public
    again.stop()
    seeds = re.compile(rb"SN[A-Z2-7]{56}")
    assert not [path for path, content in files(tmp_path).items() if seeds.search(content)]
    assert not [line for line in (*server.log_lines, *again.log_lines) if seeds.search(line.encode())]
    looked = CliRunner().invoke(cli, ["stream", "verify", "LEDGER", "--dir", str(tmp_path)])
    assert looked.exit_code == 1 and "are encrypted: give the key" in " ".join(looked.output.split())
    before = files(tmp_path)
    secret = tmp_path.parent / "secret"
    for key, said in (("the-key-that-comes-after-the-first", "is intact up to sequence 1"), (KEY, "with another key")):
        secret.write_text(key)
        looked = CliRunner().invoke(
            cli, ["stream", "verify", "LEDGER", "--dir", str(tmp_path), "--key-file", str(secret)]
        )
        assert said in " ".join(looked.output.split())
        by_name = {"NATS_JS_KEY": key}
        looked = CliRunner(env=by_name).invoke(cli, ["stream", "verify", "LEDGER", "--dir", str(tmp_path)])
        assert said in " ".join(looked.output.split())
    assert files(tmp_path) == before
    (path,) = tmp_path.rglob("SERVER.nk")
    assert path.stat().st_mode & 0o777 == 0o600


def until_done(server: ServerProcess) -> None:
    """Until the server says that all files are in their new form."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with urlopen(f"http://127.0.0.1:{server.monitor_port}/jsz", timeout=10) as answer:
            found = json.loads(answer.read())["at_rest"]
        if found["state"] == "done":
            assert found["left"] == 0 < found["files"]
            return
        time.sleep(0.1)
    raise AssertionError(found)


@pytest.mark.parametrize("killed", [True, pytest.param(False, marks=pytest.mark.long)])
def test_it_is_turned_on_and_off_in_place(ours: Launcher, tmp_path: Path, killed: bool) -> None:
    """Nothing is lost, what comes meanwhile is kept, and what is said to be done is done."""
    http = "\nhttp: -1"
    server = ours.fresh(config(tmp_path, "max_mem: 1G"))
    fill(server)
    server.stop()
    encryption = f'key: "{KEY}", cipher: aes'
    server = ours.fresh(config(tmp_path, encryption) + http)
    assert is_filled(server)
    if killed:
        server.kill()
        server.start()
    until_done(server)
    assert readable(tmp_path) == []
    assert is_filled(server)
    server.stop()
    assert readable(tmp_path) == []
    before = files(tmp_path)
    for wrong, said in (("max_mem: 1G", "has no key"), ('decrypt: true, prev_key: "not-this-one"', "another key")):
        with pytest.raises(ServerStartError, match=said):
            ours.fresh(config(tmp_path, wrong))
    assert files(tmp_path) == before
    server = ours.fresh(config(tmp_path, f'decrypt: true, prev_key: "{KEY}"') + http)
    assert is_filled(server)
    until_done(server)
    server.stop()
    assert not list(tmp_path.rglob("ENCRYPTION"))
    assert is_filled(ours.fresh(config(tmp_path, "max_mem: 1G")))


def test_the_key_from_elsewhere(ours: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, a command and a variable give the same key as the configuration itself."""
    secret = tmp_path / "secret"
    secret.write_text(KEY + "\n")
    store = tmp_path / "store"
    server = ours.fresh(config(store, f'key: "{KEY}"'))
    fill(server)
    server.stop()
    monkeypatch.setenv("AT_REST_KEY", KEY)
    for encryption in (f'key_file: "{secret}"', f'key_command: "cat {secret}"', "key: $AT_REST_KEY"):
        server = ours.fresh(config(store, encryption))
        assert is_filled(server)
        server.stop()


def test_what_is_erased_is_gone_for_who_has_the_key(ours: Launcher, tmp_path: Path) -> None:
    server = ours.fresh(config(tmp_path, f'key: "{KEY}"'))
    with slipstream.connect(url_of(server)) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("PLAINSTREAM", subjects=["plainorders"])
        for number in range(20):
            jetstream.publish("plainorders", b"secret of %d." % number)
        stream.delete_message(5)
    server.kill()
    from slipstream.jetstream.store.file.disk.real_disk import RealDisk
    from slipstream.jetstream.store.sealed.disk import SealedDisk
    from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey

    disk = SealedDisk(RealDisk(), KeyRing(MainKey(KEY.encode(), AtRestCipher.CHACHA), None, os.urandom))
    segments = [str(path) for path in tmp_path.rglob("*.seg")]
    opened = b"".join(disk.read(path, 0, disk.size(path)) for path in segments)
    assert b"secret of 5." in opened and b"secret of 4." not in opened
