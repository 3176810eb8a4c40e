"""Crowds that never log in: what each of them costs, that others are served meanwhile, and that all go in time."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest

from slipstream.protocol.limits import PRE_AUTH_BYTES
from slipstream.units import KIB
from support.abuse import Witness, allow_open_files, peak_bytes, resident_bytes
from support.servers import Launcher
from tlsfiles import Authority

SHORT, LONG = 500, 10_000
# What the process may grow by for reasons of its own: modules loaded late, arenas of the allocator.
SLACK_BYTES = 2_000 * KIB
# A TLS handshake under way has buffers of OpenSSL's own, about 50 KiB in all; they cannot be made smaller.
TLS_BYTES = 32 * KIB


def _config(authority: Authority, *, timeout_s: float) -> str:
    block = f"{{ {authority.issue('localhost').block}, timeout: {timeout_s} }}"
    return f"""
    http: "127.0.0.1:-1"
    authorization {{ user: a, password: b, timeout: {timeout_s} }}
    tls: {block}
    allow_non_tls: true
    websocket {{ host: "127.0.0.1", port: -1, no_tls: true, handshake_timeout: "{timeout_s}s" }}
    """


def _hello(authority: Authority) -> bytes:
    """The first message of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


KINDS = ["silent", "half a CONNECT", "half a TLS record", "half a TLS handshake", "half a request"]


def _limit(kind: str) -> int:
    return PRE_AUTH_BYTES + (TLS_BYTES if kind == "half a TLS handshake" else 0)


def _crowd(
    ours: Launcher, authority: Authority, kind: str, count: int, *, timeout_s: float, patient: bool = True
) -> int:
    """Bytes of memory each of many half-open connections costs; the patient wait until the server closes them."""
    server = ours.fresh(_config(authority, timeout_s=timeout_s))
    hello = _hello(authority)
    data = {
        "silent": b"",
        "half a CONNECT": b'CONNECT {"user":"a","name":"' + b"x" * 4000,
        "half a TLS record": hello[:-1],
        "half a TLS handshake": hello,
        "half a request": b"GET / HTTP/1.1\r\nCookie: " + b"x" * 4000,
    }[kind]
    port = server.websocket_port if kind == "half a request" else server.port
    with Witness(server, user="a", **{"pass": "b"}) as witness, contextlib.ExitStack() as held:
        _hold(held, port, data, 20)
        witness.round_trip()
        before = resident_bytes(server)
        _hold(held, port, data, count)
        if not patient:
            _wait_for_steady_memory(witness)
            held.close()
        witness.is_alone()
        grown = peak_bytes(server) - before
    return max(0, grown - SLACK_BYTES) // count


def _wait_for_steady_memory(witness: Witness) -> None:
    """Until everything that came was looked at."""
    steady, last = 0, 0
    while steady < 50:
        witness.round_trip()
        now = resident_bytes(witness.server)
        steady, last = (steady + 1 if now == last else 0), now


def _hold(held: contextlib.ExitStack, port: int, data: bytes, count: int) -> None:
    for _ in range(count):
        one = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        if data:
            one.sendall(data)


@pytest.mark.parametrize("kind", KINDS)
def test_half_open_connections_cost_little_and_go(ours: Launcher, authority: Authority, kind: str) -> None:
    """CVE-2026-33219, advisory 2026-25: 10,000 half-open connections, here 500, within the limit for each."""
    assert _crowd(ours, authority, kind, SHORT, timeout_s=1.0) <= _limit(kind)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_half_open_connections(ours: Launcher, authority: Authority, kind: str) -> None:
    """CVE-2026-33219: the whole crowd."""
    allow_open_files(2 * LONG + 1000)
    assert _crowd(ours, authority, kind, LONG, timeout_s=59, patient=False) <= _limit(kind)
