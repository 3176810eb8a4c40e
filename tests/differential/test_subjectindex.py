"""The compiled index against its plain model, over random histories."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.message_index import MessageIndexModel
from slipstream.kernels.index.subjectindex import MessageIndex, Selection

TOKENS = st.sampled_from([b"a", b"b", b"c", b"dd"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(b".".join)
FILTERS = st.lists(
    st.lists(TOKENS | st.just(b"*"), min_size=1, max_size=3).map(b".".join)
    | st.sampled_from([b">", b"a.>", b"*.b.>", b"*.>", b"a", b"nothing"]),
    max_size=3,
).map(tuple)
LENGTHS = st.integers(min_value=33, max_value=200)
HEADERS = 0x80000000

EDITS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3), SUBJECTS, LENGTHS),
    st.tuples(st.just("append"), st.integers(1, 3), SUBJECTS, LENGTHS),
    st.tuples(st.just("append"), st.sampled_from([1, 1, 1, 70, 5000, 5_000_000_000]), SUBJECTS, LENGTHS),
    st.tuples(st.just("delete"), st.integers(0, 40)),
    st.tuples(st.just("newest"), SUBJECTS),
    st.tuples(st.just("oldest"), SUBJECTS),
    st.tuples(st.just("trim"), st.integers(0, 10)),
    st.tuples(st.just("skip"), st.integers(0, 100)),
    st.tuples(st.just("segment")),
    st.tuples(st.just("shrink")),
)


def run(edits: list[tuple], *, file_sizes: bool) -> tuple[MessageIndex, MessageIndexModel]:
    """Apply the same history to both."""
    fast, plain = MessageIndex(7, file_sizes), MessageIndexModel()
    apply(edits, fast, plain, 1, file_sizes=file_sizes)
    return fast, plain


def apply(edits: list[tuple], fast: MessageIndex, plain: MessageIndexModel, segment: int, *, file_sizes: bool) -> None:
    for edit in edits:
        match edit:
            case ("append", step, subject, length):
                seq = plain.last_seq + step
                with_headers = length % 2 == 0
                fast.append(seq, subject, 64, length | (HEADERS if with_headers else 0), segment)
                plain.append(seq, subject, (length + (2 if with_headers else -2)) if file_sizes else length - 16)
            case ("delete", back):
                seq = plain.last_seq - back
                if seq > 0:
                    assert fast.delete(seq) == plain.delete(seq)
            case ("newest" | "oldest", subject):
                first, last, count = plain.subject_state(subject)
                if count:
                    seq = last if edit[0] == "newest" else first
                    assert fast.delete(seq) and plain.delete(seq)
            case ("trim", ahead):
                to = plain.first_seq + ahead
                assert fast.trim_to(to) == plain.trim_to(to)
            case ("skip", ahead):
                fast.skip_to(plain.last_seq + ahead)
                plain.skip_to(plain.last_seq + ahead)
            case ("segment",):
                segment += 1
            case ("shrink",):
                fast.shrink()
        fast.check()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(EDITS, max_size=30),
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 70, 5000]), SUBJECTS, LENGTHS, st.booleans()), max_size=30),
    st.sampled_from([1, 1, 20, 60]),
    st.lists(EDITS, max_size=20),
    st.booleans(),
)
def test_messages_of_another_index_change_hands(
    before: list[tuple], unit: list[tuple[int, bytes, int, bool]], repeated: int, after: list[tuple], sizes: bool
) -> None:
    """What a staged index gives to the stream's is what appending to it would have given."""
    fast, plain = run(before, file_sizes=sizes)
    staged = MessageIndex(9)
    staged.skip_to(fast.last_seq)
    segment = 1000
    for _ in range(repeated):
        for step, subject, length, rolls in unit:
            segment += rolls
            seq = staged.last_seq + step
            staged.append(seq, subject, 64, length, segment)
            plain.append(seq, subject, length - (2 if sizes else 16))
    state = (fast.messages, fast.last_seq)
    fast.check()
    assert (fast.messages, fast.last_seq) == state
    fast.absorb(staged)
    fast.check()
    apply(after, fast, plain, segment + 1, file_sizes=sizes)
    for name in ("first_seq", "last_seq", "messages", "size_bytes", "num_subjects"):
        assert getattr(fast, name) == getattr(plain, name), name
    for subject in {b"nothing", *(subject for _, subject, _, _ in unit)}:
        assert fast.subject_state(subject) == plain.subject_state(subject)
        chosen = Selection()
        count = fast.select((subject,), 0, 1 << 62, 10**6, 1 << 60, chosen)
        assert [chosen.place(k)[0] for k in range(count)] == plain.passing((subject,), 0, 1 << 62)


@given(st.lists(EDITS, max_size=40), st.lists(EDITS, max_size=10))
def test_sizes_may_be_counted_as_in_memory_later(before: list[tuple], after: list[tuple]) -> None:
    known, _ = run([*before, *after], file_sizes=False)
    fast, plain = run(before, file_sizes=True)
    for _ in range(2):  # the second time it changes nothing
        fast.count_as_memory()
        fast.check()
    apply(after, fast, plain, 1000, file_sizes=False)
    assert (fast.messages, fast.size_bytes) == (known.messages, known.size_bytes)


def test_only_newer_messages_change_hands() -> None:
    fast, staged = MessageIndex(1), MessageIndex(2)
    fast.append(5, b"a", 64, 40, 1)
    staged.append(5, b"a", 64, 40, 2)
    with pytest.raises(ValueError, match="not newer"):
        fast.absorb(staged)
    with pytest.raises(ValueError, match="not newer"):
        fast.absorb(fast)


@settings(max_examples=300, deadline=None)
@given(st.lists(EDITS, max_size=60), st.lists(FILTERS, min_size=1, max_size=4), st.integers(0, 60), st.booleans())
def test_index_agrees_with_model(edits: list[tuple], filters: list[tuple[bytes, ...]], back: int, sizes: bool) -> None:
    fast, plain = run(edits, file_sizes=sizes)
    for name in ("first_seq", "last_seq", "messages", "size_bytes", "num_subjects"):
        assert getattr(fast, name) == getattr(plain, name), name
    start = max(plain.last_seq - back, 0)
    chosen = Selection()
    # `run` gives headers to the messages of even length.
    with_headers = [seq for seq in plain.passing((), start) if plain.sizes[seq] % 2 == 0]
    assert fast.next_with_headers(start) == (with_headers[0] if with_headers else 0)
    removed = memoryview(fast.removed_seqs(set(), with_headers=True)).cast("Q").tolist()
    assert removed == [seq for seq in plain.removed if plain.sizes[seq] % 2 == 0]
    for wanted in filters:
        if back % 2:
            while not fast.prepare(wanted, 1 + back % 5):
                pass
        passing = plain.passing(wanted, start)
        assert fast.next_seq(wanted, start) == (passing[0] if passing else 0)
        assert fast.count_matching(wanted, start) == len(passing)
        assert fast.count_matching(wanted, 0) == len(plain.passing(wanted))
        for up_to in (0, start, start + back // 2, plain.last_seq, plain.last_seq + 1):
            assert fast.count_matching(wanted, start, up_to) == len([seq for seq in passing if seq <= up_to])
        assert fast.last_matching(wanted) == max(plain.passing(wanted), default=0)
        assert fast.subjects_matching(wanted) == plain.subjects_matching(wanted)
        pages = fast.subject_pages(wanted)
        pages.sort()
        assert len(pages) == len(plain.subjects_matching(wanted))
        assert pages.page(0, 1) + pages.page(1, len(pages)) == plain.subjects_matching(wanted)
        earlier = fast.subject_pages(wanted, start)
        earlier.sort()
        counts = Counter(plain.subjects[seq] for seq in plain.passing(wanted) if seq <= start)
        assert earlier.page(0, len(earlier)) == sorted(counts.items())
        for bound in (0, start):
            newest = memoryview(fast.last_per_subject(wanted, bound)).cast("Q")
            assert newest.tolist() == plain.last_per_subject(wanted, bound)
        fast.select(wanted, start, plain.last_seq, 10, 1 << 40, chosen)
        assert [chosen.place(i)[0] for i in range(len(chosen))] == passing[:10]
    if plain.last_seq < 100_000:
        assert fast.deleted(50) == plain.deleted(50)
    for subject in set(plain.subjects.values()) | {b"a.b"}:
        assert fast.subject_state(subject) == plain.subject_state(subject)


@settings(max_examples=50, deadline=None)
@given(st.lists(EDITS, max_size=40))
def test_segments_can_be_dropped_when_dead(edits: list[tuple]) -> None:
    """Dropping dead segments changes no answer, also where chains led through them."""
    fast, plain = run(edits, file_sizes=True)
    for segment in range(1, 45):
        if not fast.segment_has_live(segment):
            fast.drop_segment(segment)
    fast.check()
    assert fast.messages == plain.messages
    assert sum(len(fast.live_seqs(segment)) // 8 for segment in range(1, 45)) == plain.messages


def test_names_of_gone_subjects_are_reused() -> None:
    """A stream whose subjects come and go does not grow."""
    index = MessageIndex(1)
    for seq in range(1, 30_001):
        index.append(seq, b"subject.number.%d" % seq, 64, 100, seq // 1000)
        index.delete(max(seq - 10, 0))
    before = index.memory()[1]
    for seq in range(30_001, 60_001):
        index.append(seq, b"subject.number.%d" % seq, 64, 100, seq // 1000)
        index.delete(max(seq - 10, 0))
    index.check()
    assert index.num_subjects == 10
    assert index.memory()[1] <= before


def test_filters_must_be_bytes() -> None:
    """A filter of another type is refused before the kernel reads its memory."""
    index = MessageIndex(1)
    for filters in (("a",), (b"a", "b"), (None,)):
        with pytest.raises(TypeError):
            index.next_seq(filters, 1)  # type: ignore[arg-type]
