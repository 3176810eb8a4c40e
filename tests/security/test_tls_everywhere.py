"""TLS is the same TLS whichever way it was configured, and each listener has its own."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from slipstream.config.options import Options
from slipstream.server.process.configure import Configured, configure
from slipstream.server.sockets.tls import TlsContext
from support.raw_client import RawClient
from support.servers import Launcher
from support.transcript import connect_line
from tlsfiles import Authority, Pair


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost")


def _options(*arguments: str) -> Options:
    outcome = configure(arguments)
    assert isinstance(outcome, Configured), outcome
    return outcome.options


def _offered(options: Options) -> tuple[list[str], int, int]:
    assert options.tls is not None
    context = TlsContext.for_server(options.tls).context
    return [str(suite["name"]) for suite in context.get_ciphers()], context.minimum_version, context.options


def test_flags_and_files_offer_the_same(tmp_path: Path, pair: Pair) -> None:
    """CVE-2021-32026: with TLS configured by flags the list of cipher suites was lost, and weak ones were accepted."""
    conf = tmp_path / "tls.conf"
    conf.write_text(f"tls {{ {pair.block} }}")
    bare = tmp_path / "bare.conf"
    bare.write_text("port: -1")
    flags = ("--tls", "--tlscert", str(pair.cert_file), "--tlskey", str(pair.key_file))
    ways = [
        _options("-c", str(conf)),
        _options(*flags),
        _options("-c", str(bare), *flags),
        _options("-c", str(conf), *flags),
    ]
    offered = [_offered(options) for options in ways]
    assert all(offer == offered[0] for offer in offered)
    names, minimum, _ = offered[0]
    assert minimum == ssl.TLSVersion.TLSv1_2
    assert not [
        name for name in names if any(weak in name for weak in ("RC4", "3DES", "NULL", "EXP", "MD5", "DSS", "ADH"))
    ]


@pytest.mark.parametrize("way", ["file", "flags"])
def test_weak_suites_and_old_versions_are_refused_by_the_running_server(
    ours: Launcher, authority: Authority, pair: Pair, way: str
) -> None:
    """CVE-2021-32026: asked of the server itself, whichever way it was configured."""
    flags = ("--tls", "--tlscert", str(pair.cert_file), "--tlskey", str(pair.key_file))
    server = ours(f"tls {{ {pair.block} }}") if way == "file" else ours("", *flags)
    for weak in ("AES128-SHA", "AES256-SHA256", "NULL-SHA256", "DHE-RSA-AES128-SHA"):
        context = authority.client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.set_ciphers(f"{weak}:@SECLEVEL=0")
        except ssl.SSLError:
            continue
        assert not _connects(server.port, context), weak
    strong = authority.client_context()
    assert _connects(server.port, strong)


def _connects(port: int, context: ssl.SSLContext) -> bool:
    with RawClient(port) as client:
        client.read_until(b"INFO [^\n]*\r\n")
        try:
            with context.wrap_socket(client._socket, server_hostname="localhost") as secured:
                secured.sendall(connect_line() + b"PING\r\n")
                return secured.recv(1000).startswith(b"PONG")
        except (ssl.SSLError, OSError):
            return False


def test_certificates_of_one_listener_are_strangers_at_another(
    ours: Launcher, tmp_path_factory: pytest.TempPathFactory, authority: Authority, pair: Pair
) -> None:
    """CVE-2025-68121: the authority of one listener was believed at another, and sessions were shared."""
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    inner, outer = (Authority.issue(ca, "me@example.com", name="client") for ca in (authority, other))
    server = ours(
        f"""
        tls {{ {pair.block}, ca_file: "{authority.ca_file}", verify: true }}
        websocket {{
          host: "127.0.0.1", port: -1
          tls {{ {pair.block}, ca_file: "{other.ca_file}", verify: true }}
        }}
        """
    )

    def accepted(port: int, mine: Pair, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
        context = authority.client_context(mine)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with RawClient(port) as client:
            if port == server.port:
                client.read_until(b"INFO [^\n]*\r\n")
            try:
                with context.wrap_socket(client._socket, server_hostname="localhost", session=session) as secured:
                    secured.sendall(connect_line() + b"PING\r\n" if port == server.port else b"GET / HTTP/1.1\r\n\r\n")
                    return secured.session if secured.recv(100) and not secured.session_reused else None
            except (ssl.SSLError, OSError):
                return None

    assert accepted(server.port, inner) and accepted(server.websocket_port, outer)
    assert not accepted(server.port, outer) and not accepted(server.websocket_port, inner)
