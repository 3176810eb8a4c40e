"""What a consumer remembers, in memory and as bytes. `journal` writes these.

The journal holds one whole state and the changes since. A change is a short msgpack list that begins with its kind and
is applied after a restart by the method of the same name:

    DELIVERED    [kind, deadline, next_seq, seqs]        first deliveries, in order
    RUN          [kind, deadline, next_seq, first, count]  the same without gaps
    UNACKED      [kind, next_seq, count, last_seq]       the same for a consumer without acks
    REDELIVERED  [kind, seq, deadline]
    ACKED        [kind, seqs]                            acknowledged or terminated
    ACKED_UP_TO  [kind, seq, dseq]
    POSTPONED    [kind, seq, deadline]                   nak with delay, in progress
    GAVE_UP      [kind, seq]                             max_deliver reached
    DEAD         [kind, seq, dseq, deliveries, reason, time]  on its way to the dead letter subject
    BURIED       [kind, seq]                             the dead letter is safe
    PICKED       [kind, deadline, next_seq, seqs, passed]  first deliveries out of order, and what they passed over

Everything else (creation, configuration, reset, purge) writes the whole state. Messages that left the stream are not
journalled: after a restart whatever is not stored any more is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import msgspec

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.gojson.scan import JsonError

__all__ = [
    "ACKED",
    "ACKED_UP_TO",
    "BURIED",
    "DEAD",
    "DELIVERED",
    "GAVE_UP",
    "PICKED",
    "POSTPONED",
    "REDELIVERED",
    "RUN",
    "UNACKED",
    "ConsumerState",
    "DeadLetter",
]

DELIVERED, UNACKED, REDELIVERED, ACKED, ACKED_UP_TO, POSTPONED, GAVE_UP, DEAD, BURIED = range(1, 10)
RUN = 100
PICKED = 101
_VERSION = 1
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class DeadLetter:
    """A message that has left the consumer and is not yet safe under the dead letter subject."""

    dseq: int
    deliveries: int
    reason: str
    died_ns: int = 0


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
        dead = [
            [seq, letter.dseq, letter.deliveries, letter.reason, letter.died_ns] for seq, letter in self.dead.items()
        ]
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
                self.config.outside,
            ]
        )

    @classmethod
    def decode(cls, parts: list[bytes]) -> ConsumerState:
        """A whole state and the changes since.

        Raises:
            ValueError: not such a state.
        """
        try:
            version, config, created_ns, next_seq, resume_seq, trusted_from, acks, dead, *outside = (
                msgspec.msgpack.decode(parts[0])
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
            # Written since what a consumer's creator may publish to is asked.
            state.config.outside = bool(outside and outside[0])
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

    def _picked(self, deadline_ns: int, next_seq: int, seqs: list[int], passed: list[int]) -> None:
        ahead = self.acks.ahead
        if ahead is None:
            raise ValueError("a consumer that follows its stream has passed messages over")
        ahead.update(dict.fromkeys(passed))
        for seq in seqs:
            ahead.pop(seq, None)
        self._delivered(deadline_ns, next_seq, seqs)

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

    def _died(self, seq: int, dseq: int, deliveries: int, reason: str, died_ns: int = 0) -> None:
        self.acks.ack(seq)
        self.dead[seq] = DeadLetter(dseq, deliveries, reason, died_ns)

    def _buried(self, seq: int) -> None:
        self.dead.pop(seq, None)


_REPLAY: dict[object, Callable[..., None]] = {
    DELIVERED: ConsumerState._delivered,
    RUN: ConsumerState._delivered_run,
    UNACKED: ConsumerState._unacked,
    REDELIVERED: ConsumerState._redelivered,
    ACKED: ConsumerState._acked,
    ACKED_UP_TO: ConsumerState._acked_up_to,
    POSTPONED: ConsumerState._postponed,
    GAVE_UP: ConsumerState._gave_up,
    DEAD: ConsumerState._died,
    BURIED: ConsumerState._buried,
    PICKED: ConsumerState._picked,
}
