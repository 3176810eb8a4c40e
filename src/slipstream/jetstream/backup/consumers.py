"""Consumers in a backup: configuration and state as JSON, as nats-server writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, ConsumerConfig
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.gojson import JsonError, encode

__all__ = ["SavedState", "decode_consumer", "encode_consumer", "saved_state", "state_of"]

# Sequences, counts and times in a consumer's state: more does not fit where they are kept.
_NUMBER_MAX: Final = 1 << 62


class _Pair(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0


class _Pending(msgspec.Struct, rename="pascal"):
    sequence: int = 0
    timestamp: int = 0


class SavedState(msgspec.Struct):
    """What nats-server keeps of a consumer."""

    delivered: _Pair = msgspec.field(default_factory=_Pair)
    ack_floor: _Pair = msgspec.field(default_factory=_Pair)
    pending: dict[int, _Pending] | None = None
    """Sequence → its consumer sequence and when it was last delivered."""
    redelivered: dict[int, int] | None = None
    """Sequence → how often it was delivered again."""

    @classmethod
    def of(
        cls,
        delivered: tuple[int, int],
        ack_floor: tuple[int, int],
        pending: Mapping[int, tuple[int, int]],
        redelivered: Mapping[int, int],
    ) -> SavedState:
        """From plain numbers; pairs are (consumer sequence, stream sequence)."""
        return cls(
            _Pair(*delivered),
            _Pair(*ack_floor),
            {seq: _Pending(dseq, ts_ns) for seq, (dseq, ts_ns) in pending.items()},
            dict(redelivered),
        )

    def numbers(self) -> Iterator[int]:
        """All sequences, counts and times in it."""
        for pair in (self.delivered, self.ack_floor):
            yield from (pair.consumer_seq, pair.stream_seq)
        for seq, pending in (self.pending or {}).items():
            yield from (seq, pending.sequence, pending.timestamp)
        for seq, count in (self.redelivered or {}).items():
            yield from (seq, count)


class _Saved(msgspec.Struct):
    config: msgspec.Raw = msgspec.Raw(b"")
    state: SavedState | None = None


def saved_state(state: ConsumerState, last_seq: int, ack_wait_ns: int) -> SavedState:
    """What a backup that ends at `last_seq` keeps of a consumer.

    The form has no place for what was passed over: such a consumer goes back to the first of it, and delivers again.
    """
    acks = state.acks
    if acks.ahead:
        last_seq = min(last_seq, min(acks.ahead) - 1)
    floor_dseq, floor_seq = acks.shown_floor
    given_up = {seq: deliveries - 1 for seq, deliveries in acks.exhausted.items()}
    return SavedState.of(
        (acks.dseq, min(acks.delivered_seq, last_seq)),
        (floor_dseq, min(floor_seq, last_seq)),
        {
            seq: (dseq, max(acks.deadline_ns(seq) - ack_wait_ns, 0))
            for seq, dseq in sorted(acks.pending.items())
            if seq <= last_seq
        },
        {seq: count for seq, count in sorted({**acks.redeliveries, **given_up}.items()) if seq <= last_seq},
    )


def encode_consumer(state: ConsumerState, last_seq: int, ack_wait_ns: int) -> bytes:
    """A consumer as an entry of a backup that ends at `last_seq`."""
    saved = saved_state(state, last_seq, ack_wait_ns)
    fields: dict[str, object] = {
        "delivered": {"consumer_seq": saved.delivered.consumer_seq, "stream_seq": saved.delivered.stream_seq},
        "ack_floor": {"consumer_seq": saved.ack_floor.consumer_seq, "stream_seq": saved.ack_floor.stream_seq},
    }
    if saved.pending:
        fields["pending"] = {
            str(seq): {"Sequence": entry.sequence, "Timestamp": entry.timestamp} for seq, entry in saved.pending.items()
        }
    if saved.redelivered:
        fields["redelivered"] = {str(seq): count for seq, count in saved.redelivered.items()}
    return encode({"config": CONSUMER_CONFIG.wire(state.config), "state": fields})


def decode_consumer(name: str, payload: bytes, now_ns: int) -> ConsumerState:
    """A consumer from an entry.

    Raises:
        BadBackup: it is not one.
    """
    try:
        saved = msgspec.json.decode(payload, type=_Saved, strict=False)
    except UNREADABLE as error:
        raise BadBackup(f'failed to decode consumer "{name}" state: {error}') from None
    if not saved.config:
        raise BadBackup(f'consumer "{name}" is missing config')
    if saved.state is None:
        raise BadBackup(f'consumer "{name}" is missing state')
    return state_of(name, bytes(saved.config), saved.state, now_ns)


def state_of(name: str, config_json: bytes, saved: SavedState, now_ns: int) -> ConsumerState:
    """The consumer this configuration and state describe.

    Raises:
        BadBackup: the configuration is not one, or a number of the state is not.
    """
    if any(not 0 <= number <= _NUMBER_MAX for number in saved.numbers()):
        raise BadBackup(f'failed to decode consumer "{name}" state: a number is out of range')
    try:
        config = CONSUMER_CONFIG.decode(_without_extras(config_json), strict=False)
    except (JsonError, ValueError, RecursionError) as error:
        raise BadBackup(f'failed to decode consumer "{name}" state: {error}') from None
    return ConsumerState(
        config=config,
        created_ns=now_ns,
        next_seq=saved.delivered.stream_seq + 1,
        acks=_acks(config, saved),
        trusted_from=saved.delivered.stream_seq + 1,
    )


def _acks(config: ConsumerConfig, saved: SavedState) -> AckEngine:
    pending: list[int] = []
    for seq, entry in sorted((saved.pending or {}).items()):
        pending += (seq, entry.sequence, entry.timestamp + config.ack_wait_ns)
    again: list[int] = []
    given_up: list[int] = []
    for seq, count in sorted((saved.redelivered or {}).items()):
        if saved.pending and seq in saved.pending:
            again += (seq, count)
        elif 0 < config.max_deliver <= count + 1:
            given_up += (seq, count + 1)
    return AckEngine.load(
        [
            saved.delivered.consumer_seq,
            saved.delivered.stream_seq,
            saved.ack_floor.consumer_seq,
            saved.ack_floor.stream_seq,
            pending,
            again,
            given_up,
        ]
    )


def _without_extras(config_json: bytes) -> bytes:
    """A stored configuration carries when it was made and the consumer's name, which are not part of it."""
    members = json.loads(config_json)
    if not isinstance(members, dict):
        raise BadBackup("a configuration is not an object")
    members.pop("Created", None)
    members["name"] = members.pop("Name", members.get("name", ""))
    return json.dumps(members).encode()
