"""Logs for tests of what reads them: what was written, as bytes and in an index, and which of it passes a filter."""

from __future__ import annotations

from hypothesis import strategies as st

from models.records import Record
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.subjects.subject import matches

__all__ = ["FILTERS", "SUBJECTS", "logs", "passing"]

SUBJECTS = st.sampled_from([b"a", b"a.b", b"a.c", b"b.c", b"x.y.z"])
FILTERS = st.lists(st.sampled_from([b"a", b"a.*", b"*.c", b">", b"x.>", b"none"]), max_size=2)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Record], bytes, MessageIndex, int]:
    """A log of two segments in one buffer, with gaps and removed messages."""
    salt = draw(st.integers(0, 2**64 - 1))
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(1, salt, 0, 1 << 30, 0)
    seq, records = 0, []
    for subject, payload, headers, expires in draw(
        st.lists(st.tuples(SUBJECTS, st.binary(max_size=60), st.sampled_from([b"", b"h"]), st.sampled_from([0, 9]))),
    ):
        gap = draw(st.sampled_from([0, 0, 0, 2]))
        if gap:
            seq += gap
            index.skip_to(seq)
        seq += 1
        records.append(Record(seq, seq * 10, subject, headers, payload, expires=expires))
        assert writer.append(seq, seq * 10, subject, headers, payload, expires)
        if draw(st.booleans()):
            writer.control(12, seq, 0, b"", b"")  # something else between messages
    data = writer.take()
    removed = draw(st.sets(st.sampled_from([record.seq for record in records]))) if records else set()
    for gone in removed:
        index.delete(gone)
    return [record for record in records if record.seq not in removed], data, index, salt


def passing(records: list[Record], filters: list[bytes], first: int, last: int) -> list[Record]:
    return [
        record
        for record in records
        if first <= record.seq <= last and (not filters or any(matches(one, record.subject) for one in filters))
    ]
