"""Published advisories about JetStream, each as a test of its class: every field, every name, every entrance."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slipstream.jetstream.backup.s2 import S2Writer
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, STREAM_CONFIG
from slipstream.jetstream.gojson.bind import Field
from slipstream.jetstream.gojson.scalars import GoInt
from slipstream.jetstream.ports import AccountLimits
from slipstream.testing import ServerThread
from support.config_loading import options
from support.consumer_oracle import ListeningOracle
from support.consumer_world import ConsumerWorld
from support.hub_world import HubWorld

NUMBERS = [
    "-1",
    "0",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551616",
    "1e400",
    "0.5",
    "NaN",
    '"1"',
]
NUMBERS += ["-0", "null", "[]", "{}", "true", '""', "1" * 400]
BAD_NAMES = ["../a", "a/b", "a\\b", "..", "a b", "a\tb", "a\r\nb", "a\x00b", "a*", ">", "", "x" * 256, "a.b"]


def _numeric(fields: Sequence[Field]) -> list[str]:
    """Names of the fields that hold a number, on the wire."""
    return [field.name for field in fields if isinstance(field.type, GoInt)]


def _with(body: dict[str, Any], name: str, raw: str) -> bytes:
    """A body with one more member, whose value is written as it is."""
    text = json.dumps({key: value for key, value in body.items() if key != name})
    return f'{text[:-1]}, "{name}": {raw}}}'.encode()


def _answered(world: ConsumerWorld, subject: str, body: bytes) -> dict[str, Any]:
    reply = world.request(f"$JS.API.{subject}", body)
    assert reply is not None, (subject, body)
    return dict(json.loads(reply[1]))


def test_the_fields_are_found() -> None:
    """Control for the next: it is about many fields, the replica count of the advisory among them."""
    assert {"num_replicas", "max_msgs", "max_age", "first_seq"} <= set(_numeric(STREAM_CONFIG.fields))
    assert {"num_replicas", "ack_wait", "max_deliver", "opt_start_seq"} <= set(_numeric(CONSUMER_CONFIG.fields))


@pytest.mark.parametrize("raw", NUMBERS)
def test_any_number_in_any_field_is_answered(raw: str) -> None:
    """Advisory CVE-2022-42708: a replica count ended the process. Every numeric field of every configuration."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    for name in _numeric(STREAM_CONFIG.fields):
        body = {"name": "T", "subjects": ["t.>"], "storage": "memory"}
        answer = _answered(world, "STREAM.CREATE.T", _with(body, name, raw))
        if "error" not in answer:
            assert world.request("t.x", b"x") is not None, "what was accepted works"
            _answered(world, "STREAM.DELETE.T", b"")
        same = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
        _answered(world, "STREAM.UPDATE.S", _with(same, name, raw))
    for name in _numeric(CONSUMER_CONFIG.fields):
        config = _with({"durable_name": "C", "ack_policy": "explicit"}, name, raw).decode()
        body = b'{"stream_name":"S","config":' + config.encode() + b"}"
        answer = _answered(world, "CONSUMER.DURABLE.CREATE.S.C", body)
        if "error" not in answer:
            _answered(world, "CONSUMER.DELETE.S.C", b"")
    assert "error" not in world.api("STREAM.INFO.S")


@pytest.mark.parametrize("raw", NUMBERS)
@pytest.mark.parametrize(
    ("subject", "fields"),
    [
        ("STREAM.MSG.GET.S", ("seq", "batch", "max_bytes")),
        ("STREAM.MSG.DELETE.S", ("seq",)),
        ("STREAM.PURGE.S", ("seq", "keep")),
        ("STREAM.LIST", ("offset",)),
        ("STREAM.NAMES", ("offset",)),
        ("STREAM.INFO.S", ("offset",)),
        ("CONSUMER.LIST.S", ("offset",)),
        ("CONSUMER.NAMES.S", ("offset",)),
        ("STREAM.SNAPSHOT.S", ("chunk_size", "window_size")),
    ],
)
def test_any_number_in_any_request_is_answered(subject: str, fields: tuple[str, ...], raw: str) -> None:
    """Advisory CVE-2022-42708, in requests."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    for name in fields:
        body = {"deliver_subject": "to"} if "SNAPSHOT" in subject else {}
        assert _answered(
            world, subject, b'{"%b": %b}' % (name.encode(), raw.encode()) if not body else _with(body, name, raw)
        )
    assert "error" not in world.api("STREAM.INFO.S")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_are_names_wherever_they_come_from(name: str) -> None:
    """Fix S8: path separators; and advisory 2026-22: bytes that end lines, in names that become subjects and paths."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    asked: list[tuple[str, dict[str, Any]]] = [
        ("STREAM.CREATE.T", {"name": name, "subjects": ["t"]}),
        ("STREAM.UPDATE.S", {"name": name, "subjects": ["t"]}),
        ("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": name}}),
    ]
    if len(name) < 256:
        asked.append(("STREAM.CREATE.U", {"name": "U", "mirror": {"name": name}}))
        asked.append(("STREAM.CREATE.U", {"name": "U", "sources": [{"name": name}]}))
    if name:
        asked.append(("STREAM.RESTORE.R", {"config": {"name": name, "subjects": ["t"]}, "state": {}}))
        asked.append(("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": name, "durable_name": name}}))
        asked.append(("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": name}}))
    for subject, body in asked:
        answer = world.api(subject, body)
        assert "error" in answer, (subject, body)
    assert world.api("STREAM.NAMES")["streams"] == ["S"]
    assert world.api("CONSUMER.NAMES.S")["total"] == 0


def test_the_name_in_the_subject_is_the_name_in_the_body() -> None:
    """Advisory 2026-12: restore, and everything else that carries both."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    world.stream("V", ["v.>"])
    for subject, body in (
        ("STREAM.CREATE.T", {"name": "V", "subjects": ["v.>"]}),
        ("STREAM.UPDATE.S", {"name": "V", "subjects": ["v.>"]}),
        ("STREAM.RESTORE.T", {"config": {"name": "V", "subjects": ["x"]}, "state": {}}),
        ("CONSUMER.CREATE.S", {"stream_name": "V", "config": {}}),
        ("CONSUMER.CREATE.S.C", {"stream_name": "V", "config": {"name": "C"}}),
        ("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "V", "config": {"durable_name": "C"}}),
    ):
        assert world.api(subject, body)["error"]["err_code"] == 10056, subject
    for config, code in (({"durable_name": "D"}, 10017), ({"name": "D", "durable_name": "D"}, 10017)):
        body = {"stream_name": "S", "config": config}
        assert world.api("CONSUMER.CREATE.S.C", body)["error"]["err_code"] == code
    assert world.api("CONSUMER.NAMES.V")["total"] == 0


@pytest.mark.parametrize("subject", ["*", ">", "to.*", "to.>", "a..b", "", " ", "a b", "a\r\nPUB x 0", "\x00"])
def test_a_backup_goes_to_one_subject(subject: str) -> None:
    """Fix S4: a wildcard as target was never confirmed, and what waited for it stayed for ever."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    before = len(world.ports.subscriptions)
    for _ in range(10):
        assert "error" in world.api("STREAM.SNAPSHOT.S", {"deliver_subject": subject})
    world.ports.advance(60 * 10**9)
    assert len(world.ports.subscriptions) == before


@pytest.mark.parametrize("reply", [b"$JS.ACK.S.C.1.1.1.1.0", b"$JS.ACK.x@y", b"$JS.ACK.a.b@MSG"])
def test_nobody_names_an_ack_as_reply(reply: bytes) -> None:
    """Fix S9: what follows `@` in such a reply was taken for the subject, and corrupted lines of other connections."""
    world = HubWorld()
    witness = world.connect().send(b"SUB > 1\r\n")
    sender = world.connect()
    sender.send(b"PUB foo %b 2\r\nhi\r\nPUB foo plain@reply 2\r\nok\r\n" % reply)
    assert witness.take() == b"MSG foo 1 plain@reply 2\r\nok\r\n"
    assert b"-ERR" in sender.take()


@pytest.mark.parametrize(
    "tail", ["@other", ".extra", ".@", "..", ".1", "x", ".9" * 100, "-1", "99999999999999999999999"]
)
def test_acks_that_end_oddly_acknowledge_nothing_or_the_right_thing(tail: str) -> None:
    """Fix S9: whatever follows an ack subject, no other message is acknowledged and nothing breaks."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    world.add("C")
    for n in range(3):
        world.publish(f"s.{n}")
    first, second, third = world.pull(3, "C").messages()
    assert second[2] is not None and third[2] is not None
    world.ports.route(second[2] + tail.encode(), None, None, b"+ACK")
    world.ports.settle()
    pending = set(world.account.streams["S"].interest.consumers["C"].state.acks.pending)  # type: ignore[attr-defined]
    assert {1, 3} <= pending <= {1, 2, 3}
    assert first is not None


def test_a_small_backup_does_not_become_large_in_memory() -> None:
    """Advisory 2026-02, the entrance of restores: what is decompressed is bounded by what the account may store."""
    writer = S2Writer()
    bomb = writer.write(bytes(64 * 1024 * 1024)) + writer.close()
    world = ConsumerWorld(limits=AccountLimits(max_memory=1 << 20))
    asked = {"config": {"name": "S", "subjects": ["s"], "storage": "memory"}, "state": {}}
    subject = world.api("STREAM.RESTORE.S", asked)["deliver_subject"]
    tracemalloc.start()
    try:
        for at in range(0, len(bomb), 100_000):
            world.request(subject, bomb[at : at + 100_000])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * 1024 * 1024, (len(bomb), peak)
    reply = world.request(subject, b"")
    assert reply is not None and "error" in json.loads(reply[1])


ACCOUNTS = """
accounts {
  A { jetstream: enabled, users: [ { user: a, password: p } ] }
  B { jetstream: enabled, users: [ { user: b, password: p } ] }
  SYS { users: [ { user: s, password: p } ] }
}
system_account: SYS
"""
API = [
    ("STREAM.INFO.S", b""),
    ("STREAM.UPDATE.S", b'{"name":"S","subjects":["x"]}'),
    ("STREAM.DELETE.S", b""),
    ("STREAM.PURGE.S", b""),
    ("STREAM.MSG.GET.S", b'{"seq":1}'),
    ("STREAM.MSG.DELETE.S", b'{"seq":1}'),
    ("STREAM.SNAPSHOT.S", b'{"deliver_subject":"to"}'),
    ("STREAM.PEER.REMOVE.S", b'{"peer":"x"}'),
    ("STREAM.LEADER.STEPDOWN.S", b""),
    ("CONSUMER.CREATE.S", b'{"stream_name":"S","config":{}}'),
    ("CONSUMER.DURABLE.CREATE.S.D", b'{"stream_name":"S","config":{"durable_name":"D"}}'),
    ("CONSUMER.INFO.S.C", b""),
    ("CONSUMER.LIST.S", b""),
    ("CONSUMER.NAMES.S", b""),
    ("CONSUMER.DELETE.S.C", b""),
    ("CONSUMER.PAUSE.S.C", b'{"pause_until":"2100-01-01T00:00:00Z"}'),
    ("CONSUMER.RESET.S.C", b'{"seq":1}'),
    ("CONSUMER.UNPIN.S.C", b'{"group":"g"}'),
    ("CONSUMER.LEADER.STEPDOWN.S.C", b""),
    ("CONSUMER.MSG.NEXT.S.C", b"1"),
    ("DIRECT.GET.S", b'{"seq":1}'),
    ("DIRECT.GET.S.s.x", b""),
    ("BULK.READ.S", b"{}"),
    ("BULK.STAGE.S", b'{"txn":"t","part":0,"attempt":0}'),
    ("BULK.COMMIT.S", b'{"txn":"t","batch_id":1,"parts":[]}'),
    ("BULK.ABORT.S", b'{"txn":"t"}'),
    ("ACCOUNT.PURGE.A", b""),
    ("ACCOUNT.STREAM.MOVE.A.S", b"{}"),
    ("ACCOUNT.STREAM.CANCEL_MOVE.A.S", b"{}"),
    ("SERVER.REMOVE", b'{"peer":"x"}'),
    ("META.LEADER.STEPDOWN", b""),
]


@pytest.mark.parametrize("stranger", ["b", "s"])
def test_the_api_of_an_account_is_its_own(tmp_path: Path, stranger: str) -> None:
    """Advisory CVE-2025-30215: every call of the API, by somebody of another account and by the system account.

    Only the purge of an account is the system account's, and nobody else's.
    """
    config = f'port: -1\njetstream {{ store_dir: "{tmp_path}" }}\n' + ACCOUNTS
    with ServerThread(options(config)) as server:
        owner = ListeningOracle(server.port, '"user":"a","pass":"p"')
        other = ListeningOracle(server.port, f'"user":"{stranger}","pass":"p"')
        body = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True}
        owner.request("$JS.API.STREAM.CREATE.S", json.dumps(body).encode(), None, 1)
        owner.request("s.x", b"secret", None, 1)
        consumer = b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}'
        owner.request("$JS.API.CONSUMER.DURABLE.CREATE.S.C", consumer, None, 1)
        ((_, before),) = owner.request("$JS.API.STREAM.INFO.S", b"", None, 1)
        heard = other.subscribe(b">")
        other.settled()
        for subject, payload in API:
            if stranger == "s" and subject == "ACCOUNT.PURGE.A":
                continue
            other.publish(f"$JS.API.{subject}".encode(), b"_INBOX.x.1", payload)
            other.publish(f"$JS.A.API.{subject}".encode(), b"_INBOX.x.1", payload)
        other.publish(b"s.x", b"", b"forged")
        other.publish(b"$JS.ACK.S.C.1.1.1.1.0", b"", b"+ACK")
        other.settled()
        assert not any(b"secret" in frame[3] for frame in other._queues[heard])
        ((_, after),) = owner.request("$JS.API.STREAM.INFO.S", b"", None, 1)
        assert {**json.loads(after), "ts": ""} == {**json.loads(before), "ts": ""}
        ((_, info),) = owner.request("$JS.API.CONSUMER.INFO.S.C", b"", None, 1)
        assert json.loads(info)["num_pending"] == 1 and "paused" not in json.loads(info)
        owner.close()
        other.close()


@pytest.mark.parametrize("kind", ["nats", "websocket"])
@pytest.mark.parametrize("change", ["removed", "password", "account"])
def test_rights_that_are_taken_back_end_the_connection(kind: str, change: str) -> None:
    """Advisory CVE-2020-26892: who is no longer let in is no longer there, on every listener; others stay."""
    before = "accounts { A { users: [ {user: u, password: p}, {user: v, password: p} ] }, B { users: [] } }"
    after = {
        "removed": "accounts { A { users: [ {user: v, password: p} ] }, B { users: [] } }",
        "password": "accounts { A { users: [ {user: u, password: q}, {user: v, password: p} ] }, B { users: [] } }",
        "account": "accounts { A { users: [ {user: v, password: p} ] }, B { users: [ {user: u, password: p} ] } }",
    }[change]
    world = HubWorld(before)
    gone, stays = (world.open(kind=kind).connect(user=user, **{"pass": "p"}) for user in ("u", "v"))
    gone.send(b"SUB > 1\r\n")
    assert not gone.is_closed
    world.hub.reload(options(after))
    stays.send(b"PUB x 0\r\n\r\n")
    assert gone.is_closed and not stays.is_closed
    assert b"MSG x" not in gone.take()
