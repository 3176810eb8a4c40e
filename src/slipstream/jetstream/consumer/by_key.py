"""Orders other than the stream's: a bounded number of messages is looked at ahead of their turn (ADR 93).

    store ──keys──► KeyQueues ──chosen──► handed out ──► in flight ──done──► their key may go again

What was passed over is in `AckEngine.ahead`, and in the journal with the next delivery: it survives a restart. The keys
of it, and of what is in flight, are read again then.

Invariant: what waits in the queues, or is chosen, is exactly what is in `AckEngine.ahead`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from slipstream.jetstream.consumer.key_queues import KeyQueues, KeyRate, LowestFirst, OldestFirst, TurnByTurn
from slipstream.jetstream.consumer.limits import (
    AHEAD_READ_MSGS,
    AHEAD_SLICE_MSGS,
    CONSUMER_CAREFUL_MSGS,
    CONSUMER_SLICE_BYTES,
)
from slipstream.jetstream.consumer.ordering import Ordering, OrderKind
from slipstream.jetstream.ports import Cancel
from slipstream.jetstream.store.values import Damaged, Read, StoredMessage
from slipstream.kernels.fastpath.handout import Batch

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer
    from slipstream.jetstream.consumer.undelivered import Undelivered

__all__ = ["ByKey"]


class ByKey:
    """An order by keys."""

    follows_stream = False

    def __init__(self, consumer: Consumer, undelivered: Undelivered, ordering: Ordering) -> None:
        """Read for this consumer; keys of what was passed over before are read when they are needed."""
        self._consumer = consumer
        self._store = consumer.store
        self._undelivered = undelivered
        self.ordering = ordering
        # Fairness and priorities compare what is there; the others need to look on only when nothing may go.
        self._eager = ordering.kind in (OrderKind.FAIR, OrderKind.PRIORITY)
        self._timer: Cancel | None = None
        self._fresh: list[int] = []  # passed over, and not in the journal
        self._subject_keys: dict[bytes, bytes] = {}
        self.queues = self._begin()
        self._is_restored = False
        self._chosen: list[int] = []  # for the batch that comes next
        self._read_left = 0  # keys that may still be read in this slice

    def _begin(self) -> KeyQueues:
        ordering = self.ordering
        rate = KeyRate(ordering.interval_ns) if ordering.interval_ns else None
        if ordering.kind is OrderKind.FAIR:
            return KeyQueues(TurnByTurn(), rate)
        if ordering.kind is OrderKind.PRIORITY:
            return KeyQueues(LowestFirst())
        return KeyQueues(OldestFirst(), rate, one_in_flight=ordering.kind is OrderKind.KEY_SHARED)

    @property
    def _ahead(self) -> dict[int, None]:
        ahead = self._consumer.state.acks.ahead
        assert ahead is not None
        return ahead

    @property
    def is_full(self) -> bool:
        """Whether no more messages are looked at ahead of their turn."""
        return len(self._ahead) >= self.ordering.ahead

    # --- what is next ---

    def ready(self, most: int, pending: int) -> int:
        """See `MessageSource.ready`."""
        if not self._chosen:
            self._chosen = self._choose(most)
        return len(self._chosen)

    def gather(self, most: int, max_bytes: int) -> Batch:
        """See `MessageSource.gather`."""
        seqs = self._take_chosen(most)
        if self.ordering.kind is OrderKind.KEY_SHARED:
            seqs.sort()  # each of another key: their order means nothing, and reading on is faster than back
        batch = self._store.gather_seqs(seqs, max_bytes=max_bytes)
        if len(batch) < len(seqs):
            self.put_back(seqs[len(batch) :])
        return batch

    def read(self, most: int, max_bytes: int) -> list[Read]:
        """See `MessageSource.read`."""
        most = min(most, CONSUMER_CAREFUL_MSGS)
        seqs = self._take_chosen(most) or self._choose(most)
        found: list[Read] = []
        size = 0
        for at, seq in enumerate(seqs):
            if size >= max_bytes:
                self.put_back(seqs[at:])
                break
            message = self._store.get(seq)
            if message is None:
                self.passed([seq])
                self._undelivered.recount()
                continue
            found.append(message)
            if isinstance(message, StoredMessage):
                size += len(message.headers) + len(message.payload)
        if not found:
            self._arm()
            if seqs:
                self._consumer.wake()  # what was chosen is gone; there may be more
        return found

    def _take_chosen(self, most: int) -> list[int]:
        seqs, self._chosen = self._chosen, []
        if len(seqs) > most:
            self.put_back(seqs[most:])
            del seqs[most:]
        return seqs

    def put_back(self, seqs: list[int]) -> None:
        """See `MessageSource.put_back`."""
        for seq in reversed(seqs):
            self.queues.put_back(seq)

    def _choose(self, most: int) -> list[int]:
        self._restore()
        now_ns = self._consumer.ports.now_ns()
        self._read_left = AHEAD_SLICE_MSGS
        while self._eager and self._look_ahead():
            pass
        seqs = self.queues.choose(most, now_ns)
        while len(seqs) < most and self._look_ahead():
            seqs += self.queues.choose(most - len(seqs), now_ns)
        return seqs

    def _look_ahead(self) -> bool:
        """Read the keys of the next messages. False: there are none, or enough is known."""
        consumer, store, ahead = self._consumer, self._store, self._ahead
        state, committed_seq = consumer.state, store.committed_seq
        most = min(AHEAD_READ_MSGS, self.ordering.ahead - len(ahead), self._read_left)
        if most <= 0 or state.next_seq > committed_seq:
            return False
        self._undelivered.pending()  # counts what is behind the position, which moves
        seqs, keys = self._keys_from(state.next_seq, most, committed_seq)
        state.next_seq = seqs[-1] + 1 if seqs else committed_seq + 1
        self._read_left -= most
        ahead.update(dict.fromkeys(seqs))
        self._fresh += seqs
        self.queues.add(seqs, keys)
        if seqs:
            consumer.owner.tracking(consumer)
        return bool(seqs)

    def _keys_from(self, from_seq: int, most: int, up_to_seq: int) -> tuple[list[int], list[bytes]]:
        consumer, store = self._consumer, self._store
        filters, ordering = consumer.filters.for_store, self.ordering
        if not ordering.key.header:
            seqs, subjects = store.subjects_from(filters, from_seq, max_msgs=most, up_to_seq=up_to_seq)
            if ordering.key.token:
                return seqs, [self._key(subject, b"") for subject in subjects]
            return seqs, subjects
        bounds = {"max_msgs": most, "max_bytes": CONSUMER_SLICE_BYTES, "up_to_seq": up_to_seq}
        batch = store.gather(filters, from_seq, **bounds)
        if batch:
            return batch.seqs(0, len(batch)), [self._key(*batch.head(i)) for i in range(len(batch))]
        found = store.read_batch(filters, from_seq, **bounds)
        keys = [b"" if isinstance(each, Damaged) else self._key(each.subject, each.headers) for each in found]
        return [each.seq for each in found], keys

    def _key(self, subject: bytes, block: bytes) -> bytes:
        key_from = self.ordering.key
        if key_from.header:
            key = key_from.of_headers(block)
        elif not key_from.token:
            key = subject
        else:
            known = self._subject_keys
            if subject not in known:
                if len(known) >= self.ordering.ahead:
                    known.clear()
                known[subject] = key_from.of_subject(subject)
            key = known[subject]
        return LowestFirst.number(key) if self.ordering.kind is OrderKind.PRIORITY else key

    # --- what became of it ---

    def passed(self, seqs: list[int]) -> None:
        """See `MessageSource.passed`."""
        for seq in seqs:
            self._ahead.pop(seq, None)
        self.queues.took(seqs)
        self.queues.done(seqs)

    def delivered(self, deadline_ns: int, seqs: list[int]) -> None:
        """See `MessageSource.delivered`."""
        state, ahead = self._consumer.state, self._ahead
        for seq in seqs:
            del ahead[seq]
        self.queues.took(seqs)
        self._undelivered.picked(len(seqs))
        state.acks.delivered(seqs, deadline_ns)
        fresh = [seq for seq in self._fresh if seq in ahead]
        self._fresh = []
        self._consumer.journal.picked(deadline_ns, state.next_seq, seqs, fresh)

    def done(self, seqs: Collection[int]) -> None:
        """See `MessageSource.done`."""
        if self.queues.done(seqs):
            self._consumer.wake()

    def removed(self, seqs: Collection[int]) -> None:
        """See `MessageSource.removed`."""
        ahead = self._ahead
        gone = [seq for seq in seqs if seq in ahead]
        for seq in gone:
            del ahead[seq]
            self.queues.remove(seq)
        if self.queues.done(seqs) or gone:
            self._consumer.wake()  # there is room to look further

    # --- restarts and time ---

    def restart(self) -> None:
        """See `MessageSource.restart`."""
        self.queues = self._begin()
        self._fresh, self._chosen = [], []
        self._is_restored = False
        match = self._consumer.filters.match
        for seq, subject, _ in list(self._heads_of(self._ahead)):
            if not match(subject):
                del self._ahead[seq]

    def _restore(self) -> None:
        """Find the keys of what was passed over and of what is in flight."""
        if self._is_restored:
            return
        self._is_restored = True
        for seq, subject, block in self._heads_of(self._consumer.state.acks.pending):
            self.queues.in_flight(seq, self._key(subject, block))
        heads = list(self._heads_of(self._ahead))
        self.queues.add([seq for seq, _, _ in heads], [self._key(subject, block) for _, subject, block in heads])

    def _heads_of(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes, bytes]]:
        """Sequence, subject and headers of these; what cannot be read has none of them."""
        left = sorted(seqs)
        while left:
            batch = self._store.gather_seqs(left[:AHEAD_READ_MSGS], max_bytes=CONSUMER_SLICE_BYTES)
            for i in range(len(batch)):
                yield left[i], *batch.head(i)
            del left[: len(batch)]
            if left and not batch:
                message = self._store.get(left[0])
                if isinstance(message, StoredMessage):
                    yield left.pop(0), message.subject, message.headers
                else:
                    yield left.pop(0), b"", b""

    def _arm(self) -> None:
        """Go on when the rate of a key lets it."""
        due_ns = self.queues.next_ns()
        self.close()
        if due_ns:
            ports = self._consumer.ports
            self._timer = ports.call_later(max(due_ns - ports.now_ns(), 0), self._due)

    def _due(self) -> None:
        self._timer = None
        self._consumer.wake()

    def close(self) -> None:
        """See `MessageSource.close`."""
        if self._timer is not None:
            self._timer()
            self._timer = None

    def check_invariants(self) -> None:
        """What must hold between calls."""
        self.queues.check_invariants()
        assert not self._chosen and len(self._ahead) <= self.ordering.ahead
        if self._is_restored:
            assert self.queues.waiting_seqs == self._ahead.keys()
