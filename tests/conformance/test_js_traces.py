"""Messages for streams that ask to be traced: the `js` event, what is stored, and what is only tried."""

import json
from typing import Any

import pytest

from support.consumer_oracle import ListeningOracle
from support.servers import ServerPool

API = "$JS.API."
# Name, configuration, what is published before, headers, payload.
CASES: list[tuple[str, dict[str, object], int, str, bytes]] = [
    ("plain", {}, 0, "", b"x"),
    ("too large", {"max_msg_size": 100}, 0, "", b"x" * 200),
    ("repeated", {}, 1, "Nats-Msg-Id: a\r\n", b"x"),
    ("wrong sequence", {}, 1, "Nats-Expected-Last-Sequence: 77\r\n", b"x"),
    ("wrong sequence of subject", {}, 1, "Nats-Expected-Last-Subject-Sequence: 77\r\n", b"x"),
    ("wrong stream", {}, 0, "Nats-Expected-Stream: X\r\n", b"x"),
    ("wrong id", {}, 1, "Nats-Expected-Last-Msg-Id: X\r\n", b"x"),
    ("no life times", {}, 0, "Nats-TTL: 1s\r\n", b"x"),
    ("no roll-up", {}, 0, "Nats-Rollup: sub\r\n", b"x"),
    ("nobody wants it", {"retention": "interest"}, 0, "", b"x"),
    ("moved", {"subject_transform": {"src": "s.*", "dest": "t.$1"}}, 0, "", b"x"),
    ("full", {"max_msgs": 1, "discard": "new"}, 1, "", b"x"),
    ("counted", {"allow_msg_counter": True}, 0, "Nats-Incr: 1\r\n", b""),
    ("not counted", {"allow_msg_counter": True}, 0, "", b""),
]


def call(client: ListeningOracle, subject: str, **body: object) -> Any:
    ((_, answer),) = client.request(API + subject, json.dumps(body).encode() if body else b"", None, 1)
    return json.loads(answer)


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_traced_message_for_a_stream(
    clients: list[ListeningOracle], case: tuple[str, dict[str, object], int, str, bytes], only: bool
) -> None:
    _, config, before, lines, payload = case
    seen = []
    for client in clients:
        call(client, "STREAM.CREATE.S", name="S", subjects=["s.*"], **config)
        for _ in range(before):
            client.request("s.1", b"before", b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n", 1)
        sid = client.subscribe(b"traces")
        mode = "Nats-Trace-Only: true" if only else "A: b"
        client.send("s.1", payload, f"NATS/1.0\r\nNats-Trace-Dest: traces\r\n{mode}\r\n{lines}\r\n".encode())
        events = json.loads(client.take(sid, 1)[0][3])["events"]
        for event in events:
            del event["ts"]
            event.pop("cid", None)
        client.unsubscribe(sid)
        messages = [call(client, "STREAM.MSG.GET.S", seq=seq).get("message") for seq in range(1, before + 2)]
        for message in messages:
            if message is not None:
                del message["time"]
        seen.append((events, messages))
        call(client, "STREAM.DELETE.S")
    assert seen[0] == seen[1]
    assert seen[0][0][1]["type"] == "js"


BATCHED: list[tuple[str, str]] = [
    ("s.1", "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 7\r\n"),
    ("s.1", "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: x\r\n"),
    ("s.1", "Nats-Batch-Id: a\r\n"),
    ("s.1", "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n"),
    ("s.1", "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\nNats-Expected-Last-Sequence: 7\r\n"),
    ("o.1", "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 1\r\n"),
]


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("case", BATCHED, ids=["gap", "bad end", "no number", "whole", "wrong sequence", "not allowed"])
def test_a_traced_message_of_a_batch(clients: list[ListeningOracle], case: tuple[str, str], only: bool) -> None:
    subject, lines = case
    seen = []
    for client in clients:
        call(client, "STREAM.CREATE.S", name="S", subjects=["s.*"], allow_atomic=True)
        call(client, "STREAM.CREATE.O", name="O", subjects=["o.*"])
        sid = client.subscribe(b"traces")
        mode = "Nats-Trace-Only: true" if only else "A: b"
        client.send(subject, b"x", f"NATS/1.0\r\nNats-Trace-Dest: traces\r\n{mode}\r\n{lines}\r\n".encode())
        events = json.loads(client.take(sid, 1)[0][3])["events"]
        client.unsubscribe(sid)
        seen.append((_plain(events), [call(client, f"STREAM.INFO.{name}")["state"]["messages"] for name in "SO"]))
        for name in "SO":
            call(client, f"STREAM.DELETE.{name}")
    assert seen[0] == seen[1]


def _plain(events: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in event.items() if key not in ("ts", "cid")} for event in events]


SHARED = """
accounts {
  A { users [{user: a, password: a}], exports [{stream: "feed.>"}] }
  B { users [{user: b, password: b}], jetstream: enabled, imports [
    {stream: {account: A, subject: "feed.>"}, prefix: "in", allow_trace: true} ] }
}
"""


def test_a_traced_message_for_a_stream_of_another_account(
    server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen = []
    for kind in ("ours", "real"):
        flags = ("-js", "-sd", str(tmp_path_factory.mktemp(kind)))
        with server_pool.prepared(kind, SHARED, flags) as server:
            sender = ListeningOracle(server.port, '"user":"a","pass":"a"')
            owner = ListeningOracle(server.port, '"user":"b","pass":"b"')
            call(owner, "STREAM.CREATE.IN", name="IN", subjects=["in.>"])
            sid = sender.subscribe(b"traces")
            sender.send("feed.x", b"x", b"NATS/1.0\r\nNats-Trace-Dest: traces\r\n\r\n")
            events = _plain(json.loads(sender.take(sid, 1)[0][3])["events"])
            seen.append((events, call(owner, "STREAM.MSG.GET.IN", seq=1)["message"]["hdrs"]))
            sender.close()
            owner.close()
    assert seen[0] == seen[1]
    assert [event["type"] for event in seen[0][0]] == ["in", "se", "js"]
