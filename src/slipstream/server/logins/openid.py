"""The edge of OpenID logins: key sets are fetched in threads, each fetch with one deadline and one limit of bytes.

A plain HTTP/1.1 request with h11: no redirects, no proxies of the environment, no cookies. The deadline is that of the
whole fetch, however slowly an issuer answers, except for the look-up of its name, which the system bounds.
"""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from slipstream.auth.oidc.keys import JWKS_BYTES_MAX, UnusableKeys, address_of_keys
from slipstream.config.oidc_options import OIDC_ISSUERS_MAX
from slipstream.errors import ConfigError
from slipstream.routing.login_ends import LoginEnds
from slipstream.routing.openid import OpenIdLogins
from slipstream.units import SECOND_NS
from slipstream.version import PRODUCT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from slipstream.config.listener_options import TLSOptions
    from slipstream.config.oidc_options import OidcOptions
    from slipstream.server.server import Server
    from slipstream.server.turns import Turns

__all__ = ["FETCH_TIMEOUT_NS", "FetchError", "HttpKeyFetcher", "http_get", "start_openid"]

FETCH_TIMEOUT_NS: Final = 5 * SECOND_NS  # of a key set, the question where it is included
_READ_BYTES: Final = 65_536
_WELL_KNOWN: Final = "/.well-known/openid-configuration"


class FetchError(Exception):
    """What was asked for cannot be had."""


def start_openid(server: Server) -> None:
    """Believe the OpenID issuers of the configuration; after a reload too."""
    logins, turns = server.hub.logins, server.turns
    if logins.ends is None:
        logins.use_ends(LoginEnds(server.hub.connections, turns, server.clock.now_ns))
    openid = logins.openid
    if openid is None:
        fetcher = HttpKeyFetcher(turns)
        openid = OpenIdLogins(lambda: logins.authenticator, fetcher, turns, server.clock.now_ns, server.log)
        logins.use_openid(openid)
    openid.use(server.options.authorization.oidc)


class HttpKeyFetcher:
    """Fetches key sets; an issuer that does not answer holds one thread for a while, and nobody else."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        # Twice as many as issuers: after a reload, those of before may not be through.
        self._threads = ThreadPoolExecutor(2 * OIDC_ISSUERS_MAX, thread_name_prefix="slipstream-openid")

    def fetch(self, issuer: OidcOptions, done: Callable[[bytes, str], None]) -> None:
        """Get the keys of an issuer."""

        def finished(result: asyncio.Future[bytes]) -> None:
            if result.cancelled():
                return
            error = result.exception()
            if error is None:
                done(result.result(), "")
            else:
                done(b"", str(error) or type(error).__name__)

        self._turns.loop.run_in_executor(self._threads, _key_document, issuer).add_done_callback(finished)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _key_document(issuer: OidcOptions) -> bytes:
    deadline_ns = time.monotonic_ns() + FETCH_TIMEOUT_NS
    address = issuer.jwks
    if not address:
        said = http_get(issuer.issuer.rstrip("/") + _WELL_KNOWN, issuer.tls, deadline_ns)
        try:
            address = address_of_keys(said, issuer.issuer)
        except UnusableKeys as unusable:
            raise FetchError(str(unusable)) from None
    return http_get(address, issuer.tls, deadline_ns)


def http_get(url: str, tls: TLSOptions | None, deadline_ns: int) -> bytes:
    """The body that an address answers with.

    Raises:
        FetchError: there is none in time, or it is too large, or the answer is not 200.
    """
    try:
        parts = urlsplit(url)
        is_secure = parts.scheme.lower() == "https"
        host, port = parts.hostname or "", parts.port or (443 if is_secure else 80)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        with _connected(host, port, tls if is_secure else None, is_secure, deadline_ns) as connection:
            return _answer(connection, parts.netloc, target, deadline_ns)
    except FetchError as error:
        raise FetchError(f"{url}: {error}") from None
    except TimeoutError:
        raise FetchError(f"{url}: no answer in time") from None
    except (OSError, ValueError, ConfigError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise FetchError(f"{url}: {reason}") from None


def _connected(host: str, port: int, tls: TLSOptions | None, is_secure: bool, deadline_ns: int) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=_left(deadline_ns))
    if not is_secure:
        return connection
    try:
        from slipstream.server.sockets.tls import client_context

        connection.settimeout(_left(deadline_ns))
        return client_context(tls).wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def _left(deadline_ns: int) -> float:
    left_ns = deadline_ns - time.monotonic_ns()
    if left_ns <= 0:
        raise TimeoutError
    return left_ns / SECOND_NS


def _answer(connection: socket.socket, host: str, target: str, deadline_ns: int) -> bytes:
    import h11

    http = h11.Connection(h11.CLIENT)
    headers = [("Host", host), ("Accept", "application/json"), ("User-Agent", f"slipstream/{PRODUCT_VERSION}")]
    body = bytearray()
    try:
        request = http.send(h11.Request(method="GET", target=target, headers=[*headers, ("Connection", "close")]))
        connection.settimeout(_left(deadline_ns))
        connection.sendall((request or b"") + (http.send(h11.EndOfMessage()) or b""))
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                connection.settimeout(_left(deadline_ns))
                http.receive_data(connection.recv(_READ_BYTES))
            elif isinstance(event, h11.Response):
                if event.status_code != 200:
                    raise FetchError(f"status {event.status_code}")
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > JWKS_BYTES_MAX:
                    raise FetchError(f"the answer has more than {JWKS_BYTES_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            elif isinstance(event, h11.ConnectionClosed):
                raise FetchError("the connection ended early")
    except h11.ProtocolError as error:
        raise FetchError(f"the answer is no HTTP: {error}") from None
