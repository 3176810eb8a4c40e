"""Staged records on their way into a log: damage is found, and the check of a stage is that of a commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from models.records import Record, encode_record
from slipstream.kernels.bulk import stagedrows
from slipstream.kernels.bulk.stagedrows import StagedRows
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.subjects.subject import matches

SUBJECTS = st.sampled_from([b"a", b"a.b", b"b.c", b"long." + b"x" * 40])


@given(
    st.lists(st.tuples(SUBJECTS, st.sampled_from([b"", b"head"]), st.binary(max_size=40)), min_size=1, max_size=5),
    st.data(),
)
def test_a_changed_byte_is_never_committed(rows: list[tuple[bytes, bytes, bytes]], data: st.DataObject) -> None:
    records = [encode_record(Record(number, 0, *row), 0) for number, row in enumerate(rows, 1)]
    hurt = data.draw(st.integers(0, len(rows) - 1))
    subject, headers, payload = rows[hurt]
    at = data.draw(st.integers(0, 31 + len(subject) + len(headers) + len(payload)))
    changed = bytearray(records[hurt])
    changed[at] ^= data.draw(st.integers(1, 255))
    whole = b"".join((*records[:hurt], bytes(changed), *records[hurt + 1 :]))
    writer = LogWriter(MessageIndex(1))
    writer.open_segment(1, 5, 0, 1 << 30, 0)
    appended, checked = StagedRows((b">",)), StagedRows((b">",))
    appended.feed(whole)
    checked.feed(whole)
    done, reason = appended.append_to(writer, 1, 77, 1 << 30)
    assert done == hurt and reason in (stagedrows.BAD_RECORD, stagedrows.MORE)
    assert (checked.check(), checked.rows) == (reason, hurt)
    assert appended.unused > 0, "a length that reaches behind the end leaves bytes unused"


@given(st.lists(st.tuples(st.sampled_from([b"a.b", b"a.c", b"a", b"a." + b"x" * 300]), st.integers(0, 3)), max_size=12))
def test_checked_rows_are_those_that_would_be_appended(rows: list[tuple[bytes, int]]) -> None:
    whole = b"".join(encode_record(Record(n, 0, s, b"", bytes(size)), 0) for n, (s, size) in enumerate(rows, 1))
    checked, passed = StagedRows((b"a.*",), 2), StagedRows((b"a.*",), 2)
    checked.feed(whole)
    passed.feed(whole)
    _done, reason = passed.append_to(None, 0, 0, 1 << 30)
    assert (checked.check(), checked.rows, checked.crc, checked.size) == (reason, passed.rows, passed.crc, passed.size)
    good = next((n for n, (s, size) in enumerate(rows) if not matches(b"a.*", s) or size > 2), len(rows))
    assert checked.rows == good
