"""The fast path to read a MSG.GET body says the same as the long one, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.jetstream.api.bodies import MSG_GET, is_empty, quick_get

TOKENS = b'{ } "seq" "last_by_subj" : , "a.b" "\\u0061" "" "\xc3\xa9" 7 0 07 -1 1.0 999999999999999999'.split(b" ")
pieces = st.lists(st.sampled_from([*TOKENS, b"18446744073709551616", b" ", b"\n"]), max_size=9).map(b"".join)


@given(body=st.one_of(pieces, st.sampled_from([b'{"seq": 5}', b'{"last_by_subj":"a.>"}\n'])))
def test_quick_agrees_with_general(body: bytes) -> None:
    quick = quick_get(body)
    if quick is not None:
        assert not is_empty(body)
        assert quick == MSG_GET.decode(body)


@pytest.mark.parametrize("body", [b'{"seq":5}', b'{"last_by_subj":"a.b"}', b' {"last_by_subj" : "a b" } '])
def test_common_bodies_take_the_fast_path(body: bytes) -> None:
    assert quick_get(body) == MSG_GET.decode(body)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"seq":0}', b'{"SEQ":5}', b'{"seq":5,"no_hdr":true}', b'{"seq":5}{}'])
def test_other_bodies_do_not(body: bytes) -> None:
    assert quick_get(body) is None
