"""Header blocks as bytes."""

import pytest

from slipstream.jetstream import headers

BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id:  x y \r\nB:2\r\nA: 3\r\n\r\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"A", b"1"),
        (b"B", b"2"),
        (b"Nats-Msg-Id", b"x y "),
        (b"nats-msg-id", None),
        (b"Msg-Id", None),
        (b"Nats-Msg", None),
        (b"C", None),
    ],
)
def test_find(key: bytes, value: bytes | None) -> None:
    assert headers.find(BLOCK, key) == value


@pytest.mark.parametrize("block", [b"", b"A: 1", b"\r\nA: 1", b"garbage\r\nA", b"\r\n\r\n"])
def test_find_in_what_is_no_block(block: bytes) -> None:
    assert headers.find(block, b"A") is None


def test_append() -> None:
    assert headers.append(b"", b"A", b"1") == b"NATS/1.0\r\nA: 1\r\n\r\n"
    assert headers.append(b"NATS/1.0\r\nA: 1\r\n\r\n", b"B", b"2") == b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n"


def test_remove() -> None:
    assert headers.remove(BLOCK, b"A") == b"NATS/1.0\r\nNats-Msg-Id:  x y \r\nB:2\r\nA: 3\r\n\r\n"
    assert headers.remove(BLOCK, b"C") == BLOCK
    assert headers.remove(b"NATS/1.0\r\nA: 1\r\n\r\n", b"A") == b""


def test_put() -> None:
    assert headers.put(b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n", b"A", b"9") == b"NATS/1.0\r\nA: 9\r\nB: 2\r\n\r\n"
    assert headers.put(b"", b"A", b"9") == b"NATS/1.0\r\nA: 9\r\n\r\n"


@pytest.mark.parametrize(
    ("block", "result"),
    [
        (b"NATS/1.0 503\r\n\r\n", b""),
        (b"NATS/1.0 100 Idle\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nA: 1\r\n\r\n"),
        (b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nA: 1\r\n\r\n"),
        (b"NATS/1.0 no end", b"NATS/1.0 no end"),
        (b"garbage", b"garbage"),
    ],
)
def test_without_status(block: bytes, result: bytes) -> None:
    assert headers.without_status(block) == result
