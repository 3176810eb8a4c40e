"""TLS against either server: nats-py and raw sockets, certificates, modes of the handshake, limits, reload."""

from __future__ import annotations

import json
import os
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nats
import nats.errors
import pytest

from support.nats_py import run
from support.normalise import normal_wire
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Launcher
from support.transcript import connect_line
from tlsfiles import Authority, Pair

# The client leaves sockets of failed connections open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

TIMEOUT_S = 5.0
SUBJECT = {"common_name": "me", "organization_name": "org", "organization_unit_name": "unit"}
ONE_SUITE = ', cipher_suites: ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]'
INFO = rb"INFO [^\n]*\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def verifying(authority: Authority, pair: Pair) -> str:
    """Contents of a `tls` block that asks for certificates."""
    return f'{pair.block}, ca_file: "{authority.ca_file}", verify: true'


@contextmanager
def secured(server: ServerProcess, context: ssl.SSLContext, *, first: bool = False) -> Iterator[ssl.SSLSocket]:
    """A TLS connection, after INFO unless the handshake comes first."""
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as plain:
        if not first:
            _read_line(plain)
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            yield secure


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\r\n"):
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError(f"closed after {line!r}")
        line += byte
    return line


def talks(connection: socket.socket, **connect: Any) -> bool:
    """Whether CONNECT and PING are answered with PONG; an error or a close means no."""
    try:
        connection.sendall(connect_line(**connect) + b"PING\r\n")
        while True:
            line = _read_line(connection)
            if line == b"PONG\r\n":
                return True
            if line.startswith(b"-ERR"):
                return False
    except (OSError, ConnectionError):
        return False


def gets_in(server: ServerProcess, context: ssl.SSLContext, *, first: bool = False, **connect: Any) -> bool:
    """Whether a client with this context can talk."""
    try:
        with secured(server, context, first=first) as connection:
            return talks(connection, **connect)
    except (OSError, ConnectionError):
        return False


async def echoed(server: ServerProcess, payloads: list[bytes], **options: Any) -> bool:
    """Whether nats-py gets all payloads back."""
    client = await nats.connect(
        f"tls://localhost:{server.port}", allow_reconnect=False, connect_timeout=TIMEOUT_S, **options
    )
    try:
        subscription = await client.subscribe("echo")
        for payload in payloads:
            await client.publish("echo", payload)
        return [(await subscription.next_msg(timeout=TIMEOUT_S)).data for _ in payloads] == payloads
    finally:
        await client.close()


# --- nats-py ------------------------------------------------------------------------------------------------------


def test_messages_of_all_sizes(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    payloads = [b"", b"x", b"y" * 20_000, os.urandom(1_000_000), *(bytes([n]) * n for n in range(250))]
    server = launcher(f"tls {{ {pair.block} }}\n")
    assert run(lambda: echoed(server, payloads, tls=authority.client_context()))


@pytest.mark.parametrize("mode", ["true", "auto", '"200ms"'])
def test_handshake_first(launcher: Launcher, authority: Authority, pair: Pair, mode: str) -> None:
    server = launcher(f"tls {{ {pair.block}, handshake_first: {mode} }}\n")
    context = authority.client_context()
    assert run(lambda: echoed(server, [b"x"], tls=context, tls_handshake_first=True))
    if mode != "true":
        assert run(lambda: echoed(server, [b"x"], tls=context))


def test_verify(launcher: Launcher, authority: Authority, verifying: str) -> None:
    server = launcher(f"tls {{ {verifying} }}\n")
    mine = authority.client_context(authority.issue("me", name="me"))
    assert run(lambda: echoed(server, [b"x"], tls=mine))
    with pytest.raises((nats.errors.Error, OSError)):
        run(lambda: echoed(server, [b"x"], tls=authority.client_context()))


# --- certificates -------------------------------------------------------------------------------------------------


def test_certificates_of_strangers(
    launcher: Launcher, authority: Authority, verifying: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = launcher(f"tls {{ {verifying} }}\n")
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger").issue("me", name="me")
    assert gets_in(server, authority.client_context(authority.issue("me", name="known")))
    assert not gets_in(server, authority.client_context(stranger))
    assert not gets_in(server, authority.client_context())


@pytest.mark.parametrize(
    ("user", "identities", "names", "expected"),
    [
        ("me@example.com", ("me@example.com",), {}, True),
        ("me.example.com", ("me.example.com",), {}, True),
        ("me.example.com", ("other.example.com", "me.example.com"), {}, True),
        ("me@example.com", ("you@example.com",), {}, False),
        ("CN=me,OU=unit,O=org", ("x.example.com",), SUBJECT, True),
        ("O=org,OU=unit,CN=me", ("x.example.com",), SUBJECT, True),
        ("CN=you,OU=unit,O=org", ("x.example.com",), SUBJECT, False),
    ],
)
def test_users_by_certificate(
    launcher: Launcher,
    authority: Authority,
    pair: Pair,
    user: str,
    identities: tuple[str, ...],
    names: dict[str, str],
    expected: bool,
) -> None:
    config = f"""
    authorization {{ users: [ {{ user: "{user}" }} ] }}
    tls {{ {pair.block}, ca_file: "{authority.ca_file}", verify_and_map: true }}
    """
    client = authority.issue(*identities, name="mapped", **names)
    assert gets_in(launcher(config), authority.client_context(client)) is expected


def test_pinned_certificates(launcher: Launcher, authority: Authority, verifying: str) -> None:
    from slipstream.protocol.certificate import read_certificate

    pinned, other = authority.issue("pinned", name="pinned"), authority.issue("other", name="other")
    der = ssl.PEM_cert_to_DER_cert(pinned.cert_file.read_text())
    server = launcher(f'tls {{ {verifying}, pinned_certs: ["{read_certificate(der).key_sha256}"] }}\n')
    assert gets_in(server, authority.client_context(pinned))
    assert not gets_in(server, authority.client_context(other))


def test_several_certificates(
    launcher: Launcher, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Authority(tmp_path_factory.mktemp("second"), "second")
    first, second = authority.issue("one.example.com", name="first"), other.issue("localhost", name="second")
    server = launcher(f"tls {{ certs: [ {{ {first.block} }}, {{ {second.block} }} ] }}\n")
    assert gets_in(server, other.client_context())
    assert not gets_in(server, authority.client_context())


def test_reload_shows_the_new_certificate(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    server = launcher.fresh(f"tls {{ {pair.block} }}\n")
    renewed = authority.issue("localhost", name="renewed")

    def shown() -> bytes | None:
        with secured(server, authority.client_context()) as connection:
            return connection.getpeercert(binary_form=True)

    with secured(server, authority.client_context()) as old:
        before = shown()
        server.reload(f"tls {{ {renewed.block} }}\n")
        assert shown() == ssl.PEM_cert_to_DER_cert(renewed.cert_file.read_text()) != before
        assert talks(old), "a connection that is open stays"


# --- versions and suites --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "version", "suite", "expected"),
    [
        ("", ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", True),
        ("", ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA", True),
        ("", ssl.TLSVersion.TLSv1_2, "DHE-RSA-AES128-GCM-SHA256", False),
        (', min_version: "1.3"', ssl.TLSVersion.TLSv1_2, "", False),
        (', min_version: "1.3"', ssl.TLSVersion.TLSv1_3, "", True),
        (ONE_SUITE, ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-GCM-SHA384", True),
        (ONE_SUITE, ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", False),
        (ONE_SUITE, ssl.TLSVersion.TLSv1_3, "", True),
        (', curve_preferences: ["CurveP384"]', ssl.TLSVersion.TLSv1_3, "", True),
    ],
)
def test_versions_and_suites(
    launcher: Launcher,
    authority: Authority,
    pair: Pair,
    setting: str,
    version: ssl.TLSVersion,
    suite: str,
    expected: bool,
) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    if suite:
        context.set_ciphers(suite)
    assert gets_in(launcher(f"tls {{ {pair.block}{setting} }}\n"), context) is expected


# --- modes of the handshake -----------------------------------------------------------------------------------------


def test_info_of_each_mode(both: Both, pair: Pair, verifying: str) -> None:
    """What clients are told before they decide."""
    for config in (
        f"tls {{ {pair.block} }}\n",
        f"tls {{ {verifying} }}\n",
        f"tls {{ {pair.block} }}\nallow_non_tls: true\n",
        f"tls {{ {pair.block}, handshake_first: auto }}\n",
    ):
        servers = both(config)
        lines = []
        for server in (servers.real, servers.ours):
            with RawClient(server.port) as client:
                lines.append(normal_wire(client.read_until(INFO)))
        assert lines[0] == lines[1], config


@pytest.mark.parametrize("rest", ["", "allow_non_tls: true\n"], ids=["secure only", "mixed"])
def test_info_inside_tls(both: Both, authority: Authority, pair: Pair, rest: str) -> None:
    servers = both(f"tls {{ {pair.block}, handshake_first: true }}\n{rest}")
    lines = []
    for server in (servers.real, servers.ours):
        with secured(server, authority.client_context(), first=True) as connection:
            lines.append(normal_wire(_read_line(connection)))
            assert talks(connection)
    assert lines[0] == lines[1]


def test_plain_and_secure_on_one_port(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    server = launcher(f"tls {{ {pair.block} }}\nallow_non_tls: true\n")
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as plain:
        _read_line(plain)
        assert talks(plain)
    assert gets_in(server, authority.client_context())


def test_client_that_does_not_wait_for_info(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    """Bytes that come before INFO was read belong to the handshake."""
    server = launcher(f"tls {{ {pair.block} }}\n")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as connection:
        connection.sendall(outgoing.read())
        assert _read_line(connection).startswith(b"INFO {")
        while True:
            incoming.write(connection.recv(65536))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        tls.write(connect_line() + b"PING\r\n")
        connection.sendall(outgoing.read())
        answer = b""
        while b"PONG\r\n" not in answer:
            incoming.write(connection.recv(65536))
            try:
                answer += tls.read(65536)
            except ssl.SSLWantReadError:
                continue


def test_handshake_byte_by_byte_behind_a_proxy(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    server = launcher(f"proxy_protocol: true\ntls {{ {pair.block} }}\n")
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as plain:
        _read_line(plain)
        for byte in b"PROXY TCP4 203.0.113.7 198.51.100.1 1234 4222\r\n":
            plain.sendall(bytes([byte]))
        with authority.client_context().wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(connect_line() + b"PING\r\n")
            while not (line := _read_line(connection)).startswith(b"INFO"):
                assert line == b"PONG\r\n"
            assert b'"client_ip":"203.0.113.7"' in line


@pytest.mark.parametrize("data", [b"", b"\x16\x03", b"CONNECT {}\r\nPING\r\n", b"\x16\x03\x01\x00\x05xxxxx"])
def test_who_does_not_shake_hands_is_closed(launcher: Launcher, pair: Pair, data: bytes) -> None:
    """Nothing is said in clear after INFO but a TLS alert."""
    server = launcher(f"tls {{ {pair.block}, timeout: 0.3 }}\n")
    with RawClient(server.port) as client:
        client.read_until(INFO)
        client.send(data)
        rest = client.read_to_close()
        assert rest == b"" or rest[0] == 0x15


def test_tiny_handshake_timeout(launcher: Launcher, authority: Authority, pair: Pair) -> None:
    assert not gets_in(launcher(f"tls {{ {pair.block}, timeout: 0.0001 }}\n"), authority.client_context())


def test_rate_limit(launcher: Launcher, pair: Pair) -> None:
    """Of many clients at once some are turned away, and told so in clear."""
    server = launcher.fresh(f"tls {{ {pair.block}, connection_rate_limit: 2 }}\n")
    clients = [RawClient(server.port) for _ in range(10)]
    try:
        throttled = 0
        for client in clients:
            client.read_until(INFO)
            client.send(b"\x16\x03\x01\x00\x05xxxxx")
            throttled += client.read_to_close().startswith(b"-ERR 'Connection throttling is active.")
        assert throttled > 0
    finally:
        for client in clients:
            client.close()
    server.wait_for_log(r"Rejected \d+ connections due to TLS rate limiting")


def test_log_of_modes(launcher: Launcher, pair: Pair) -> None:
    required = launcher(f"tls {{ {pair.block} }}\n")
    assert required.wait_for_log(r"\[INF\] TLS required for client connections")
    available = launcher(f"tls {{ {pair.block} }}\nallow_non_tls: true\n")
    assert available.wait_for_log(r"\[INF\] TLS available for client connections")
    first = launcher(f"tls {{ {pair.block}, handshake_first: true }}\n")
    assert first.wait_for_log(r'\[WRN\] Clients that are not using "TLS Handshake First" option will fail to connect')


# --- monitoring -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [False, True])
def test_connz_tells_about_tls(both: Both, authority: Authority, verifying: str, first: bool) -> None:
    """Version, suite, certificates and mode, as nats-server shows them."""
    config = f"http: 127.0.0.1:-1\ntls {{ {verifying}, handshake_first: {str(first).lower()} }}\n"
    servers = both.fresh(config)
    context = authority.client_context(authority.issue("me", name="watched", **SUBJECT))
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    seen = []
    for server in (servers.real, servers.ours):
        with secured(server, context, first=first) as connection:
            assert talks(connection)
            url = f"http://127.0.0.1:{server.monitor_port}/connz?auth=1"
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                [entry] = json.load(answer)["connections"]
        seen.append({key: value for key, value in entry.items() if key.startswith("tls_")})
        # Before Python 3.13 the standard library shows the client's own certificate only.
        del seen[-1]["tls_peer_certs"][1:]
    assert seen[0]["tls_cipher_suite"] == "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    assert seen[0] == seen[1]
