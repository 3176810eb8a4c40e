"""Backups of either server restored into either: contents, gaps, consumers; and what both say to bad ones."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipstream.jetstream.backup.s2 import S2Reader, S2Writer
from slipstream.version import SERVER_VERSION
from support.backups import BackupClient
from support.jetstream_oracle import normalised
from support.server_process import ServerProcess
from support.servers import ServerPool

MESSAGES = 60


@pytest.fixture
def clients(server_pool: ServerPool, tmp_path: Path) -> Iterator[dict[str, BackupClient]]:
    servers = {
        kind: server_pool.prepared(kind, "", ("-js", "-sd", str(tmp_path / kind))).start() for kind in ("ours", "real")
    }
    found = {kind: BackupClient(server.port) for kind, server in servers.items()}
    yield found
    for kind, server in servers.items():
        found[kind].close()
        server.end()


def fill(client: BackupClient, **config: Any) -> None:
    """A stream with headers, TTLs, gaps at both ends, and a consumer in the middle of its work."""
    client.api("STREAM.CREATE.B", {"name": "B", "subjects": ["b.>"], "allow_msg_ttl": True, **config})
    for number in range(MESSAGES):
        header = b"NATS/1.0\r\nNats-TTL: 1h\r\nK: v\r\n\r\n" if number % 3 == 0 else None
        client.request(f"b.{number % 5}", b"payload %d" % number * 10, header, 1)
    for seq in (1, 5, 6, 30, MESSAGES):
        client.api("STREAM.MSG.DELETE.B", {"seq": seq, "no_erase": seq != 6})
    consumer = {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 5}
    client.api("CONSUMER.DURABLE.CREATE.B.C", {"stream_name": "B", "config": consumer})
    sid = client.subscribe(b"pulled")
    client.publish(b"$JS.API.CONSUMER.MSG.NEXT.B.C", b"pulled", b"10")
    for _, reply, _, _ in client.take(sid, 10)[:4]:
        client.request(reply.decode(), b"+ACK", None, 1)


def contents(client: BackupClient) -> Any:
    state = client.api("STREAM.INFO.B", {"deleted_details": True, "subjects_filter": ">"})["state"]
    state.pop("last_ts")  # of a message that is not in the backup
    consumer = client.api("CONSUMER.INFO.B.C")
    kept = {name: consumer[name] for name in ("name", "num_ack_pending", "num_redelivered", "num_pending")}
    pairs = {
        name: (consumer[name]["consumer_seq"], consumer[name]["stream_seq"]) for name in ("delivered", "ack_floor")
    }
    consumer["config"].pop("metadata")
    messages = [client.api("STREAM.MSG.GET.B", {"seq": seq}).get("message") for seq in range(1, MESSAGES + 2)]
    return state, messages, kept, pairs, consumer["config"]


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize(("origin", "target"), [("ours", "ours"), ("ours", "real"), ("real", "ours")])
def test_a_backup_is_the_stream(clients: dict[str, BackupClient], origin: str, target: str, storage: str) -> None:
    fill(clients[origin], storage=storage)
    before = contents(clients[origin])
    answer, backup, end, replies = clients[origin].back_up("B", chunk_size=1024)
    assert b"204" in end
    assert [reply.rsplit(b".", 2)[1:] for reply in replies[:-1]] == [
        [b"1024", b"%d" % number] for number in range(1, len(replies))
    ]
    assert replies[-1] == b""
    if origin == target:
        clients[target].api("STREAM.DELETE.B")
    restored = clients[target].restore("B", answer, backup, chunk=777)
    assert restored["type"].endswith("stream_create_response") and "error" not in restored
    assert contents(clients[target]) == before
    ack = json.loads(clients[target].request("b.1", b"next", None, 1)[0][1])
    assert ack["seq"] == MESSAGES + 1


def bare(client: BackupClient) -> None:
    client.api("STREAM.CREATE.B", {"name": "B", "subjects": ["b.>"]})


def purged(client: BackupClient) -> None:
    bare(client)
    for _ in range(5):
        client.request("b.1", b"x", None, 1)
    client.api("STREAM.PURGE.B")


def large(client: BackupClient) -> None:
    """More than one of the blocks that nats-server keeps messages in, and names as long as they may be."""
    bare(client)
    for number in range(1_100):
        client.publish(b"b.%d" % (number % 3), b"", bytes([number % 256]) * 8_000)
    client.request("b.1", b"last", None, 1)
    name = "n" * 255
    config = {"durable_name": name, "ack_policy": "explicit"}
    client.api(f"CONSUMER.DURABLE.CREATE.B.{name}", {"stream_name": "B", "config": config})


@pytest.mark.parametrize("made", [bare, purged, large])
@pytest.mark.parametrize("target", ["ours", "real"])
def test_a_backup_of_any_shape(
    clients: dict[str, BackupClient], made: Callable[[BackupClient], None], target: str
) -> None:
    made(clients["ours"])

    def facts(client: BackupClient) -> Any:
        state = client.api("STREAM.INFO.B", {"subjects_filter": ">"})["state"]
        last = client.api("STREAM.MSG.GET.B", {"seq": state["last_seq"]}) if state["messages"] else None
        state.pop("last_ts")  # of a message that may not be in the backup
        return state, last, client.api("CONSUMER.NAMES.B")["consumers"]

    before = facts(clients["ours"])
    answer, backup, end, _ = clients["ours"].back_up("B")
    assert b"204" in end or not end
    clients["ours"].api("STREAM.DELETE.B")
    restored = clients[target].restore("B", answer, backup)
    assert "error" not in restored, restored
    assert facts(clients[target]) == before


def test_the_form_is_one_that_the_version_we_claim_restores(clients: dict[str, BackupClient]) -> None:
    assert SERVER_VERSION < "2.15"
    for storage, opening in (("file", b"meta.inf\0"), ("memory", b"NATSARC1")):
        fill(clients["ours"], storage=storage)
        _, backup, _, _ = clients["ours"].back_up("B")
        assert b"".join(S2Reader().feed(backup)).startswith(opening)
        clients["ours"].api("STREAM.DELETE.B")


def test_a_backup_waits_for_its_subscriber(clients: dict[str, BackupClient]) -> None:
    """The official command line listens with a wildcard to all its answers, and to the backup once it is promised."""
    for client in clients.values():
        fill(client)
        answer, backup, end, _ = client.back_up("B", late=True, chunk_size=1024)
        assert b"204" in end
        client.api("STREAM.DELETE.B")
        assert "error" not in client.restore("B", answer, backup)


def test_answers_to_questions_about_backups(clients: dict[str, BackupClient]) -> None:
    for client in clients.values():
        fill(client)
    config = {"name": "B", "subjects": ["b.>"]}
    questions: list[tuple[str, Any]] = [
        ("STREAM.SNAPSHOT.NONE", {"deliver_subject": "x"}),
        ("STREAM.SNAPSHOT.B", {}),
        ("STREAM.SNAPSHOT.B", {"deliver_subject": ""}),
        ("STREAM.SNAPSHOT.B", {"deliver_subject": "a.*"}),
        ("STREAM.SNAPSHOT.B", {"unknown": 1}),
        ("STREAM.RESTORE.B", {}),
        ("STREAM.RESTORE.B", {"config": config}),
        ("STREAM.RESTORE.N", {"config": config}),
        ("STREAM.RESTORE.N", {"config": {"name": "N", "subjects": ["b.>"], "max_age": 5}}),
        ("STREAM.RESTORE.N", {"config": {"name": "N"}, "state": {"unknown": 1}}),
    ]
    for subject, body in questions:
        answers = [json.dumps(client.api(subject, body)).encode() for client in clients.values()]
        ours, theirs = (normalised((None, answer)) for answer in answers)
        assert ours == theirs, (subject, body)
    for options in ({}, {"no_consumers": True}, {"chunk_size": 100}, {"window_size": 1, "chunk_size": 5000}):
        mine, real = (client.back_up("B", **options) for client in clients.values())
        scrubbed = []
        for answer in (mine[0], real[0]):
            answer["state"].pop("first_ts"), answer["state"].pop("last_ts")
            scrubbed.append(answer)
        assert scrubbed[0] == scrubbed[1]
        assert mine[2][:12] == real[2][:12], options


def test_a_restore_over_subjects_of_another_stream(clients: dict[str, BackupClient]) -> None:
    errors = []
    for client in clients.values():
        fill(client)
        answer, backup, _, _ = client.back_up("B")
        answer["config"]["name"] = "N"
        errors.append(client.restore("N", answer, backup)["error"])
        assert client.api("STREAM.NAMES")["streams"] == ["B"]
    assert errors[0] == errors[1] and errors[0]["err_code"] == 10062


def test_bad_backups(clients: dict[str, BackupClient]) -> None:
    fill(clients["real"])
    answer, backup, _, _ = clients["real"].back_up("B")
    clients["real"].api("STREAM.DELETE.B")
    damaged = bytearray(backup)
    damaged[len(backup) // 2] ^= 0xFF
    cut = S2Writer()
    for bad in (b"nonsense" * 100, backup[:-30], bytes(damaged), cut.write(b"NATSARC1") + cut.close()):
        for kind, client in clients.items():
            restored = client.restore("B", answer, bad)
            assert restored["error"]["err_code"] == 10062, (kind, bad[:20])
    # nats-server leaves what it had restored so far; here nothing is left.
    assert clients["ours"].api("STREAM.INFO.B")["error"]["err_code"] == 10059
    assert "error" not in clients["ours"].restore("B", answer, backup)


def old_backup(directory: Path, stream: str) -> bytes:
    """What nats-server before 2.15 would have sent: a tar of the files of a stream."""
    root = directory / "jetstream" / "$G" / "streams" / stream
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        names = ["meta.inf", "meta.sum"]
        names += sorted(f"msgs/{path.name}" for path in (root / "msgs").iterdir() if path.suffix in (".blk", ".db"))
        names += sorted(str(path.relative_to(root)) for path in (root / "obs").rglob("*") if path.is_file())
        for name in names:
            tar.add(root / name, arcname=name)
    writer = S2Writer()
    return writer.write(out.getvalue()) + writer.close()


def test_an_older_backup(server_pool: ServerPool, tmp_path: Path, clients: dict[str, BackupClient]) -> None:
    server: ServerProcess = server_pool.prepared("real", "", ("-js", "-sd", str(tmp_path / "old"))).start()
    client = BackupClient(server.port)
    fill(client)
    before = contents(client)
    answer = client.api("STREAM.INFO.B")
    answer["config"].pop("metadata")
    client.close()
    server.stop()
    backup = old_backup(tmp_path / "old", "B")
    for target in clients.values():
        restored = target.restore("B", answer, backup)
        assert "error" not in restored, restored
        assert restored["created"] == answer["created"]
    ours = contents(clients["ours"])
    assert ours == before
    clients["ours"].api("STREAM.DELETE.B")
    assert clients["ours"].restore("B", answer, backup[: len(backup) // 2])["error"]["err_code"] == 10062
    other = {**answer, "config": {**answer["config"], "name": "OTHER", "subjects": ["other"]}}
    error = clients["ours"].restore("OTHER", other, backup)["error"]
    assert error["description"] == "restore failed: stream names do not match"
