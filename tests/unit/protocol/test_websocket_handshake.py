"""Upgrade requests and their answers. The bytes of the answers are those of nats-server 2.15.1."""

from __future__ import annotations

import pytest

from slipstream.errors import ConfigError
from slipstream.protocol.limits import WEBSOCKET_REQUEST_BYTES_MAX, WEBSOCKET_REQUESTS_MAX
from slipstream.protocol.ws_handshake import CookieNames, Cookies, Handshake, HandshakeSettings, Upgrade
from slipstream.protocol.ws_origin import OriginPolicy

HEADERS = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)
DEFAULTS = HandshakeSettings()
DATE = b"Date: Sun, 15 Nov 2026 02:26:40 GMT\r\n"


def request(line: str = "GET / HTTP/1.1", **changes: str | None) -> bytes:
    """A request; a change to None leaves the header out, underscores stand for hyphens."""
    headers = HEADERS | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"{line}\r\n{''.join(lines)}\r\n".encode()


def handshake(settings: HandshakeSettings = DEFAULTS) -> Handshake:
    return Handshake(settings, lambda: 1794709600.0)


def upgraded(data: bytes, settings: HandshakeSettings = DEFAULTS) -> Upgrade:
    hands = handshake(settings)
    hands.receive(data)
    assert hands.upgrade is not None, hands.errors
    return hands.upgrade


def refusal(status: bytes, *, last: bool = False) -> bytes:
    body = status[4:] + b"\n"
    return (
        (
            b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain; charset=utf-8\r\nSec-Websocket-Version: 13\r\n"
            b"X-Content-Type-Options: nosniff\r\n" + DATE + b"Content-Length: %d\r\n" % len(body)
        )
        + (b"Connection: close\r\n" if last else b"")
        + b"\r\n"
        + body
    )


def test_accepts_a_request() -> None:
    hands = handshake()
    hands.receive(request("GET /any/path?x=1 HTTP/1.1"))
    assert hands.upgrade == Upgrade("/any/path", "localhost", "", "", "", Cookies(), compressed=False, masked=True)
    assert hands.data_to_send() == ACCEPTED + b"\r\n"
    assert hands.data_to_send() == b""
    assert not hands.closed


def test_accepts_a_request_byte_by_byte() -> None:
    hands = handshake()
    for byte in request():
        assert hands.upgrade is None
        hands.receive(bytes([byte]))
    assert hands.upgrade is not None


def test_adds_extension_masking_and_configured_headers_in_that_order() -> None:
    hands = handshake(HandshakeSettings(compression=True, headers=(("X-One", "1"), ("X-Two", "2"))))
    offer = "foo, permessage-deflate; client_max_window_bits"
    hands.receive(request(Sec_WebSocket_Extensions=offer, Nats_No_Masking="true"))
    assert hands.upgrade is not None and hands.upgrade.compressed and not hands.upgrade.masked
    assert hands.data_to_send() == (
        ACCEPTED + b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
        b"client_no_context_takeover\r\nNats-No-Masking: true\r\nX-One: 1\r\nX-Two: 2\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("compression", "offer", "agreed"),
    [
        (True, "permessage-deflate", True),
        (True, "x, PerMessage-Deflate;server_no_context_takeover", True),
        (True, "permessage-bzip2", False),
        (True, None, False),
        (False, "permessage-deflate", False),
    ],
)
def test_compression_needs_both_sides(compression: bool, offer: str | None, agreed: bool) -> None:
    settings = HandshakeSettings(compression=compression)
    assert upgraded(request(Sec_WebSocket_Extensions=offer), settings).compressed is agreed


@pytest.mark.parametrize("value", ["True", "yes", ""])
def test_masking_is_waived_by_the_exact_value_only(value: str) -> None:
    assert upgraded(request(Nats_No_Masking=value)).masked


def test_tokens_are_found_in_lists_in_any_case() -> None:
    assert upgraded(request(Upgrade="foo, WebSocket", Connection="keep-alive , upgrade", Sec_WebSocket_Version="8, 13"))


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (request("POST / HTTP/1.1"), b"405 Method Not Allowed", "request method must be GET"),
        (request(Upgrade=None), b"400 Bad Request", "invalid value for header 'Upgrade'"),
        (request(Upgrade="h2c"), b"400 Bad Request", "invalid value for header 'Upgrade'"),
        (request(Connection="keep-alive"), b"400 Bad Request", "invalid value for header 'Connection'"),
        (request(Sec_WebSocket_Key=None), b"400 Bad Request", "key missing"),
        (request(Sec_WebSocket_Key="c2hvcnQ="), b"400 Bad Request", "invalid websocket key"),
        (request(Sec_WebSocket_Key="not base64!"), b"400 Bad Request", "invalid websocket key"),
        (request(Sec_WebSocket_Version="12"), b"400 Bad Request", "invalid version"),
        (request("GET /x/mqtt HTTP/1.1"), b"404 Not Found", "mqtt websocket endpoint not enabled"),
        (request("GET /leafnode?a HTTP/1.1"), b"404 Not Found", "leafnode websocket endpoint not enabled"),
    ],
)
def test_refuses_and_reads_the_next_request(data: bytes, status: bytes, reason: str) -> None:
    hands = handshake()
    hands.receive(data)
    assert (hands.upgrade, hands.closed, hands.errors) == (None, False, [reason])
    assert hands.data_to_send() == refusal(status)
    hands.receive(request())
    assert hands.upgrade is not None
    assert hands.data_to_send() == ACCEPTED + b"\r\n"


def test_pipelined_requests_are_answered_in_order() -> None:
    hands = handshake()
    hands.receive(request(Upgrade=None) + request("POST / HTTP/1.1") + request())
    assert hands.data_to_send() == refusal(b"400 Bad Request") + refusal(b"405 Method Not Allowed") + ACCEPTED + b"\r\n"
    assert hands.upgrade is not None


def test_head_gets_no_body() -> None:
    hands = handshake()
    hands.receive(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert hands.data_to_send() == refusal(b"405 Method Not Allowed").removesuffix(b"Method Not Allowed\n")


@pytest.mark.parametrize(
    "data",
    [
        request(Upgrade=None, Connection="close"),
        request("POST / HTTP/1.1", Content_Length="3") + b"abc",
        request("POST / HTTP/1.1", Transfer_Encoding="chunked") + b"zz\r\n",
        request("GET / HTTP/1.0", Host=None),
    ],
)
def test_ends_after_a_refusal_when_it_cannot_go_on(data: bytes) -> None:
    hands = handshake()
    hands.receive(data)
    assert hands.closed and hands.upgrade is None
    assert hands.data_to_send().count(b"\r\nConnection: close\r\n\r\n") == 1
    hands.receive(request())
    assert hands.upgrade is None


def test_refused_requests_are_counted() -> None:
    hands = handshake()
    hands.receive(request(Upgrade=None) * (WEBSOCKET_REQUESTS_MAX + 3))
    assert hands.closed
    assert hands.data_to_send() == refusal(b"400 Bad Request") * (WEBSOCKET_REQUESTS_MAX - 1) + refusal(
        b"400 Bad Request", last=True
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"CONNECT {}\r\nPING\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nfoo bar\r\n\r\n", b"400 Bad Request"),
        (request(Host=None), b"400 Bad Request: missing required Host header"),
        (request(X=f"{'a' * WEBSOCKET_REQUEST_BYTES_MAX}"), b"431 Request Header Fields Too Large"),
        (b"a" * (WEBSOCKET_REQUEST_BYTES_MAX + 1), b"431 Request Header Fields Too Large"),
    ],
)
def test_what_is_no_request_gets_an_answer_and_the_end(data: bytes, text: bytes) -> None:
    hands = handshake()
    for start in range(0, len(data), 4096):
        hands.receive(data[start : start + 4096])
    assert hands.closed and hands.upgrade is None
    assert hands.data_to_send() == (
        b"HTTP/1.1 " + text + b"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" + text
    )


def test_bytes_behind_the_request_end_the_connection_without_an_answer() -> None:
    hands = handshake()
    hands.receive(request() + b"\x82\x80abcd")
    assert hands.closed and hands.upgrade is None
    assert hands.errors == ["client sent data before handshake is complete"]
    assert hands.data_to_send() == b""


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('a=1; nats.jwt=J.W.T; u=ann; p="se cret"; t=tok', Cookies("J.W.T", "ann", "se cret", "tok")),
        ("u=one; u=two", Cookies(user="two")),
        ("u = spaced", Cookies(user=" spaced")),
        ('u="; p=a\\b; t=ü', Cookies()),
        ("u", Cookies()),
        ("", Cookies()),
    ],
)
def test_credentials_come_from_cookies(header: str, expected: Cookies) -> None:
    settings = HandshakeSettings(cookies=CookieNames("nats.jwt", "u", "p", "t"))
    data = request().replace(b"\r\n\r\n", b"\r\nCookie: " + header.encode("latin-1") + b"\r\n\r\n")
    assert upgraded(data, settings).cookies == expected


def test_cookies_are_ignored_unless_configured() -> None:
    assert upgraded(request(Cookie="jwt=a; =b; user=c")).cookies == Cookies()


def test_cookies_do_not_show_in_a_repr() -> None:
    settings = HandshakeSettings(cookies=CookieNames(jwt="j"))
    assert "secret" not in repr(upgraded(request(Cookie="j=secret"), settings))


@pytest.mark.parametrize(
    ("header", "ip"),
    [("1.2.3.4", "1.2.3.4"), ("::1", "::1"), ("1.2.3.4, 5.6.7.8", ""), ("fe80::1%eth0", ""), ("me", ""), (None, "")],
)
def test_client_ip_is_a_forwarded_address_that_stands_alone(header: str | None, ip: str) -> None:
    assert upgraded(request(X_Forwarded_For=header)).client_ip == ip


@pytest.mark.parametrize(
    ("agent", "browser", "safari"),
    [
        ("Mozilla/5.0 (Macintosh) AppleWebKit/605 (KHTML, like Gecko) Version/17 Safari/605", True, True),
        ("Mozilla/5.0 (X11) AppleWebKit/537 (KHTML, like Gecko) Chrome/120 Safari/537", True, False),
        ("nats.ws/1.0 Version/1 Safari/1", False, False),
    ],
)
def test_browsers_are_recognised(agent: str, browser: bool, safari: bool) -> None:
    upgrade = upgraded(request(User_Agent=agent))
    assert (upgrade.is_browser, upgrade.is_safari) == (browser, safari)


ALLOWED = ("https://example.com", "http://other.com:8080", "http://[::1]")


@pytest.mark.parametrize(
    ("same", "allowed", "tls", "origin", "reason"),
    [
        (False, (), False, "http://evil.com", None),
        (True, (), False, None, None),
        (True, (), False, "http://localhost", None),
        (True, (), False, "HTTP://LOCALHOST:80", None),
        (True, (), False, "http://localhost:81", "not same origin"),
        (True, (), False, "https://localhost", "not same origin"),
        (True, (), True, "https://localhost:443", None),
        (True, (), True, "http://localhost", "not same origin"),
        (True, (), False, "null", 'parse "null": invalid URI for request'),
        (True, (), False, "http://a:b:c", "address a:b:c: too many colons in address"),
        (False, ALLOWED, False, "https://example.com:443", None),
        (False, ALLOWED, False, "https://EXAMPLE.com", None),
        (False, ALLOWED, False, "http://example.com", "not in the allowed list"),
        (False, ALLOWED, False, "http://other.com:8080", None),
        (False, ALLOWED, False, "http://other.com", "not in the allowed list"),
        (False, ALLOWED, False, "http://[::1]:80", None),
        (True, ALLOWED, False, "http://localhost", "not in the allowed list"),
        (True, ("http://localhost",), False, "http://localhost", None),
    ],
)
def test_origins(same: bool, allowed: tuple[str, ...], tls: bool, origin: str | None, reason: str | None) -> None:
    hands = handshake(HandshakeSettings(origins=OriginPolicy.from_options(same, allowed), tls=tls))
    hands.receive(request(Origin=origin))
    if reason is None:
        assert hands.upgrade is not None
    else:
        assert hands.errors == [f"origin not allowed: {reason}"]
        assert hands.data_to_send() == refusal(b"403 Forbidden")


def test_the_old_origin_header_counts_too() -> None:
    hands = handshake(HandshakeSettings(origins=OriginPolicy(same=True)))
    hands.receive(request(Sec_WebSocket_Origin="http://evil.com"))
    assert hands.errors == ["origin not allowed: not same origin"]


@pytest.mark.parametrize("text", ["example.com", "ftp://example.com", "http://", "http://[::1", "http://a:b:c"])
def test_allowed_origins_must_be_web_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="unable to parse allowed origin"):
        OriginPolicy.from_options(False, [text])
