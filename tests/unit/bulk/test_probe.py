"""Whether a server has bulk calls: one that is busy is not taken for one that has none."""

from __future__ import annotations

import contextlib
import threading

import pytest

from slipstream.bulk import BulkError, ConnectOptions, connect, probe
from support.scripted_server import INFO, Peer, ScriptedServer

OURS = INFO.replace(b'"server_id":"S"', b'"server_id":"%b","git_commit":"slipstream-1"')


@pytest.mark.parametrize(("info", "offers"), [(OURS % b"P1", True), (INFO.replace(b'"S"', b'"P2"'), False)])
def test_an_answer_behind_the_time_of_grace(info: bytes, offers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    grace_over = threading.Event()
    monkeypatch.setattr(probe, "_GRACE_NS", 1)

    def script(peer: Peer) -> None:
        peer.send(info)
        assert peer.read_line().startswith(b"CONNECT ")
        assert peer.read_line() == b"PING"
        peer.send(b"PONG\r\n")
        inboxes, reply = dict[bytes, bytes](), b""
        while (line := peer.read_line()) != b"PING":
            words = line.split()
            if words[:1] == [b"SUB"]:
                inboxes[words[1]] = words[-1]
            elif words[:1] == [b"PUB"] and b"BULK.INFO" in words[1]:
                reply = words[2]
        peer.send(b"PONG\r\n")
        if not offers:
            grace_over.wait(5)
        body = b'{"type":"io.nats.jetstream.api.v1.bulk_info_response"}'
        peer.send(b"MSG %b %b %d\r\n%b\r\n" % (reply, inboxes[reply], len(body), body))

    with ScriptedServer(script) as server:
        client = connect(ConnectOptions(servers=server.url))
        assert client.is_slipstream is offers
        grace_over.set()
        client.close()


SILENT, ERROR, INFO_ANSWER = b"", b'{"error":{"code":503,"err_code":10008}}', b'{"memory":0}'
BULK_ANSWER = b'{"type":"io.nats.jetstream.api.v1.bulk_info_response"}'


@pytest.mark.parametrize(
    ("name", "bulk", "other", "offers"),
    [
        (b"Q1", [SILENT, BULK_ANSWER], [SILENT], True),  # a leader was dying
        (b"Q2", [SILENT, BULK_ANSWER], [INFO_ANSWER], True),  # ... and another one leads already
        (b"Q3", [SILENT, SILENT], [INFO_ANSWER, INFO_ANSWER], False),  # a leaf node before nats-server
        (b"Q4", [SILENT] * 9, [SILENT] * 9, None),
        (b"Q5", [SILENT] * 9, [ERROR] * 9, None),  # a cluster without a majority
    ],
)
def test_silence(
    name: bytes, bulk: list[bytes], other: list[bytes], offers: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one of ours it says something only where another call is answered."""
    monkeypatch.setattr(probe, "_BUSY_NS", 50_000_000)

    def script(peer: Peer) -> None:
        peer.send(OURS % name)
        inboxes: dict[bytes, bytes] = {}
        with contextlib.suppress(OSError, AssertionError):
            while words := peer.read_line().split():
                if words[0] == b"PING":
                    peer.send(b"PONG\r\n")
                elif words[0] == b"SUB":
                    inboxes[words[1]] = words[-1]
                elif words[0] == b"PUB":
                    peer.read_line()  # the payload, which is empty
                    answers = bulk if b"BULK.INFO" in words[1] else other
                    if body := answers.pop(0) if answers else b"":
                        reply = words[2]
                        peer.send(b"MSG %b %b %d\r\n%b\r\n" % (reply, inboxes[reply], len(body), body))

    with ScriptedServer(script) as server, connect(ConnectOptions(servers=server.url, timeout=0.4)) as client:
        if offers is None:
            with pytest.raises(BulkError, match="does not answer") as raised:
                _ = client.is_slipstream
            assert raised.value.retryable
        else:
            assert client.is_slipstream is offers
