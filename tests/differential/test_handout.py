"""The hand-out kernel against its plain model: the same frames, the same counts, for any batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.handout import frames
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.kernels.fastpath.handout import Batch, hand_out, is_congested
from slipstream.kernels.log.record import RECORD_HEAD, StoredMessage
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.kernels.wire.receivers import Subscription

HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
SIDS = {b"inbox.1": b"1", b"inbox.2": b"77"}
message = st.tuples(
    st.sampled_from([b"a", b"a.b", b"orders.new"]),
    st.sampled_from([b"", HEADER]),
    st.binary(max_size=40),
    st.sampled_from([0, 0, 1_900_000_000_000_000_000]),
)


def filled(messages: list[tuple[bytes, bytes, bytes, int]]) -> MemoryStore:
    store = MemoryStore(b"", random64=lambda: 7)
    for seq, (subject, headers, payload, expires_ns) in enumerate(messages, 1):
        store.append(seq, seq * 1_000_003, subject, headers, payload, expires_ns)
        if seq == 3:
            store.delete(2)
    job = store.begin_commit()
    assert job is not None
    job.run()
    store.finish_commit(job)
    return store


@given(
    messages=st.lists(message, min_size=1, max_size=12),
    filters=st.sampled_from([(), (b"a",), (b"a.>", b"orders.*")]),
    from_seq=st.integers(0, 13),
    max_msgs=st.integers(1, 15),
    max_bytes=st.integers(0, 400),
    spread=st.booleans(),
    dseq=st.integers(0, 2**40),
    pending=st.integers(0, 20),
    budget=st.integers(-5, 600),
    headers_only=st.booleans(),
)
def test_kernel_agrees_with_model(
    messages: list[tuple[bytes, bytes, bytes, int]],
    filters: tuple[bytes, ...],
    from_seq: int,
    max_msgs: int,
    max_bytes: int,
    spread: bool,
    dseq: int,
    pending: int,
    budget: int,
    headers_only: bool,
) -> None:
    store = filled(messages)
    bounds = {"max_msgs": max_msgs, "max_bytes": max_bytes, "up_to_seq": store.last_seq}
    batch = store.gather(filters, from_seq, **bounds)
    expected = [found for found in store.read_batch(filters, from_seq, **bounds) if isinstance(found, StoredMessage)]
    assert [batch.message(i) for i in range(len(batch))] == expected
    assert batch.seqs(0, len(batch)) == [found.seq for found in expected]
    sizes = [len(found.subject) + len(found.headers) + len(found.payload) for found in expected]
    expiries = sum(8 for found in expected if found.expires_ns)
    assert batch.record_bytes == sum(sizes) + RECORD_HEAD * len(expected) + expiries

    interest, delivery = Interest(16), Delivery(1)
    outbox = Outbox(FlushQueue(lambda: None), None, 1 << 20)
    for subject, sid in SIDS.items():
        subscription = Subscription(subject, None, sid, outbox)
        subscription.headers = True
        interest.insert(subscription)
    each = [(b"inbox.1", b"inbox.2", b"nobody")[i % 3] if spread else b"inbox.1" for i in range(len(expected))]
    targets: bytes | list[bytes] = each if spread else b"inbox.1"
    prefix = b"$JS.ACK.S.C.1."
    result = hand_out(
        delivery, interest, targets, batch, 0, len(batch), prefix, dseq, pending, budget, headers_only=headers_only
    )
    out, told = frames(expected, each, SIDS, prefix, dseq, pending, budget, headers_only=headers_only)
    assert result == told
    assert b"".join(outbox.take()) == out


@given(
    messages=st.lists(message, min_size=1, max_size=12),
    filters=st.sampled_from([(), (b"a",), (b"a.>", b"orders.*")]),
    from_seq=st.integers(0, 13),
    max_msgs=st.integers(1, 15),
    segment=st.sampled_from([1, 1, 1, 2]),
    start=st.integers(0, 300),
    length=st.integers(0, 600),
)
def test_a_guess_where_the_bytes_are_takes_nothing_else(
    messages: list[tuple[bytes, bytes, bytes, int]],
    filters: tuple[bytes, ...],
    from_seq: int,
    max_msgs: int,
    segment: int,
    start: int,
    length: int,
) -> None:
    store = filled(messages)
    data, base, salt = store.slabs.slice(1, 0, 1, 1 << 20)
    assert base == 0
    bounds = (filters, from_seq, store.last_seq, max_msgs, 1 << 20)
    batch = Batch()
    is_whole = batch.choose(store.state.index, *bounds, segment, start, data[start : start + length], salt)
    expected = store.gather(filters, from_seq, max_msgs=max_msgs, max_bytes=1 << 20, up_to_seq=store.last_seq)
    everything = [expected.message(i) for i in range(len(expected))]
    assert len(batch.chosen) == len(everything)
    taken = [batch.message(i) for i in range(len(batch))]
    assert taken == everything[: len(taken)]
    assert is_whole is (len(taken) == len(everything))
    places = [batch.chosen.place(i) for i in range(len(everything))]
    inside = [segment == 1 and start <= at and at + size + 8 <= start + length for _, _, at, size in places]
    # What lies inside as a whole is taken, up to the first that does not.
    assert len(taken) >= [*inside, False].index(False)
    assert batch.take(data, 0, salt) == len(everything)
    assert [batch.message(i) for i in range(len(batch))] == everything


@given(messages=st.lists(message, min_size=1, max_size=30), first=st.integers(0, 31), last=st.integers(0, 31))
def test_subjects_of_a_range(messages: list[tuple[bytes, bytes, bytes, int]], first: int, last: int) -> None:
    store = filled(messages)
    stored = [store.get(seq) for seq in range(first, last + 1)]
    expected = dict.fromkeys(found.subject for found in stored if isinstance(found, StoredMessage))
    assert store.subjects_between(first, last) == list(expected)


@given(
    messages=st.lists(message, min_size=1, max_size=20),
    seqs=st.sets(st.integers(1, 22), max_size=12),
    max_bytes=st.integers(0, 300),
)
def test_chosen_sequences(messages: list[tuple[bytes, bytes, bytes, int]], seqs: set[int], max_bytes: int) -> None:
    store = filled(messages)
    batch = store.gather_seqs(sorted(seqs), max_bytes=max_bytes)
    expected, used = [], 0
    for seq in sorted(seqs):
        found = store.get(seq)
        if not isinstance(found, StoredMessage):
            break
        used += len(found.subject) + len(found.headers) + len(found.payload)
        if expected and used > max_bytes:
            break
        expected.append(found)
    assert [batch.message(i) for i in range(len(batch))] == expected


@given(
    messages=st.lists(message, min_size=1, max_size=20),
    filters=st.sampled_from([(), (b"a",), (b"a.>", b"orders.*")]),
    from_seq=st.integers(0, 22),
    max_msgs=st.integers(0, 25),
)
def test_subjects_of_the_next_and_heads(
    messages: list[tuple[bytes, bytes, bytes, int]], filters: tuple[bytes, ...], from_seq: int, max_msgs: int
) -> None:
    store = filled(messages)
    expected = (
        []
        if not max_msgs
        else store.read_batch(filters, from_seq, max_msgs=max_msgs, max_bytes=1 << 20, up_to_seq=store.last_seq)
    )
    seqs, subjects = store.subjects_from(filters, from_seq, max_msgs=max_msgs, up_to_seq=store.last_seq)
    found = [each for each in expected if isinstance(each, StoredMessage)]
    assert list(zip(seqs, subjects, strict=True)) == [(each.seq, each.subject) for each in found]
    backwards = [each.seq for each in reversed(found)]
    batch = store.gather_seqs(backwards, max_bytes=1 << 20)
    assert batch.seqs(0, len(batch)) == backwards
    assert [batch.head(i) for i in range(len(batch))] == [(each.subject, each.headers) for each in reversed(found)]
    with pytest.raises(IndexError):
        batch.head(len(batch))


def test_bounds_are_checked() -> None:
    batch = filled([(b"a", b"", b"x", 0)]).gather((), 0, max_msgs=5, max_bytes=100, up_to_seq=1)
    arguments = (Delivery(1), Interest(16))
    for start, count in ((-1, 1), (0, 2), (1, 1), (0, -1)):
        with pytest.raises(IndexError):
            hand_out(*arguments, b"x", batch, start, count, b"p.", 0, 1, 10)
    with pytest.raises(IndexError):
        hand_out(*arguments, [], batch, 0, 1, b"p.", 0, 1, 10)
    with pytest.raises(ValueError, match="too long"):
        hand_out(*arguments, b"x", batch, 0, 1, b"p" * 66_000, 0, 1, 10)
    for bad in (-1, 1):
        with pytest.raises(IndexError):
            batch.message(bad)
        with pytest.raises(IndexError):
            batch.seq(bad)
    with pytest.raises(IndexError):
        batch.seqs(0, 2)


@given(cut=st.integers(0, 200), flip=st.integers(0, 199))
def test_damage_ends_a_batch(cut: int, flip: int) -> None:
    store = filled([(b"a", b"", b"x" * 10, 0)] * 4)
    whole = store.gather((), 0, max_msgs=9, max_bytes=1000, up_to_seq=4)
    data, base, salt = store.slabs.slice(1, whole.chosen.place(0)[1], 1, 1 << 20)
    at = base + min(flip, len(data) - 1)
    bad = data[: at - base] + bytes([data[at - base] ^ 1]) + data[at - base + 1 :]
    good = 0
    for i in range(len(whole)):
        _, _, offset, length = whole.chosen.place(i)
        if offset <= at < offset + length:
            break
        good += 1
    batch = Batch()
    store.state.index.select((), 0, 4, 9, 1000, batch.chosen)
    assert batch.take(bad, base, salt) == good
    assert [batch.message(i) for i in range(good)] == [whole.message(i) for i in range(good)]
    short = Batch()
    store.state.index.select((), 0, 4, 9, 1000, short.chosen)
    assert short.take(data[:cut], base, salt) <= 3


@given(levels=st.lists(st.integers(0, 130), min_size=3, max_size=3), most=st.integers(0, 130))
def test_who_is_near_a_limit_is_congested(levels: list[int], most: int) -> None:
    interest = Interest(16)
    queue = FlushQueue(lambda: None)
    boxes = [Outbox(queue, None, 200) for _ in levels]
    for box, level, (subject, group) in zip(
        boxes, levels, [(b"a", None), (b"*", None), (b"a", b"workers")], strict=True
    ):
        box.stall_at = 100
        box.in_flight = level // 2
        box.write(b"x" * (level - level // 2))
        interest.insert(Subscription(subject, group, b"1", box))
    bound = min(most, 100)
    assert is_congested(interest, b"a", most) == any(level > bound for level in levels)
    assert is_congested(interest, b"b", most) == (levels[1] > bound)
    assert not is_congested(interest, b"b.c", most)
