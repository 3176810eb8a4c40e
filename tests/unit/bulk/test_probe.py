"""Whether a server has bulk calls: one that is busy is not taken for one that has none."""

from __future__ import annotations

import threading

import pytest

from slipstream.bulk import ConnectOptions, connect
from slipstream.bulk import client as bulk_client
from support.scripted_server import INFO, Peer, ScriptedServer

OURS = INFO.replace(b'"server_id":"S"', b'"server_id":"%b","git_commit":"slipstream-1"')


@pytest.mark.parametrize(("info", "offers"), [(OURS % b"P1", True), (INFO.replace(b'"S"', b'"P2"'), False)])
def test_an_answer_behind_the_time_of_grace(info: bytes, offers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    grace_over = threading.Event()
    monkeypatch.setattr(bulk_client, "_PROBE_GRACE_NS", 1)

    def script(peer: Peer) -> None:
        peer.send(info)
        assert peer.read_line().startswith(b"CONNECT ")
        assert peer.read_line() == b"PING"
        peer.send(b"PONG\r\n")
        sid, reply = b"", b""
        while (line := peer.read_line()) != b"PING":
            words = line.split()
            if words[:1] == [b"SUB"]:
                sid = words[-1]
            elif words[:1] == [b"PUB"] and b"BULK.INFO" in words[1]:
                reply = words[2]
        peer.send(b"PONG\r\n")
        if not offers:
            grace_over.wait(5)
        body = b'{"type":"io.nats.jetstream.api.v1.bulk_info_response"}'
        peer.send(b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(body), body))

    with ScriptedServer(script) as server:
        client = connect(ConnectOptions(servers=server.url))
        assert client.is_slipstream is offers
        grace_over.set()
        client.close()
