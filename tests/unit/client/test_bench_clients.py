"""The pieces of bench clients that need no server: subjects, bodies, paces, latencies, statuses; and the loop."""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from time import monotonic_ns

import pytest

from slipstream.client.bench.course import (
    CAME,
    SENT,
    Body,
    ClientPace,
    Subjects,
    answer_of,
    checked_ack,
    flushed,
    status_of,
    waited,
)
from slipstream.client.bench.latencies import Latencies
from slipstream.client.bench.loop import drive
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.options import (
    ClientError,
    ClientTimeout,
    ConnectionLost,
    ReceivedInfo,
    ServerRefused,
    WireOptions,
)
from slipstream.kernels.client.serverdecode import Decoder, Message

MILLISECOND_NS = 1_000_000


def message(payload: bytes, header: bytes = b"") -> Message:
    if header:
        head = b"HMSG s 1 %d %d\r\n" % (len(header), len(header) + len(payload))
        return Decoder().feed(head + header + payload + b"\r\n")[0]
    return Decoder().feed(b"MSG s 1 %d\r\n%b\r\n" % (len(payload), payload))[0]


class TestSubjects:
    def test_one(self) -> None:
        one = Subjects(subject="a")
        assert (one.of(0), one.of(7), one.pattern) == ("a", "a", "a")

    def test_many(self) -> None:
        many = Subjects(subject="a", multi=True, limit=100, offset=98)
        assert [many.of(number) for number in range(4)] == ["a.098", "a.099", "a.000", "a.001"]
        assert many.pattern == "a.*"
        assert Subjects(subject="a", multi=True, offset=5).of(2) == "a.7"
        chosen = {Subjects(subject="a", multi=True, limit=2, randomize=True).of(0) for _ in range(64)}
        assert chosen == {"a.0", "a.1"}


def test_bodies() -> None:
    assert Body(payload=b"xy").frame("a") == b"PUB a 2\r\nxy\r\n"
    assert Body(payload=b"xy").frame("a", reply="r") == b"PUB a r 2\r\nxy\r\n"
    body = Body(payload=b"xy", headers=(("k", "v"),), id_prefix="run")
    frame = body.frame("a", number=3, extra="more: yes\r\n")
    assert frame == b"HPUB a 49 51\r\nNATS/1.0\r\nk: v\r\nNats-Msg-Id: run-3\r\nmore: yes\r\n\r\nxy\r\n"


class TestPaces:
    def test_as_fast_as_possible(self) -> None:
        assert (
            not ClientPace().limited
            and list(ClientPace().pause(10, monotonic_ns())) == []
            and list(ClientPace().begin()) == []
        )

    def test_pauses(self) -> None:
        pace, now_ns = ClientPace(sleep_ns=MILLISECOND_NS, first_pause_ns=7), monotonic_ns()
        (until_ns,) = pace.pause(1, now_ns)
        assert until_ns >= now_ns + MILLISECOND_NS and pace.group == 1 and len(list(pace.begin())) == 1

    def test_rates(self) -> None:
        now_ns = monotonic_ns()
        assert list(ClientPace(rate=100.0).pause(50, now_ns)) == [now_ns + 500 * MILLISECOND_NS]
        assert list(ClientPace(rate=100.0).pause(50, now_ns - 501 * MILLISECOND_NS)) == []
        assert (ClientPace(rate=100.0).group, ClientPace(rate=50_000.0).group) == (1, 100)


class TestLatencies:
    def test_all_are_kept_in_order(self) -> None:
        latencies = Latencies()
        for value in (3, 1, 2):
            latencies.add(value)
        assert latencies.all() == (1, 2, 3) and Latencies().all() == ()

    def test_of_many_there_is_a_sample_with_both_ends(self) -> None:
        latencies = Latencies(100)
        for value in range(10_000):
            latencies.add(value)
        kept = latencies.all()
        assert len(kept) == 100 and (kept[0], kept[-1]) == (0, 9_999)
        assert any(100 < value < 9_900 for value in kept)


class TestAnswers:
    def test_statuses(self) -> None:
        assert status_of(message(b"", b"NATS/1.0 404 No Messages\r\n\r\n")) == 404
        assert status_of(message(b"", b"NATS/1.0\r\na: 404\r\n\r\n")) == status_of(message(b"404")) == 0

    def test_acks(self) -> None:
        assert checked_ack(message(b'{"seq":1}'), "a") == b'{"seq":1}'
        with pytest.raises(ClientError, match="no stream takes messages on 'a'"):
            checked_ack(message(b"", b"NATS/1.0 503\r\n\r\n"), "a")
        refusal = message(b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}')
        with pytest.raises(ClientError, match=r"on 'a' was not stored: maximum messages exceeded \(10077\)"):
            checked_ack(refusal, "a")
        for strange in (b"+OK", b"", b'["error"]'):
            with pytest.raises(ClientError, match="was not stored"):
                checked_ack(message(strange), "a")

    def test_of_the_api(self) -> None:
        assert answer_of(message(b'{"a":1}'), "asking") == {"a": 1}
        with pytest.raises(ClientError, match="asking: JetStream does not answer"):
            answer_of(message(b"", b"NATS/1.0 503\r\n\r\n"), "asking")


class FakeClient:
    """What a peer takes over."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.options = WireOptions()
        self.info = ReceivedInfo()
        self._end = end

    def detach(self) -> tuple[socket.socket, bytes]:
        return self._end, b""


@pytest.fixture
def ends() -> Iterator[tuple[BenchPeer, socket.socket]]:
    """A peer, and the server's end of its connection."""
    here, there = socket.socketpair()
    peer = BenchPeer(FakeClient(here))  # type: ignore[arg-type]
    yield peer, there
    peer.close()
    there.close()


class TestLoop:
    def test_a_course_gets_what_it_waits_for(self, ends: tuple[BenchPeer, socket.socket]) -> None:
        peer, there = ends
        there.sendall(b"PING\r\nMSG a 1 2\r\nhi\r\nPONG\r\n")
        there.setblocking(False)

        def course() -> Generator[int, None, list[bytes]]:
            yield from flushed(peer)
            payloads = [each.payload for each in (yield from waited(peer))]
            peer.put_back([message(b"again")])
            payloads += [each.payload for each in (yield from waited(peer))]
            peer.send(b"x" * 1_000_000)  # more than a socket takes
            assert peer.unsent
            while peer.unsent:
                sent.append(len(received(there)))
                yield monotonic_ns()
            return payloads

        sent: list[int] = []
        assert drive([peer], [course()], 10**9) == [[b"hi", b"again"]]
        rest = b"".join(iter(lambda: received(there), b""))
        assert sum(sent) + len(rest) == len(b"PING\r\nPONG\r\n") + 1_000_000

    def test_who_waits_too_long_ends_it(self, ends: tuple[BenchPeer, socket.socket]) -> None:
        def course() -> Generator[int, None, None]:
            yield CAME

        with pytest.raises(ClientTimeout, match=r"the server sent nothing for 0\.05 s"):
            drive([ends[0]], [course()], 50 * MILLISECOND_NS)

    def test_who_does_not_read_ends_it(self, ends: tuple[BenchPeer, socket.socket]) -> None:
        peer = ends[0]

        def course() -> Generator[int, None, None]:
            peer.send(b"x" * 10_000_000)
            yield SENT

        with pytest.raises(ClientTimeout, match=r"the server took nothing for 0\.05 s"):
            drive([peer], [course()], 50 * MILLISECOND_NS)

    def test_a_pause_is_no_waiting(self, ends: tuple[BenchPeer, socket.socket]) -> None:
        def course() -> Generator[int, None, str]:
            yield monotonic_ns() + 250 * MILLISECOND_NS
            return "rested"

        assert drive([ends[0]], [course()], 50 * MILLISECOND_NS) == ["rested"]

    @pytest.mark.parametrize(
        ("said", "error", "words"),
        [
            (b"-ERR 'Slow Consumer'\r\n", ServerRefused, "Slow Consumer"),
            (b"HTTP/1.1 400\r\n", ConnectionLost, "malformed"),
            (b"", ConnectionLost, "the server closed the connection"),
        ],
    )
    def test_what_ends_a_connection(
        self, ends: tuple[BenchPeer, socket.socket], said: bytes, error: type[ClientError], words: str
    ) -> None:
        def course() -> Generator[int, None, None]:
            while True:
                yield CAME

        ends[1].sendall(said)
        ends[1].shutdown(socket.SHUT_WR)
        with pytest.raises(error, match=words):
            drive([ends[0]], [course()], 10**9)


def received(end: socket.socket) -> bytes:
    """What is there."""
    try:
        return end.recv(1_000_000)
    except BlockingIOError:
        return b""
