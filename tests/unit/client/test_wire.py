"""The synchronous client against a scripted server: what it sends, what it makes of answers, faults and silence."""

import socket
import threading

import pytest

from slipstream.client.wire import (
    ClientError,
    ClientTimeout,
    ConnectionLost,
    NoResponders,
    ServerRefused,
    WireClient,
    WireOptions,
)
from support.scripted_server import INFO, TIMEOUT_S, Peer, ScriptedServer

MILLISECOND_NS = 1_000_000


def test_greeting_reads_info_and_sends_connect() -> None:
    seen = []

    def script(peer: Peer) -> None:
        seen.append(peer.greet())

    with ScriptedServer(script) as server, WireClient(server.url, WireOptions(token="t")) as client:
        assert client.info.version == "2.14.5"
    assert b'"auth_token":"t"' in seen[0]


def test_operations_are_the_bytes_of_the_protocol() -> None:
    lines = []

    def script(peer: Peer) -> None:
        peer.greet()
        while (line := peer.read_line()) != b"PING":
            lines.append(line)
        peer.send(b"PONG\r\n")

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        assert client.subscribe("a.*") == 1
        assert client.subscribe("b", queue="q") == 2
        assert client.subscribe_many(["c", "d"]) == range(3, 5)
        client.unsubscribe(1)
        client.unsubscribe(2, after=7)
        client.publish("a.b", b"hi")
        client.publish("a.b", b"hi", reply="r")
        client.publish("a.b", b"hi", header=b"NATS/1.0\r\nk: v\r\n\r\n")
        client.flush()
    assert lines == [
        b"SUB a.* 1",
        b"SUB b q 2",
        b"SUB c 3",
        b"SUB d 4",
        b"UNSUB 1",
        b"UNSUB 2 7",
        b"PUB a.b 2",
        b"hi",
        b"PUB a.b r 2",
        b"hi",
        b"HPUB a.b 18 20",
        b"NATS/1.0",
        b"k: v",
        b"",
        b"hi",
    ]


def test_messages_come_once_and_in_order_whatever_call_received_them() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.send(b"MSG a 1 1\r\n1\r\nMSG a 1 r 1\r\n2\r\n")
        assert peer.read_line() == b"PING"
        peer.send(b"PONG\r\nHMSG a 1 12 13\r\nNATS/1.0\r\n\r\n3\r\n")
        peer.read_line()

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        client.flush()
        first = client.next_message()
        rest = client.next_messages()
        while len(rest) < 2:
            rest += client.next_messages()
    assert (first.subject, first.sid, first.reply, first.payload) == ("a", 1, "", b"1")
    assert [(m.reply, m.header, m.payload) for m in rest] == [("r", b"", b"2"), ("", b"NATS/1.0\r\n\r\n", b"3")]


def test_ping_is_answered_between_frames() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.send(b"PING\r\nMSG a 1 0\r\n\r\n")
        assert peer.read_line() == b"PONG"

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        client.next_message()


def test_ping_during_a_long_send_does_not_cut_a_frame() -> None:
    frame = b"PUB a 4000000\r\n" + b"x" * 4_000_000 + b"\r\n"  # more than the sockets hold

    def script(peer: Peer) -> None:
        peer.greet()
        peer.send(b"PING\r\n")
        assert peer.read_line() + b"\r\n" + peer.read_line() + b"\r\n" == frame
        assert {peer.read_line(), peer.read_line()} == {b"PING", b"PONG"}
        peer.send(b"PONG\r\n")

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        client.send(frame)
        client.flush()


def test_request_gives_its_reply_and_keeps_other_messages() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        inbox = peer.read_line().split()[1].decode()
        reply = peer.read_line().split()[2].decode()
        assert reply.startswith(inbox.removesuffix("*"))
        assert peer.read_line() == b"question"
        late = reply.rpartition(".")[0] + ".0"
        peer.send(f"MSG {late} 1 4\r\nlate\r\nMSG other 7 0\r\n\r\nMSG {reply} 1 6\r\nanswer\r\n".encode())
        peer.read_line()

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        assert client.request("service", b"question").payload == b"answer"
        assert client.next_message().subject == "other"


def test_request_without_responders() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_line()
        reply = peer.read_line().split()[2]
        peer.send(b"HMSG %b 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % reply)
        peer.read_line()

    with (
        ScriptedServer(script) as server,
        WireClient(server.url) as client,
        pytest.raises(NoResponders, match="no responders on 'service'"),
    ):
        client.request("service")


def test_refused_credentials_are_the_servers_words() -> None:
    def script(peer: Peer) -> None:
        peer.send(INFO)
        peer.read_line()
        peer.send(b"-ERR 'Authorization Violation'\r\n")

    with ScriptedServer(script) as server, pytest.raises(ServerRefused) as caught:
        WireClient(server.url)
    assert caught.value.text == "Authorization Violation"


def test_objection_is_raised_by_flush_and_the_connection_lives_on() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_line()
        assert peer.read_line() == b"PING"
        peer.send(b"-ERR 'Permissions Violation for Subscription to \"x\"'\r\nPONG\r\n")
        assert peer.read_line() == b"PING"
        peer.send(b"PONG\r\n")

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        client.subscribe("x")
        with pytest.raises(ServerRefused, match="Permissions Violation"):
            client.flush()
        client.flush()


def test_silence_ends_with_a_timeout() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        assert (peer.read_line(), peer.read_line()) == (b"PING", b"")

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        with pytest.raises(ClientTimeout):
            client.next_message(timeout_ns=MILLISECOND_NS)
        with pytest.raises(ClientTimeout):
            client.flush(timeout_ns=MILLISECOND_NS)


def test_pong_of_a_given_up_flush_does_not_end_the_next() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        assert (peer.read_line(), peer.read_line(), peer.read_line()) == (b"PING", b"PUB a 0", b"")
        peer.send(b"PONG\r\n")
        assert peer.read_line() == b"PING"
        peer.send(b"MSG a 1 0\r\n\r\nPONG\r\n")
        peer.read_line()

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        with pytest.raises(ClientTimeout):
            client.flush(timeout_ns=MILLISECOND_NS)
        client.publish("a")
        client.flush()
        client.next_message(timeout_ns=1)


def test_server_that_does_not_read_is_a_timeout() -> None:
    given_up = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        assert given_up.wait(TIMEOUT_S)

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        frame = b"PUB a 1000000\r\n" + bytes(1_000_000) + b"\r\n"
        with pytest.raises(ClientTimeout):
            for _ in range(100):  # more than the sockets hold
                client.send(frame, timeout_ns=10 * MILLISECOND_NS)
        given_up.set()


@pytest.mark.parametrize(
    ("first", "error", "text"),
    [
        (b"", ConnectionLost, "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n", ConnectionLost, "malformed"),
        (b"INFO not json\r\n", ConnectionLost, "INFO is not usable"),
        (b"-ERR 'maximum connections exceeded'\r\n", ServerRefused, "maximum connections exceeded"),
    ],
)
def test_bad_greeting(first: bytes, error: type[ClientError], text: str) -> None:
    with ScriptedServer(lambda peer: peer.send(first)) as server, pytest.raises(error, match=text):
        WireClient(server.url)


def test_mute_server_is_a_timeout() -> None:
    def script(peer: Peer) -> None:
        assert peer.read_line() == b""

    with ScriptedServer(script) as server, pytest.raises(ClientTimeout):
        WireClient(server.url, WireOptions(timeout_ns=MILLISECOND_NS))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionLost, match="cannot connect"):
        WireClient(f"nats://127.0.0.1:{port}")


def test_words_with_blanks_are_refused_before_they_are_sent() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        assert peer.read_line() == b""

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        for subject in ("", "a b", "a\r\nPING"):
            with pytest.raises(ValueError, match="blanks"):
                client.subscribe(subject)
            with pytest.raises(ValueError, match="blanks"):
                client.publish(subject)
            with pytest.raises(ValueError, match="blanks"):
                client.publish(subject, header=b"NATS/1.0\r\n\r\n")
        with pytest.raises(ValueError, match="blanks"):
            client.subscribe("a", queue="q q")


def test_detached_socket_begins_where_the_client_stopped() -> None:
    def script(peer: Peer) -> None:
        peer.send(INFO)
        peer.read_line()
        peer.read_line()
        peer.send(b"PONG\r\nMSG a 1 5\r\nhe")
        assert peer.read_line() == b"on"
        peer.send(b"llo\r\n")

    with ScriptedServer(script) as server:
        detached, before = WireClient(server.url).detach()
        with detached:
            detached.setblocking(True)
            detached.sendall(b"on\r\n")
            received = before
            while data := detached.recv(100):
                received += data
    assert received == b"MSG a 1 5\r\nhello\r\n"


def test_detaching_with_waiting_messages_is_refused() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read_line()
        peer.send(b"MSG a 1 0\r\n\r\nPONG\r\n")
        peer.read_line()

    with ScriptedServer(script) as server, WireClient(server.url) as client:
        client.flush()
        with pytest.raises(ClientError, match="messages are waiting"):
            client.detach()
