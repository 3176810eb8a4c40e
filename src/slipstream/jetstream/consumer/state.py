"""What a consumer remembers, in memory and in the store's journal.

The journal holds one whole state and the changes since. A change is a short msgpack list that begins with its kind and
is applied after a restart by the method of the same name:

    DELIVERED    [kind, deadline, next_seq, seqs]        first deliveries, in order
    UNACKED      [kind, next_seq, count, last_seq]       the same for a consumer without acks
    REDELIVERED  [kind, seq, deadline]
    ACKED        [kind, seqs]                            acknowledged or terminated
    ACKED_UP_TO  [kind, seq, dseq]
    POSTPONED    [kind, seq, deadline]                   nak with delay, in progress
    GAVE_UP      [kind, seq]                             max_deliver reached
    DEAD         [kind, seq, dseq, deliveries, reason]   on its way to the dead letter subject
    BURIED       [kind, seq]                             the dead letter is safe

Everything else (creation, configuration, reset, purge) writes the whole state. Messages that left the stream are not
journalled: after a restart whatever is not stored any more is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.gojson.scan import JsonError
from slipstream.jetstream.store.base import Store
from slipstream.limits import CONSUMER_DELTAS_BYTES_MIN

__all__ = [
    "ACKED",
    "ACKED_UP_TO",
    "BURIED",
    "DEAD",
    "DELIVERED",
    "GAVE_UP",
    "POSTPONED",
    "REDELIVERED",
    "UNACKED",
    "ConsumerState",
    "DeadLetter",
    "Journal",
    "NoJournal",
]

DELIVERED, UNACKED, REDELIVERED, ACKED, ACKED_UP_TO, POSTPONED, GAVE_UP, DEAD, BURIED = range(1, 10)
_VERSION = 1
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class DeadLetter:
    """A message that has left the consumer and is not yet safe under the dead letter subject."""

    dseq: int
    deliveries: int
    reason: str


@dataclass(slots=True)
class ConsumerState:
    """Everything that survives a restart."""

    config: ConsumerConfig
    created_ns: int
    next_seq: int
    """Where to look for the next message to deliver for the first time."""
    acks: AckEngine
    resume_seq: int = 0
    """Last-per-subject: up to here only the newest message of each subject is delivered; 0 when past that."""
    trusted_from: int = 1
    """From here on, below `next_seq`: not pending means acknowledged. Older messages may never have been offered."""
    dead: dict[int, DeadLetter] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The whole state."""
        dead = [[seq, letter.dseq, letter.deliveries, letter.reason] for seq, letter in self.dead.items()]
        return _encode(
            [
                _VERSION,
                self.config.to_json(),
                self.created_ns,
                self.next_seq,
                self.resume_seq,
                self.trusted_from,
                self.acks.dump(),
                dead,
            ]
        )

    @classmethod
    def decode(cls, parts: list[bytes]) -> ConsumerState:
        """A whole state and the changes since.

        Raises:
            ValueError: not such a state.
        """
        try:
            version, config, created_ns, next_seq, resume_seq, trusted_from, acks, dead = msgspec.msgpack.decode(
                parts[0]
            )
            if version != _VERSION:
                raise ValueError(f"consumer state of version {version}")
            state = cls(
                config=ConsumerConfig.from_json(config),
                created_ns=created_ns,
                next_seq=next_seq,
                acks=AckEngine.load(acks),
                resume_seq=resume_seq,
                trusted_from=trusted_from,
                dead={seq: DeadLetter(*letter) for seq, *letter in dead},
            )
            for part in parts[1:]:
                state.apply(msgspec.msgpack.decode(part))
        except (msgspec.MsgspecError, JsonError, TypeError, IndexError, KeyError) as error:
            raise ValueError(f"consumer state: {error}") from None
        return state

    def apply(self, change: list[object]) -> None:
        """One journalled change, after a restart."""
        kind, *rest = change
        replay = _REPLAY.get(kind)
        if replay is None:
            raise ValueError(f"consumer change of kind {kind}")
        replay(self, *rest)

    # --- replaying ---

    def _delivered(self, deadline_ns: int, next_seq: int, seqs: list[int]) -> None:
        self.next_seq = next_seq
        self.acks.delivered(seqs, deadline_ns)

    def _delivered_run(self, deadline_ns: int, next_seq: int, first: int, count: int) -> None:
        self._delivered(deadline_ns, next_seq, list(range(first, first + count)))

    def _unacked(self, next_seq: int, count: int, last_seq: int) -> None:
        self.next_seq = next_seq
        self.acks.delivered_unacked(count, last_seq)

    def _redelivered(self, seq: int, deadline_ns: int) -> None:
        if seq in self.acks.pending:
            self.acks.queue(seq)
            self.acks.redelivered(seq, deadline_ns)
        else:
            self.acks.dseq += 1

    def _acked(self, seqs: list[int]) -> None:
        for seq in seqs:
            self.acks.ack(seq)

    def _acked_up_to(self, seq: int, dseq: int) -> None:
        self.acks.ack_up_to(seq, dseq)

    def _postponed(self, seq: int, deadline_ns: int) -> None:
        self.acks.postpone(seq, deadline_ns)

    def _gave_up(self, seq: int) -> None:
        self.acks.give_up(seq)

    def _died(self, seq: int, dseq: int, deliveries: int, reason: str) -> None:
        self.acks.ack(seq)
        self.dead[seq] = DeadLetter(dseq, deliveries, reason)

    def _buried(self, seq: int) -> None:
        self.dead.pop(seq, None)


_RUN = 100  # kind of a DELIVERED whose sequences have no gaps: first and count instead of a list
_REPLAY: dict[object, Callable[..., None]] = {
    DELIVERED: ConsumerState._delivered,
    _RUN: ConsumerState._delivered_run,
    UNACKED: ConsumerState._unacked,
    REDELIVERED: ConsumerState._redelivered,
    ACKED: ConsumerState._acked,
    ACKED_UP_TO: ConsumerState._acked_up_to,
    POSTPONED: ConsumerState._postponed,
    GAVE_UP: ConsumerState._gave_up,
    DEAD: ConsumerState._died,
    BURIED: ConsumerState._buried,
}


class Journal:
    """Writes one consumer's state into the store's journal, whole now and then, changes in between."""

    __slots__ = ("_delta_bytes", "_key", "_state", "_store", "_whole_bytes", "_written")

    def __init__(self, store: Store, name: str, state: ConsumerState, written: Callable[[], None]) -> None:
        """Write for the consumer `name`; `written` is called when a commit would be useful soon."""
        self._store = store
        self._key = name.encode()
        self._state = state
        self._written = written
        self._whole_bytes = 0
        self._delta_bytes = 0

    def put(self) -> None:
        """Write the whole state."""
        whole = self._state.encode()
        self._whole_bytes, self._delta_bytes = len(whole), 0
        self._store.journal_put(self._key, whole)
        self._written()

    def delivered(self, deadline_ns: int, next_seq: int, seqs: list[int]) -> None:
        """First deliveries; written short when there are no gaps."""
        first, count = seqs[0], len(seqs)
        if seqs[-1] - first + 1 == count:
            self.add(_RUN, deadline_ns, next_seq, first, count)
        else:
            self.add(DELIVERED, deadline_ns, next_seq, seqs)

    def add(self, *change: object) -> None:
        """Write one change that the state has already made."""
        delta = _encode(change)
        self._delta_bytes += len(delta)
        if self._delta_bytes > CONSUMER_DELTAS_BYTES_MIN and self._delta_bytes > 2 * self._whole_bytes:
            self.put()
            return
        self._store.journal_add(self._key, delta)
        self._written()

    def remove(self) -> None:
        """Forget the consumer."""
        self._store.journal_remove(self._key)
        self._written()


class NoJournal:
    """Of consumers kept in memory only: they do not survive a restart."""

    def put(self) -> None:
        """Nothing is kept."""

    def delivered(self, deadline_ns: int, next_seq: int, seqs: list[int]) -> None:
        """Nothing is kept."""

    def add(self, *change: object) -> None:
        """Nothing is kept."""

    def remove(self) -> None:
        """Nothing was kept."""
