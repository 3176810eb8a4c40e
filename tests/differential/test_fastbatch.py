"""The kernel that reads reply subjects of fast batches, against its plain model."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from models import fast_batch as model
from slipstream.kernels.fastpath.fastbatch import parse_reply

number = st.one_of(
    st.integers(0, 5).map(lambda value: b"%d" % value),
    st.integers(0, 10**20).map(lambda value: b"%d" % value),
    st.sampled_from([b"", b"00", b"01", b"0" * 19 + b"1", b"0" * 20 + b"1", b"+1", b"-1", b"1x", b"\xb2", b"65536"]),
    st.sampled_from([2**64 - 3, 2**64 - 2, 2**64 - 1, 2**64, 2**64 + 4]).map(lambda value: b"%d" % value),
)
word = st.sampled_from([b"", b"a", b"_INBOX", b"ok", b"$FI", b"x" * 70])
reply = st.builds(
    lambda prefix, batch, flow, gap, seq, kind, end: b".".join((*prefix, batch, flow, gap, seq, kind)) + end,
    st.lists(word, max_size=3),
    word,
    number,
    st.sampled_from([b"ok", b"fail", b"ok", b"fail", b"", b"okay", b"Ok", b"fai"]),
    number,
    number,
    st.sampled_from([b".$FI", b".$FI", b".$FI", b".$F", b"", b".$FI."]),
)


@given(reply=st.one_of(reply, st.binary(max_size=40), st.binary(max_size=40).map(lambda text: text + b".$FI")))
@example(reply=b".$FI")
@example(reply=b"p.id.10.ok.1.0.$FI")
@example(reply=b".id.10.ok.2.1.$FI")
@example(reply=b"id.10.ok.2.1.$FI")
def test_kernel_agrees_with_model(reply: bytes) -> None:
    assert parse_reply(reply) == model.parse_reply(reply)
