"""What one connection can make the parser keep: no operation without an end costs more than its limits."""

from __future__ import annotations

import pytest

from slipstream.protocol.texts import CloseReason
from support.hub_world import HubWorld

MORE_THAN_A_READ = 600 * 1024


@pytest.mark.parametrize("step", [4096, 65536])
@pytest.mark.parametrize("endless", [b"PING", b"pong", b"+OK"])
def test_a_word_without_end_is_not_kept(endless: bytes, step: int) -> None:
    """The rest of a PING line means nothing: it was kept until the read buffer was full and the socket failed."""
    world = HubWorld()
    client = world.connect()
    client.send(endless + b"x" * MORE_THAN_A_READ, step=step)
    assert client.connection.parser.unparsed.held < 16
    client.send(b"y\r\nPING\r\n")
    assert not client.is_closed and client.take().endswith(b"PONG\r\n")


@pytest.mark.parametrize("step", [4096, 65536])
@pytest.mark.parametrize("verb", [b"SUB", b"UNSUB", b"PUB", b"HPUB", b"CONNECT", b"INFO", b"-ERR"])
def test_blanks_without_end_are_not_kept(verb: bytes, step: int) -> None:
    world = HubWorld()
    client = world.connect()
    client.send(verb + b" \t" * (MORE_THAN_A_READ // 2), step=step)
    assert client.connection.parser.unparsed.held < 16
    assert not client.is_closed


def test_an_operation_behind_many_blanks_is_whole() -> None:
    world = HubWorld()
    client = world.connect()
    blanks = b" " * 5000
    data = (
        b"SUB" + blanks + b"foo\t1\r\nPUB" + blanks + b"foo  5\r\nhello\r\nUNSUB" + blanks + b"1\r\nPUB foo 0\r\n\r\n"
    )
    for step in (1000, 4096, 9999):
        client.send(data, step=step)
        assert client.take() == b"MSG foo 1 5\r\nhello\r\n"


@pytest.mark.parametrize("step", [1000, 100_000])
def test_control_lines_longer_than_a_read(step: int) -> None:
    """`max_control_line` may be larger than the buffer that all connections read into."""
    world = HubWorld("max_control_line: 1000000")
    client = world.connect()
    subject = b"a" * 700_000
    client.send(b"SUB " + subject + b" 1\r\nPUB " + subject + b" 2\r\nhi\r\n", step=step)
    assert client.take() == b"MSG " + subject + b" 1 2\r\nhi\r\n"
    client.send(b"SUB " + b"a" * 1_100_000, step=step)
    assert client.is_closed and client.take() == b"-ERR 'maximum control line exceeded'\r\n"


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**63 - 1, 2**63, 2**64, 10**30])
@pytest.mark.parametrize(
    "form", ["PUB foo {}", "PUB foo reply {}", "HPUB foo 12 {}", "HPUB foo {} {}", "HPUB foo r {} 14"]
)
def test_sizes_that_do_not_fit(form: str, size: int) -> None:
    """CVE-2019-13126: a message size beyond 32 bits crashed the parser."""
    world = HubWorld()
    client = world.connect()
    client.send(form.format(size, size).encode() + b"\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\n")
    assert client.is_closed and b"PONG" not in client.take()


@pytest.mark.parametrize(
    "line",
    [b"PUB foo -1", b"PUB foo +1", b"PUB foo 1x", b"PUB foo 0x1", b"PUB foo 1e1", b"HPUB foo -1 5", b"HPUB foo 6 5"],
)
def test_sizes_that_are_no_sizes(line: bytes) -> None:
    """CVE-2019-13126: negative sizes, signs, header larger than the whole."""
    world = HubWorld()
    client = world.connect()
    client.send(line + b"\r\nhello\r\nPING\r\n")
    assert client.is_closed and b"PONG" not in client.take()


def test_leading_zeros_are_digits() -> None:
    """CVE-2019-13126: zeros in front change nothing, and cannot make a number longer than its limit."""
    world = HubWorld()
    client = world.connect()
    client.send(b"SUB foo 1\r\nPUB foo 000000002\r\nhi\r\n")
    assert client.take() == b"MSG foo 1 2\r\nhi\r\n"
    client.send(b"PUB foo " + b"0" * 100 + b"2\r\nhi\r\n")
    assert client.is_closed


def test_a_publish_may_end_its_own_connection() -> None:
    """A service of the server's own, such as KICK, may close the client that asks; nobody answered it then."""
    world = HubWorld()
    client = world.connect().send(b"SUB in 1\r\n")

    def close(*_: object) -> bool:
        client.connection.close(CloseReason.KICKED)
        return False

    world.hub.accounts["$G"].subscribe(b"kick.me", close)
    client.send(b"PUB kick.me in 0\r\n\r\nPING\r\n")
    assert client.is_closed and b"PONG" not in client.take()
