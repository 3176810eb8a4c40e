"""Consumers and other accounts: who may listen, ask and acknowledge through exports, and who may not without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_oracle import ListeningOracle
from support.servers import ServerPool

MS = 1_000_000
CONFIG = """
accounts {{
  OWNER {{
    jetstream: enabled
    users: [
      {{user: owner, password: x}}
      {{user: reader, password: x, permissions: {{publish: ["s.>"], subscribe: ["_INBOX.>", "dlv.>"]}}}}
    ]
    exports: [
      {{stream: "dlv.>"}}
      {{service: "$JS.FC.>"}}
      {{service: "$JS.ACK.>"}}
      {{service: "$JS.API.CONSUMER.MSG.NEXT.S.C", response: stream}}
    ]
  }}
  GUEST {{
    users: [{{user: guest, password: x}}]
    imports: [
      {{stream: {{account: OWNER, subject: "dlv.>"}}}}
      {{service: {{account: OWNER, subject: "$JS.FC.>"}}}}
      {{service: {{account: OWNER, subject: "$JS.ACK.>"}}}}
      {{service: {{account: OWNER, subject: "$JS.API.CONSUMER.MSG.NEXT.S.C"}}}}
    ]
  }}
  STRANGER {{ users: [{{user: stranger, password: x}}] }}
}}
jetstream {{ store_dir: "{store}" }}
"""
Clients = dict[str, ListeningOracle]


@pytest.fixture(scope="module", params=["ours", "real"])
def clients(
    request: pytest.FixtureRequest, server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clients]:
    config = CONFIG.format(store=tmp_path_factory.mktemp(request.param))
    with server_pool.prepared(request.param, config, ()) as server:
        users = ("owner", "reader", "guest", "stranger")
        found = {user: ListeningOracle(server.port, f'"user":"{user}","pass":"x"') for user in users}
        yield found
        for client in found.values():
            client.close()


def call(client: ListeningOracle, subject: str, **body: Any) -> Any:
    ((_, answer),) = client.request(f"$JS.API.{subject}", json.dumps(body).encode() if body else b"", None, 1)
    found = json.loads(answer)
    assert "error" not in found, found
    return found


@pytest.fixture
def owner(clients: Clients) -> Iterator[ListeningOracle]:
    client = clients["owner"]
    call(client, "STREAM.CREATE.S", name="S", subjects=["s.>"], storage="memory")
    yield client
    call(client, "STREAM.DELETE.S")


def make(owner: ListeningOracle, **config: Any) -> Any:
    body = {"name": "C", "durable_name": "C", "ack_policy": "explicit", **config}
    return call(owner, "CONSUMER.CREATE.S.C", stream_name="S", config=body)


def info(owner: ListeningOracle) -> Any:
    return call(owner, "CONSUMER.INFO.S.C")


def test_a_listener_of_an_importing_account_binds_a_push_consumer(clients: Clients, owner: ListeningOracle) -> None:
    guest = clients["guest"]
    sid = guest.subscribe(b"dlv.x")
    guest.settled()
    assert make(owner, deliver_subject="dlv.x", flow_control=True, idle_heartbeat=100 * MS)["push_bound"]
    owner.request("s.a", b"hello", None, 1)
    ((subject, reply, _, payload),) = guest.take(sid, 1)
    assert (subject, payload) == (b"s.a", b"hello")
    guest.request(reply.decode(), b"+ACK", None, 1)
    assert info(owner)["num_ack_pending"] == 0
    ((_, _, header, _),) = guest.take(sid, 1)
    assert b"100 Idle Heartbeat" in header
    guest.unsubscribe(sid)
    guest.settled()
    assert not info(owner).get("push_bound", False)


def test_an_importing_account_pulls_and_acknowledges(clients: Clients, owner: ListeningOracle) -> None:
    guest = clients["guest"]
    make(owner)
    owner.request("s.a", b"hello", None, 1)
    sid = guest.subscribe(b"in.x")
    guest.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"in.x", b"")
    ((_, reply, _, payload),) = guest.take(sid, 1)
    assert payload == b"hello"
    guest.request(reply.decode(), b"", None, 1)
    assert info(owner)["ack_floor"]["stream_seq"] == 1
    guest.unsubscribe(sid)


def test_an_account_without_imports_reaches_nothing(clients: Clients, owner: ListeningOracle) -> None:
    stranger = clients["stranger"]
    make(owner)
    owner.request("s.a", b"hello", None, 1)
    sid = owner.subscribe(b"mine.x")
    owner.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"mine.x", b"")
    ((_, reply, _, _),) = owner.take(sid, 1)
    for target in (reply.decode(), "$JS.API.CONSUMER.MSG.NEXT.S.C", "$JS.FC.S.C.XXXX"):
        for payload in (b"+ACK", b"-NAK", b"+TERM"):
            ((header, _),) = stranger.request(target, payload, None, 1)
            assert header is not None and b"503" in header
    found = info(owner)
    assert (found["num_ack_pending"], found["num_waiting"], found["ack_floor"]["stream_seq"]) == (1, 0, 0)
    owner.unsubscribe(sid)


def test_a_client_without_permission_cannot_acknowledge_or_pull(clients: Clients, owner: ListeningOracle) -> None:
    reader = clients["reader"]
    make(owner)
    owner.request("s.a", b"hello", None, 1)
    sid = owner.subscribe(b"mine.x")
    owner.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"mine.x", b"")
    ((_, reply, _, _),) = owner.take(sid, 1)
    for payload in (b"+ACK", b"-NAK", b"+TERM"):
        reader.publish(reply, b"", payload)
    reader.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.x", b"5")
    reader.settled()
    found = info(owner)
    assert (found["num_ack_pending"], found["num_waiting"], found["num_redelivered"]) == (1, 0, 0)
    owner.unsubscribe(sid)


@pytest.mark.parametrize("reply", ["$JS.ACK.S.C.1.1.1.1.0", "$JS.API.CONSUMER.MSG.NEXT.S.C"])
def test_a_reply_subject_does_not_make_the_server_acknowledge(
    clients: Clients, owner: ListeningOracle, reply: str
) -> None:
    """A client that may not publish acks must not have them published for it, by naming one as a reply subject."""
    reader = clients["reader"]
    make(owner)
    owner.request("s.a", b"hello", None, 1)
    sid = owner.subscribe(b"mine.x")
    owner.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"mine.x", b"")
    owner.take(sid, 1)
    reader.publish(b"s.b", reply.encode(), b"stored?")
    reader.settled()
    found = info(owner)
    assert (found["num_ack_pending"], found["num_waiting"]) == (1, 0)
    owner.unsubscribe(sid)
