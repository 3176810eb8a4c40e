"""Rows encoded into given memory are those of `next_piece`, whatever its size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from slipstream.bulk.encode import begin_batch, encode_batch  # noqa: E402
from slipstream.kernels.bulk.rowrecords import RowEncoder  # noqa: E402

ROWS = st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.binary(max_size=90), st.booleans()), max_size=12)


@given(ROWS, st.integers(0, 400), st.booleans())
def test_slots_of_any_size(rows: list[tuple[str, bytes, bool]], size: int, twice: bool) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([subject for subject, _, _ in rows], pa.string()),
            pa.array([payload for _, payload, _ in rows], pa.binary()),
            pa.array([f"id-{at}" if has_id else None for at, (_, _, has_id) in enumerate(rows)], pa.string()),
        ],
        names=["subject", "payload", "msg_id"],
    )
    plain, filled = RowEncoder(), RowEncoder()
    expected, found = b"", b""
    for _ in range(2 if twice else 1):
        expected += b"".join(encode_batch(plain, batch))
        begin_batch(filled, batch)
        assert filled.left == len(rows)
        while filled.left:
            room = bytearray(b"\xaa" * (size + 8))
            used = filled.fill(memoryview(room)[:size])
            assert used <= size and room[size:] == b"\xaa" * 8, "nothing is written behind the slot"
            if used:
                found += room[:used]
            else:
                found += filled.next_piece() or b""
        assert filled.fill(bytearray(64)) == 0 and filled.next_piece() is None
    assert found == expected
    assert (filled.rows, filled.size, filled.crc) == (plain.rows, plain.size, plain.crc)


def test_rows_that_cannot_be_messages() -> None:
    encoder = RowEncoder()
    batch = pa.RecordBatch.from_arrays([pa.array(["a", ""]), pa.array([b"", b""])], names=["subject", "payload"])
    begin_batch(encoder, batch)
    with pytest.raises(ValueError, match="row 1 has no subject"):
        encoder.fill(bytearray(1024))
    begin_batch(encoder, batch)
    with pytest.raises(BufferError):
        encoder.fill(b"read only")  # type: ignore[arg-type]
