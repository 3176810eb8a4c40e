"""URLs, CONNECT and INFO as the synchronous client reads and writes them."""

import json

import pytest

from slipstream.client.options import ClientError, WireOptions, read_url


@pytest.mark.parametrize(
    ("url", "host", "port", "tls"),
    [
        ("nats://example.org:1234", "example.org", 1234, False),
        ("example.org", "example.org", 4222, False),
        ("tls://example.org", "example.org", 4222, True),
        ("nats://[::1]:4333", "::1", 4333, False),
    ],
)
def test_address(url: str, host: str, port: int, tls: bool) -> None:
    endpoint = read_url(url, WireOptions())
    assert (endpoint.host, endpoint.port, endpoint.tls) == (host, port, tls)


def test_credentials_come_from_the_url() -> None:
    options = read_url("nats://me%40here:p%3Aw@h", WireOptions()).options
    assert (options.user, options.password, options.token) == ("me@here", "p:w", "")
    assert read_url("nats://secret@h", WireOptions()).options.token == "secret"


def test_given_credentials_win_over_the_url() -> None:
    options = read_url("nats://a:b@h", WireOptions(user="c", password="d")).options
    assert (options.user, options.password) == ("c", "d")


@pytest.mark.parametrize("url", ["http://h", "nats://", "nats://h:notaport", "nats://h:99999999", "nats://[::1"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ClientError, match="not a server URL"):
        read_url(url, WireOptions())


def test_refusal_of_a_url_does_not_show_its_password() -> None:
    with pytest.raises(ClientError) as caught:
        read_url("http://me:hidden@h", WireOptions())
    assert "hidden" not in str(caught.value)


def test_connect_line_has_only_the_credentials_there_are() -> None:
    line = WireOptions(user="u", password="p").connect_line(tls=False)
    assert line.startswith(b"CONNECT {") and line.endswith(b"}\r\n")
    fields = json.loads(line[8:])
    assert (fields["user"], fields["pass"], fields["headers"], fields["no_responders"]) == ("u", "p", True, True)
    assert "auth_token" not in fields and "name" not in fields


def test_secrets_are_not_shown() -> None:
    assert "p4ss" not in repr(WireOptions(user="u", password="p4ss", token="p4ss"))
