"""Pending removals against their plain model: what writers see, and what readers see before and after a commit."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from models.message_index import MessageIndexModel
from models.pending_removals import PendingRemovalsModel
from slipstream.kernels.index.pendingremovals import PendingRemovals
from slipstream.kernels.index.subjectindex import MessageIndex

SUBJECTS = st.sampled_from([b"a", b"b", b"a.b", b"a.c", b"x.y.z"])
FILTERS = st.lists(st.sampled_from([b"a", b"a.*", b">", b"x.>", b"nothing"]), max_size=2).map(tuple)
EDITS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([1, 1, 1, 2, 5000]), SUBJECTS, st.sampled_from([1, 1, 1, 700])),
    st.tuples(st.just("append"), st.just(1), SUBJECTS, st.just(1)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
    st.tuples(st.just("oldest"), SUBJECTS),
    st.tuples(st.just("newest"), SUBJECTS),
    st.tuples(st.just("many"), st.lists(st.integers(0, 30), max_size=8)),
    st.tuples(st.just("below"), st.integers(-3, 4)),
    st.tuples(st.just("below"), st.sampled_from([1200, 1800, 10_000])),
    st.tuples(st.just("log")),
    st.tuples(st.just("commit"), st.booleans(), st.booleans()),
    st.tuples(st.just("finish")),
)


def packed(seqs: list[int]) -> bytes:
    return array("Q", seqs).tobytes()


def unpacked(seqs: bytes) -> list[int]:
    return array("Q", seqs).tolist()


def apply(edit: tuple, index: MessageIndex, fast: PendingRemovals, plain: PendingRemovalsModel, busy: bool) -> bool:
    """Apply one change to both; whether a commit is in flight behind it."""
    left = plain.left()
    match edit:
        case ("append", step, subject, times):
            for _ in range(times):
                seq = plain.index.last_seq + step
                index.append(seq, subject, 64, 40 + step, 1)
                plain.index.append(seq, subject, 38 + step)
        case ("remove", back):
            seq = max(plain.index.last_seq - back, 0)
            assert fast.remove(seq) == plain.remove(seq)
        case ("oldest" | "newest", subject):
            first, last, _ = left.subject_state(subject)
            seq = first if edit[0] == "oldest" else last
            assert fast.remove(seq) == plain.remove(seq)
        case ("many", backs):
            seqs = [max(plain.index.last_seq - back, 0) for back in backs]
            assert unpacked(fast.remove_many(packed(seqs))) == [seq for seq in seqs if plain.remove(seq)]
        case ("below", ahead):
            to = max(left.first_seq + ahead, 0)
            assert fast.remove_below(to) == plain.remove_below(to)
        case ("log",):
            fast.log()
            plain.log()
        case ("commit", at_once, with_open):
            if with_open:
                fast.log()
                plain.log()
            took = fast.take()
            plain.take(anything=took)
            busy += took
            if at_once:
                return apply(("finish",), index, fast, plain, busy)
        case ("finish",):
            fast.settle()
            plain.settle()
            return max(busy - 1, 0)
    return busy


@settings(max_examples=300, deadline=None)
@given(st.lists(EDITS, max_size=40), FILTERS, st.integers(0, 3))
def test_writers_and_readers_each_see_their_state(edits: list[tuple], filters: tuple[bytes, ...], keep: int) -> None:
    index, shown = MessageIndex(3), MessageIndexModel()
    fast, plain = PendingRemovals(index), PendingRemovalsModel(shown)
    busy = False
    for edit in edits:
        busy = apply(edit, index, fast, plain, busy)
        index.check()
        # Readers: removed messages are there until their commit.
        for name in ("first_seq", "last_seq", "messages", "size_bytes", "num_subjects"):
            assert getattr(index, name) == getattr(shown, name), name
        # Writers: they are gone at once.
        left = plain.left()
        assert fast.first_seq == left.first_seq
        assert index.messages - fast.messages == left.messages
        assert index.size_bytes - fast.size_bytes == left.size_bytes
        assert bool(fast) or left.messages == shown.messages
        for subject in (b"a", b"b", b"a.b", b"a.c", b"x.y.z", b"none"):
            assert fast.subject_state(subject) == left.subject_state(subject), subject
        assert fast.last_matching(filters) == max(left.passing(filters), default=0)
        assert fast.count_matching(filters) == len(left.passing(filters))
    last = shown.last_seq
    assert unpacked(fast.matching_seqs(filters, last, keep)) == plain.matching(filters, last, keep)
    assert unpacked(fast.oldest_matching(filters, 2, last, 3)) == plain.left().passing(filters, 2, last)[:3]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(SUBJECTS, st.sampled_from([1, 1, 30])), max_size=30), st.integers(0, 400))
def test_counts_behind_a_sequence(appends: list[tuple[bytes, int]], cut: int) -> None:
    index, plain = MessageIndex(3), MessageIndexModel()
    for subject, times in appends:
        for _ in range(times):
            index.append(plain.last_seq + 1, subject, 64, 40, 1)
            plain.append(plain.last_seq + 1, subject, 38)
    behind = plain.passing((), cut + 1)
    before = {plain.subjects[seq] for seq in plain.passing((), 0, cut)}
    assert index.between(cut + 1, plain.last_seq + 1) == (len(behind), sum(plain.sizes[seq] for seq in behind))
    assert index.subjects_since(cut) == len({plain.subjects[seq] for seq in behind} - before)
    counts: dict[bytes, int] = {}
    for seq in behind:
        counts[plain.subjects[seq]] = counts.get(plain.subjects[seq], 0) + 1
    assert index.name_counts_since(cut) == counts
