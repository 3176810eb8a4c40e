"""Header blocks: find, remove, set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.protocol.headers import find_header, remove_header, set_header, status_header

BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-X:  two\r\nNats-X: three\r\n\r\n"


def test_find_takes_the_first_and_cuts_leading_blanks() -> None:
    assert find_header(b"Nats-X", BLOCK) == b"two"
    assert find_header(b"nats-x", BLOCK) is None
    assert find_header(b"ats-X", BLOCK) is None
    assert find_header(b"Nats-X", b"NATS/1.0\r\nNats-X: cut") is None


def test_remove_takes_every_line_of_the_key() -> None:
    size, body = remove_header(b"Nats-X", len(BLOCK), BLOCK + b"body")
    assert (size, body) == (18, b"NATS/1.0\r\nA: 1\r\n\r\nbody")


def test_remove_of_the_only_line_leaves_no_header() -> None:
    block = b"NATS/1.0\r\nK: v\r\n\r\n"
    assert remove_header(b"K", len(block), block + b"x") == (0, b"x")


def test_set_makes_a_block_when_there_is_none() -> None:
    assert set_header(b"K", b"v", 0, b"x") == (18, b"NATS/1.0\r\nK: v\r\n\r\nx")


def test_status() -> None:
    assert status_header(503) == b"NATS/1.0 503\r\n\r\n"
    assert status_header(404, "No Messages") == b"NATS/1.0 404 No Messages\r\n\r\n"


@given(st.binary(max_size=60), st.binary(max_size=10))
def test_any_bytes_are_survived(header: bytes, body: bytes) -> None:
    find_header(b"K", header)
    size, rest = remove_header(b"K", len(header), header + body)
    assert rest[size:] == body


@given(st.text("abc", min_size=1), st.text("xyz 1", max_size=8), st.binary(max_size=10))
def test_what_is_set_is_found_and_can_be_removed(key: str, value: str, body: bytes) -> None:
    size, message = set_header(key.encode(), value.encode(), 0, body)
    assert find_header(key.encode(), message[:size]) == value.lstrip(" ").encode()
    assert remove_header(key.encode(), size, message) == (0, body)
