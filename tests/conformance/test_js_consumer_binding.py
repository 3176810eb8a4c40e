"""Who a push consumer delivers to: subscribers of exactly its subject in exactly its group, as with nats-server."""

import json

import pytest

from support.consumer_oracle import ListeningOracle

API = "$JS.API."
SUBSCRIPTIONS = [
    (b"to.x", b""),
    (b"to.x", b"g"),
    (b"to.x", b"other"),
    (b"to.*", b""),
    (b"to.*", b"g"),
    (b">", b""),
]


def call(client: ListeningOracle, subject: str, **body: object) -> dict[str, object]:
    ((_, answer),) = client.request(API + subject, json.dumps(body).encode(), None, 1)
    found: dict[str, object] = json.loads(answer)
    assert "error" not in found, found
    return found


@pytest.mark.parametrize("group", ["", "g"])
@pytest.mark.parametrize(("subject", "queue"), SUBSCRIPTIONS)
def test_bound_to_its_own_subscribers_only(
    clients: list[ListeningOracle], subject: bytes, queue: bytes, group: str
) -> None:
    bound = []
    exact = subject == b"to.x" and queue == group.encode()
    for client in clients:
        call(client, "STREAM.CREATE.S", name="S", subjects=["s"], storage="memory")
        sid = client.subscribe(subject, queue)
        config = {"durable_name": "C", "deliver_subject": "to.x", "deliver_group": group, "ack_policy": "none"}
        call(client, "CONSUMER.DURABLE.CREATE.S.C", stream_name="S", config=config)
        bound.append(call(client, "CONSUMER.INFO.S.C").get("push_bound", False))
        client.request("s", b"x", None, 1)
        if exact:
            assert client.take(sid, 1)[0][0] == b"s"
        delivered = call(client, "CONSUMER.INFO.S.C")["delivered"]
        assert isinstance(delivered, dict) and delivered["stream_seq"] == int(exact)
        client.unsubscribe(sid)
        call(client, "STREAM.DELETE.S")
    assert bound == [exact, exact]


@pytest.mark.parametrize("group", [b"", b"g"])
def test_bound_when_the_right_one_comes_later(clients: list[ListeningOracle], group: bytes) -> None:
    for client in clients:
        call(client, "STREAM.CREATE.S", name="S", subjects=["s"], storage="memory")
        config = {"durable_name": "C", "deliver_subject": "to.x", "deliver_group": group.decode(), "ack_policy": "none"}
        call(client, "CONSUMER.DURABLE.CREATE.S.C", stream_name="S", config=config)
        client.request("s", b"x", None, 1)
        wrong = [client.subscribe(b"to.*"), client.subscribe(b"to.x", b"other")]
        assert "push_bound" not in call(client, "CONSUMER.INFO.S.C")
        right = client.subscribe(b"to.x", group)
        assert client.take(right, 1)[0][0] == b"s"
        for sid in (*wrong, right):
            client.unsubscribe(sid)
        call(client, "STREAM.DELETE.S")
