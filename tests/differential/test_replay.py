"""Frames replayed one by one, and the same log scanned as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from models.records import Record, encode_frame
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.replay import frame_end, replay_frame
from slipstream.kernels.log.segload import load_into
from slipstream.kernels.log.segscan import SegmentScan

SALTS = st.integers(0, 2**64 - 1)
STEPS = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.just("msg"), st.sampled_from([b"a", b"a.b", b"c"]), st.sampled_from([0, 0, 9])),
            st.tuples(st.just("skip"), st.integers(0, 5)),
            st.tuples(st.just("trim"), st.integers(-3, 4)),
            st.tuples(st.just("note"), st.binary(max_size=4)),
        ),
        min_size=1,
        max_size=5,
    ),
    min_size=1,
    max_size=5,
)


def written(steps: list[list[tuple]]) -> tuple[list[list[Record]], list[int]]:
    """Frames of records, and the sequence that the log has reached behind each."""
    frames, ends, last = [], [], 0
    for step in steps:
        records = []
        for what in step:
            if what[0] == "msg":
                last += 1
                records.append(Record(last, 10 * last, what[1], b"h" * (last % 2), b"p%d" % last, expires=what[2]))
            elif what[0] == "skip":
                records.append(Record(last + 1, 0, b"", b"", (last + 1 + what[1]).to_bytes(8, "little"), kind=4))
                last += 1 + what[1]
            elif what[0] == "trim":
                first = max(last + 1 + what[1], 1)
                records.append(Record(first, 0, b"", b"", b"", kind=3))
                last = max(last, first - 1)
            else:
                records.append(Record(last, 0, b"key", b"", what[1], kind=13))
        frames.append(records)
        ends.append(last)
    return frames, ends


@given(STEPS, SALTS)
def test_replaying_is_scanning(steps: list[list[tuple]], salt: int) -> None:
    frames, ends = written(steps)
    # Every second one has room for a seal.
    parts = [encode_frame(records, no=no, salt=salt, room=no % 2 * 24) for no, records in enumerate(frames, 1)]
    whole = b"".join(parts)
    scan = SegmentScan(whole, 0, salt, 1, 0)
    while scan.step(1000):
        pass
    loaded, replayed = MessageIndex(1), MessageIndex(2)
    load_into(scan, loaded, 4)
    controls, expiries, at, last = [], [], 0, 0
    for part, end in zip(parts, ends, strict=True):
        found_end = frame_end(whole, at, salt, last)
        assert found_end is not None and found_end[0] == end
        found = replay_frame(b"before.." + part, 8, salt, replayed, 4, at)
        assert found is not None and replayed.last_seq == end
        controls += found[0]
        expiries += found[1]
        at, last = at + len(part), end
    replayed.check()
    assert controls == scan.controls and expiries == scan.expiries
    assert (replayed.messages, replayed.last_seq) == (loaded.messages, max(loaded.last_seq, last))
    for seq in range(1, last + 1):
        assert replayed.locate(seq) == loaded.locate(seq)


@given(STEPS, SALTS, st.data())
def test_a_frame_that_is_damaged_or_does_not_follow_changes_nothing(
    steps: list[list[tuple]], salt: int, data: st.DataObject
) -> None:
    frames, _ = written(steps)
    part = encode_frame(frames[0], no=1, salt=salt)
    index = MessageIndex(1)
    at = data.draw(st.integers(0, len(part) - 1))
    hurt = part[:at] + bytes([part[at] ^ data.draw(st.integers(1, 255))]) + part[at + 1 :]
    found = replay_frame(hurt, 0, salt, index, 1, 0)
    if found is None:  # else it was the padding
        assert (index.messages, index.last_seq) == (0, 0) and frame_end(hurt, 0, salt, 0) is None
    assert replay_frame(part[:at], 0, salt, MessageIndex(1), 1, 0) is None
    assert replay_frame(part, -8, salt, MessageIndex(1), 1, 0) is None
    if any(record.kind == 1 for record in frames[0]):
        ahead = MessageIndex(1)
        ahead.skip_to(100)
        assert replay_frame(part, 0, salt, ahead, 1, 0) is None and ahead.messages == 0
