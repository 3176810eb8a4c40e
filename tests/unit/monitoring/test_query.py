"""Query strings, read with Go's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.monitoring.query import BadRequest, UrlQuery, decode_component


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_words_that_mean_yes(word: str) -> None:
    assert UrlQuery(f"auth={word}").flag("auth")


@pytest.mark.parametrize("word", ["", "0", "f", "F", "FALSE", "false", "False"])
def test_words_that_mean_no(word: str) -> None:
    assert not UrlQuery(f"auth={word}").flag("auth")


@pytest.mark.parametrize("word", ["yes", "tRUE", "2", "on", " 1"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(BadRequest) as refused:
        UrlQuery(f"auth={word}").flag("auth")
    assert str(refused.value) == (
        f"Error decoding boolean for 'auth': strconv.ParseBool: parsing \"{word}\": invalid syntax"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("-5", -5), ("%2B5", 5), ("007", 7), ("0" * 5000 + "1", 1), (str(2**63 - 1), 2**63 - 1)],
)
def test_numbers(text: str, value: int) -> None:
    assert UrlQuery(f"limit={text}").integer("limit") == value


@pytest.mark.parametrize("text", ["abc", "1_000", "0x10", "+5", "1.5", "--1", "٣", "5 "])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(BadRequest, match=r"Error decoding int for 'limit': strconv.Atoi: parsing .*: invalid syntax"):
        UrlQuery(f"limit={text}").integer("limit")


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 100_000])
def test_numbers_that_do_not_fit(text: str) -> None:
    with pytest.raises(BadRequest, match="value out of range"):
        UrlQuery(f"limit={text}").integer("limit")


def test_unsigned_numbers() -> None:
    assert UrlQuery(f"cid={2**64 - 1}").unsigned("cid") == 2**64 - 1
    with pytest.raises(BadRequest, match=r'uint64 for .cid.: strconv.ParseUint: parsing "-1": invalid syntax'):
        UrlQuery("cid=-1").unsigned("cid")
    with pytest.raises(BadRequest, match="value out of range"):
        UrlQuery(f"cid={2**64}").unsigned("cid")


def test_first_value_counts_and_broken_parts_are_dropped() -> None:
    assert UrlQuery("a=1&a=2").text("a") == "1"
    assert UrlQuery("a=%zz&a=2").text("a") == "2"
    assert UrlQuery("limit=5;offset=1&x=y").text("limit") == ""
    assert UrlQuery("a").text("a") == ""
    assert UrlQuery("a+b=c+d%20e").text("a b") == "c d e"


def test_plus_is_a_blank_in_queries_only() -> None:
    assert decode_component("a+b", plus=False) == "a+b"
    assert decode_component("%76arz", plus=False) == "varz"
    assert decode_component("%7", plus=False) is None


@given(st.text())
def test_any_query_is_read_without_surprise(text: str) -> None:
    query = UrlQuery(text)
    for read in (query.flag, query.integer, query.unsigned):
        for name in ("auth", "limit", text[:5]):
            try:
                read(name)
            except BadRequest as refused:
                str(refused).encode("utf-8", "surrogateescape")
