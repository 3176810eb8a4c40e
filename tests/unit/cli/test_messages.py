"""Headers on the wire and the words of a reply subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.cli.connection import Failure
from slipstream.cli.messages import decode_header, encode_header, print_body, read_delivery

_NAMES = st.text("abcXYZ-_1", min_size=1)
_VALUES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).map(str.strip)


@given(st.lists(st.tuples(_NAMES, _VALUES)))
def test_headers_survive_the_wire(headers: list[tuple[str, str]]) -> None:
    assert decode_header(encode_header(headers)) == headers


def test_a_status_is_shown_as_headers() -> None:
    assert decode_header(b"NATS/1.0 404 No Messages\r\n\r\n") == [("Status", "404"), ("Description", "No Messages")]
    assert decode_header(b"") == [] and encode_header([]) == b""


@given(st.binary(max_size=60))
def test_any_header_block_can_be_shown(block: bytes) -> None:
    decode_header(block)


def test_deliveries() -> None:
    plain = read_delivery("$JS.ACK.ORDERS.worker.2.7.9.1794720000000000000.4")
    assert plain is not None
    assert (plain.stream, plain.consumer, plain.tries, plain.stream_seq, plain.consumer_seq, plain.pending) == (
        "ORDERS",
        "worker",
        2,
        7,
        9,
        4,
    )
    with_domain = read_delivery("$JS.ACK.hub.HASH.ORDERS.worker.2.7.9.1794720000000000000.4.random")
    assert with_domain == plain
    for other in ("", "_INBOX.x", "$JS.ACK.a.b.x.7.9.1.4", "$JS.ACK.a.b"):
        assert read_delivery(other) is None


def test_bodies_go_through_commands(capsys: pytest.CaptureFixture[str]) -> None:
    print_body(b"abc", "tr a-c A-C")
    print_body(b"x", "echo {{Subject}} {{Stream}}", subject="s.1", stream="S")
    assert capsys.readouterr().out == "ABC\ns.1 S\n"
    for command in ("false", "/does/not/exist", "'"):
        with pytest.raises(Failure):
            print_body(b"x", command)
