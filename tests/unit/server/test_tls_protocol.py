"""The rate limit of handshakes, and what a handshake leaves in a peer."""

from __future__ import annotations

from slipstream.auth.tls_map import PeerCertificate
from slipstream.server.clients.tls_protocol import ConnectionRate, SecurePeer
from slipstream.server.sockets.tls_layer import TlsFacts
from slipstream.units import MILLISECOND_NS, SECOND_NS


def test_without_a_limit_all_may_begin() -> None:
    rate = ConnectionRate(0)
    assert all(rate.allows(now_ns) for now_ns in range(1000))
    assert rate.take_refused() == 0


def test_so_many_a_second() -> None:
    rate = ConnectionRate(3)
    start = 10 * SECOND_NS
    assert [rate.allows(start + step * MILLISECOND_NS) for step in range(5)] == [True, True, True, False, False]
    assert not rate.allows(start + SECOND_NS - 1)
    assert rate.take_refused() == 3
    assert rate.take_refused() == 0
    assert [rate.allows(start + SECOND_NS) for _ in range(4)] == [True, True, True, False]


def test_the_window_begins_with_the_first_handshake() -> None:
    rate = ConnectionRate(1)
    assert rate.allows(0)
    assert rate.allows(5 * SECOND_NS)
    assert not rate.allows(6 * SECOND_NS - 1)
    assert rate.allows(6 * SECOND_NS)


def test_peer_learns() -> None:
    peer = SecurePeer("192.0.2.1", 1234)
    assert (peer.kind, peer.tls, peer.tls_first, peer.certificate, peer.cookies) == ("nats", None, False, None, None)
    names = PeerCertificate(emails=("me@example.com",))
    facts = TlsFacts("1.3", "TLS_AES_128_GCM_SHA256", (), names)
    peer.learn(facts)
    assert (peer.tls, peer.certificate) == (facts, names)
