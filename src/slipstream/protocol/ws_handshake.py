"""The HTTP request that turns a connection into a WebSocket (RFC 6455, section 4), as nats-server answers it.

    request ──► acceptable ──► 101, an `Upgrade`
            └─► refused ──► 4xx; the next request on the connection is read, as an HTTP server does
            └─► not HTTP, too long, with a body ──► 4xx and the end

What this is not: a web server. There is one resource, at every path. Those whose path ends in `/leafnode` are leaf
nodes, and refused where there are none; `/mqtt` belongs to a protocol that is not spoken here, and is refused.

h11 reads the requests; the answers are written here, since their bytes are compared with nats-server's. Memory is
bounded by `WEBSOCKET_REQUEST_BYTES_MAX`; time is bounded by the listener.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

import h11

from slipstream.protocol.limits import WEBSOCKET_REQUEST_BYTES_MAX, WEBSOCKET_REQUESTS_MAX
from slipstream.protocol.ws_origin import OriginPolicy, OriginRefused

__all__ = ["CookieNames", "Cookies", "Handshake", "HandshakeSettings", "HttpHeaders", "Upgrade", "accept_of"]

LEAF_PATH = "/leafnode"
_ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16
_DEFLATE = "permessage-deflate"
_DEFLATE_ANSWER = (
    b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
)
_NO_MASKING_ANSWER = b"Nats-No-Masking: true\r\n"
_COOKIE_NAME = re.compile(r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$")
# Visible characters but the quote, semicolon and backslash; blanks and commas are tolerated, as Go does.
_COOKIE_VALUE = re.compile(r"^[ !#-:<-\[\]-~]*$")


@dataclass(frozen=True, slots=True)
class CookieNames:
    """Names of the cookies that hold credentials; an empty name means that the cookie is not used."""

    jwt: str = ""
    user: str = ""
    password: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Cookies:
    """Credentials found in cookies; empty when there was none. Has no repr, since it is secret."""

    jwt: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    bearer: str = ""  # of the Authorization header, where proxies put tokens for those behind them


@dataclass(frozen=True, slots=True)
class HandshakeSettings:
    """What a listener wants of a request."""

    compression: bool = False
    cookies: CookieNames = CookieNames()
    origins: OriginPolicy = field(default_factory=OriginPolicy)
    headers: tuple[tuple[str, str], ...] = ()  # added to the answer, checked by the configuration
    tls: bool = False  # requests arrive over TLS, so the own origin is https
    leafs: bool = False  # leaf nodes are let in, too


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an accepted request said."""

    path: str
    host: str
    origin: str  # empty when not sent
    user_agent: str
    client_ip: str  # from X-Forwarded-For when that is one address, else empty
    cookies: Cookies
    compressed: bool  # permessage-deflate was agreed upon, without context takeover on either side
    masked: bool  # the client masks its frames; False after Nats-No-Masking

    @property
    def is_leaf(self) -> bool:
        """Whether a leaf node asks, and no client."""
        return self.path.endswith(LEAF_PATH)

    @property
    def is_browser(self) -> bool:
        """Whether frames should be small."""
        return self.user_agent.startswith("Mozilla/")

    @property
    def is_safari(self) -> bool:
        """Whether compressed messages must not be fragmented. Other browsers also say Safari, but not Version."""
        return self.is_browser and "Version/" in self.user_agent and "Safari/" in self.user_agent


class _Refused(Exception):
    """A request that gets an error answer; `reason` is for the log."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Handshake:
    """Reads requests until one is accepted or the connection is of no use."""

    def __init__(self, settings: HandshakeSettings, now_s: Callable[[], float]) -> None:
        """Prepare for the first request.

        Args:
            settings: what is accepted.
            now_s: the time for the Date header, in seconds since the epoch.
        """
        self.upgrade: Upgrade | None = None
        self.closed = False  # nothing more will be accepted: send what is to be sent, then close
        self.errors: list[str] = []  # for the log, one a refused request
        self._settings = settings
        self._now_s = now_s
        self._requests = 0
        self._unanswered_bytes = 0
        self._http = _new_http()
        self._output = bytearray()

    def receive(self, data: bytes | memoryview) -> None:
        """Read the next bytes. Afterwards look at `upgrade`, `closed`, `errors` and `data_to_send`."""
        assert self.upgrade is None
        if self.closed:
            return
        self._unanswered_bytes += len(data)
        if self._unanswered_bytes > WEBSOCKET_REQUEST_BYTES_MAX:
            self._fail(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "request too large")
            return
        self._http.receive_data(bytes(data))
        while not self.closed and self.upgrade is None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._fail(*_what_is_wrong(error))
                return
            if isinstance(event, h11.Request):
                self._answer(event)
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return
            elif isinstance(event, h11.ConnectionClosed):
                self.closed = True

    def data_to_send(self) -> bytes:
        """What is to be sent, once."""
        data = bytes(self._output)
        self._output.clear()
        return data

    def _answer(self, request: h11.Request) -> None:
        self._requests += 1
        try:
            upgrade, key = self._judge(request)
        except _Refused as refused:
            self.errors.append(refused.reason)
            self._refuse(request, refused.status)
            return
        # A client may not speak before it was answered; what it said would have been lost by most servers.
        if self._http.trailing_data[0]:
            self.errors.append("client sent data before handshake is complete")
            self.closed = True
            return
        self.upgrade = upgrade
        self._output += self._acceptance(upgrade, key)

    def _judge(self, request: h11.Request) -> tuple[Upgrade, bytes]:
        """The upgrade a request asks for, and its key; the checks and their order are nats-server's."""
        headers = HttpHeaders(request)
        target = request.target.decode("latin-1")
        path = target.partition("?")[0]
        if path.endswith("/mqtt"):
            raise _Refused(HTTPStatus.NOT_FOUND, "mqtt websocket endpoint not enabled")
        if path.endswith(LEAF_PATH) and not self._settings.leafs:
            raise _Refused(HTTPStatus.NOT_FOUND, "leafnode websocket endpoint not enabled")
        if request.method != b"GET":
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
        if not headers.first("host"):
            raise _Refused(HTTPStatus.BAD_REQUEST, "'Host' missing in request")
        if not headers.has_token("upgrade", "websocket"):
            raise _Refused(HTTPStatus.BAD_REQUEST, "invalid value for header 'Upgrade'")
        if not headers.has_token("connection", "upgrade"):
            raise _Refused(HTTPStatus.BAD_REQUEST, "invalid value for header 'Connection'")
        key = headers.first("sec-websocket-key")
        if not key:
            raise _Refused(HTTPStatus.BAD_REQUEST, "key missing")
        if not _is_key(key):
            raise _Refused(HTTPStatus.BAD_REQUEST, "invalid websocket key")
        if not headers.has_token("sec-websocket-version", "13"):
            raise _Refused(HTTPStatus.BAD_REQUEST, "invalid version")
        origin = headers.first("origin") or headers.first("sec-websocket-origin")
        try:
            self._settings.origins.check(origin, headers.first("host"), tls=self._settings.tls)
        except OriginRefused as refused:
            raise _Refused(HTTPStatus.FORBIDDEN, f"origin not allowed: {refused}") from refused
        upgrade = Upgrade(
            path=path,
            host=headers.first("host"),
            origin=origin,
            user_agent=headers.first("user-agent"),
            client_ip=_ip_address(headers.first("x-forwarded-for")),
            cookies=_credentials(headers.all("cookie"), self._settings.cookies, headers.all("authorization")),
            compressed=self._settings.compression and headers.offers_extension(_DEFLATE),
            masked=headers.first("nats-no-masking") != "true",
        )
        return upgrade, key.encode("latin-1")

    def _acceptance(self, upgrade: Upgrade, key: bytes) -> bytes:
        answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        answer += b"Sec-WebSocket-Accept: " + accept_of(key) + b"\r\n"
        if upgrade.compressed:
            answer += _DEFLATE_ANSWER
        if not upgrade.masked:
            answer += _NO_MASKING_ANSWER
        for name, value in self._settings.headers:
            answer += f"{name}: {value}\r\n".encode()
        return answer + b"\r\n"

    def _refuse(self, request: h11.Request, status: HTTPStatus) -> None:
        """Answer with an error, and be ready for another request unless this one has a body or was the last."""
        body = f"{status.phrase}\n".encode()
        answer = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Sec-Websocket-Version: 13\r\nX-Content-Type-Options: nosniff\r\n"
            f"Date: {formatdate(self._now_s(), usegmt=True)}\r\nContent-Length: {len(body)}\r\n"
        ).encode()
        ends = (
            self._requests >= WEBSOCKET_REQUESTS_MAX
            or request.http_version < b"1.1"
            or HttpHeaders(request).has_token("connection", "close")
            or HttpHeaders(request).announce_body
        )
        if ends:
            answer += b"Connection: close\r\n"
            self.closed = True
        self._output += answer + b"\r\n" + (b"" if request.method == b"HEAD" else body)
        if not ends:
            # The bytes that came behind this request begin the next one.
            unread = self._http.trailing_data[0]
            self._http = _new_http()
            self._unanswered_bytes = len(unread)
            if unread:
                self._http.receive_data(unread)

    def _fail(self, status: HTTPStatus, reason: str, explanation: str = "") -> None:
        """What came is not a request: answer as far as HTTP allows, and end."""
        self.errors.append(reason)
        self.closed = True
        text = f"{status.value} {status.phrase}{explanation}"
        self._output += (
            f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}".encode()
        )


def accept_of(key: bytes) -> bytes:
    """The proof that a request with this key was understood."""
    return base64.b64encode(hashlib.sha1(key + _ACCEPT_GUID, usedforsecurity=False).digest())


class HttpHeaders:
    """Headers of a request or a response, by lower-case name."""

    def __init__(self, head: h11.Request | h11.InformationalResponse | h11.Response) -> None:
        self._items = [(name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._items if key == name]

    def first(self, name: str) -> str:
        return next((value for key, value in self._items if key == name), "")

    def has_token(self, name: str, token: str) -> bool:
        """Whether one of the comma separated values is `token`, in any case of letters."""
        return any(part.strip(" \t").lower() == token for value in self.all(name) for part in value.split(","))

    @property
    def announce_body(self) -> bool:
        """Whether something belongs to the request that is not its head."""
        return self.first("content-length") not in ("", "0") or bool(self.first("transfer-encoding"))

    def offers_extension(self, extension: str) -> bool:
        """Whether the extension is offered, with whatever parameters."""
        offers = (offer for value in self.all("sec-websocket-extensions") for offer in value.split(","))
        return any(part.strip(" \t").lower() == extension for offer in offers for part in offer.split(";"))


def _what_is_wrong(error: h11.RemoteProtocolError) -> tuple[HTTPStatus, str, str]:
    """Status, reason for the log and explanation for the client, as Go's HTTP server has them."""
    reason = str(error)
    if reason.startswith("Missing mandatory Host"):
        return HTTPStatus.BAD_REQUEST, reason, ": missing required Host header"
    return HTTPStatus.BAD_REQUEST, reason, ""


def _new_http() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=WEBSOCKET_REQUEST_BYTES_MAX)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _ip_address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ""
    # Go's parser has no zones.
    return "" if "%" in text else text


def _credentials(headers: list[str], names: CookieNames, authorization: list[str]) -> Cookies:
    """The values of the configured cookies; of several with one name the last counts. And what a bearer brings."""
    wanted = {names.jwt: "jwt", names.user: "user", names.password: "password", names.token: "token"}
    wanted.pop("", None)
    found: dict[str, str] = {}
    scheme, _, token = (authorization[0] if len(authorization) == 1 else "").partition(" ")
    if scheme.lower() == "bearer":
        found["bearer"] = token.strip(" ")
    for name, value in (cookie for header in headers for cookie in _cookies(header)):
        if name in wanted:
            found[wanted[name]] = value
    return Cookies(**found)


def _cookies(header: str) -> list[tuple[str, str]]:
    """Names and values of a Cookie header; what is malformed is left out."""
    cookies: list[tuple[str, str]] = []
    for part in header.split(";"):
        name, _, value = part.strip(" \t").partition("=")
        name = name.strip(" \t")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if _COOKIE_NAME.match(name) and _COOKIE_VALUE.match(value):
            cookies.append((name, value))
    return cookies
