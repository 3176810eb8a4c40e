"""Where the messages of a consumer's first deliveries come from: which sequences are next.

`InOrder` follows the stream; other orders are in `by_key`.

What this is not: redelivery (`acks`), nor who gets a message (`sink`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from slipstream.jetstream.consumer.limits import CONSUMER_CAREFUL_MSGS
from slipstream.jetstream.store.values import Read
from slipstream.kernels.fastpath.handout import Batch

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer
    from slipstream.jetstream.consumer.undelivered import Undelivered

__all__ = ["InOrder", "MessageSource"]


class MessageSource(Protocol):
    """Finds what is to be delivered for the first time."""

    follows_stream: bool
    """Whether the next message is the next one committed."""

    def ready(self, most: int, pending: int) -> int:
        """How many could be handed out now, of so many that are wanted and so many that wait."""
        ...

    def gather(self, most: int, max_bytes: int) -> Batch:
        """The next messages, to be handed out as they are stored; empty: `read` knows more."""
        ...

    def read(self, most: int, max_bytes: int) -> list[Read]:
        """The next messages one by one; empty: there is nothing to deliver now."""
        ...

    def put_back(self, seqs: list[int]) -> None:
        """The last of what was given are not wanted now."""
        ...

    def passed(self, seqs: list[int]) -> None:
        """These are out, or never will be: the next ones are behind them."""
        ...

    def delivered(self, deadline_ns: int, seqs: list[int]) -> None:
        """These are out for the first time, until then: remember it."""
        ...

    def done(self, seqs: Collection[int]) -> None:
        """These need no further attention."""
        ...

    def removed(self, seqs: Collection[int]) -> None:
        """These left the stream, wherever they were."""
        ...

    def restart(self) -> None:
        """The position or the filters have changed from outside."""
        ...

    def close(self) -> None:
        """No more timers."""
        ...

    def check_invariants(self) -> None:
        """What must hold between calls."""
        ...


class InOrder:
    """The order of the stream."""

    follows_stream = True

    def __init__(self, consumer: Consumer, undelivered: Undelivered) -> None:
        """Read for this consumer."""
        self._consumer = consumer
        self._store = consumer.store
        self._undelivered = undelivered

    def ready(self, most: int, pending: int) -> int:
        """See `MessageSource.ready`."""
        return most if most < pending else pending

    def gather(self, most: int, max_bytes: int) -> Batch:
        """See `MessageSource.gather`."""
        consumer, store = self._consumer, self._store
        state = consumer.state
        if state.resume_seq and (seqs := self._undelivered.snapshot(most)):
            return store.gather_seqs(seqs, max_bytes=max_bytes)
        return store.gather(
            consumer.filters.for_store,
            state.next_seq,
            max_msgs=most,
            max_bytes=max_bytes,
            up_to_seq=store.committed_seq,
        )

    def read(self, most: int, max_bytes: int) -> list[Read]:
        """See `MessageSource.read`."""
        consumer, store = self._consumer, self._store
        state = consumer.state
        most = min(most, CONSUMER_CAREFUL_MSGS)
        while state.resume_seq and (seqs := self._undelivered.snapshot(most)):
            read = {seq: store.get(seq) for seq in seqs}
            self._undelivered.removed(seq for seq, message in read.items() if message is None)
            if messages := [message for message in read.values() if message is not None]:
                return messages
        committed_seq = store.committed_seq
        if state.next_seq > committed_seq:
            return []
        found = store.read_batch(
            consumer.filters.for_store, state.next_seq, max_msgs=most, max_bytes=max_bytes, up_to_seq=committed_seq
        )
        if not found:
            state.next_seq = committed_seq + 1
        return found

    def put_back(self, seqs: list[int]) -> None:
        """They are found again."""

    def passed(self, seqs: list[int]) -> None:
        """See `MessageSource.passed`."""
        self._undelivered.passed(seqs[-1], len(seqs))

    def delivered(self, deadline_ns: int, seqs: list[int]) -> None:
        """See `MessageSource.delivered`."""
        consumer = self._consumer
        self._undelivered.passed(seqs[-1], len(seqs))
        consumer.state.acks.delivered(seqs, deadline_ns)
        consumer.journal.delivered(deadline_ns, consumer.state.next_seq, seqs)

    def done(self, seqs: Collection[int]) -> None:
        """Nothing depends on it."""

    def removed(self, seqs: Collection[int]) -> None:
        """The store knows."""

    def restart(self) -> None:
        """The state has the position."""

    def close(self) -> None:
        """There are no timers."""

    def check_invariants(self) -> None:
        """The state has all there is."""
        assert self._consumer.state.acks.ahead is None
