"""Calls that are asked for again: in a cluster whoever worked on one may be gone."""

from __future__ import annotations

import contextlib

import pytest

from slipstream.bulk import BulkError, ConnectOptions, connect
from slipstream.bulk import link as bulk_link
from support.scripted_server import INFO, Peer, ScriptedServer

ANSWER = b'{"count":3}'
REFUSAL = b'{"error":{"code":404,"err_code":30011,"description":"staged part not found: x"}}'


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([ANSWER], 3),
        ([b"", b"", ANSWER], 3),
        ([b"", REFUSAL], "staged part not found"),
        ([b""] * 99, "did not answer in time"),
    ],
)
def test_a_call_is_repeated_until_it_is_answered(
    answers: list[bytes], outcome: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_link, "_ASK_AGAIN_NS", 20_000_000)
    asked: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.send(INFO)
        inboxes: dict[bytes, bytes] = {}
        with contextlib.suppress(OSError):
            while words := peer.read_line().split():
                if words[0] == b"PING":
                    peer.send(b"PONG\r\n")
                elif words[0] == b"SUB":
                    inboxes[words[1]] = words[-1]
                elif words[0] == b"PUB":
                    asked.append(peer.read_line())
                    body = answers[len(asked) - 1]
                    if body:
                        peer.send(b"MSG %b %b %d\r\n%b\r\n" % (words[2], inboxes[words[2]], len(body), body))

    with ScriptedServer(script) as server, connect(ConnectOptions(servers=server.url)) as client:
        if isinstance(outcome, int):
            assert client.link.request_again("BULK.COMMIT.S", b"{}", timeout_ns=5_000_000_000)["count"] == outcome
        else:
            with pytest.raises(BulkError, match=outcome):
                client.link.request_again("BULK.COMMIT.S", b"{}", timeout_ns=300_000_000)
    assert set(asked) == {b"{}"} and (len(asked) > 1 or answers == [ANSWER])
