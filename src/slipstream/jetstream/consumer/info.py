"""How a consumer looks in answers."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.jetstream.config.structs import CONSUMER_CONFIG
from slipstream.jetstream.config.versioning import shown
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.gojson.times import DURATION_MAX_NS, ZERO_TIME_NS, format_time

__all__ = ["consumer_fields", "stored_consumer_fields"]


def consumer_fields(
    consumer: Consumer, now_ns: int, *, version: str | None, cluster: Mapping[str, object] | None = None
) -> dict[str, object]:
    """The members of a ConsumerInfo.

    Args:
        consumer: the consumer.
        now_ns: time of the answer.
        version: if the metadata is to say which server answers.
        cluster: the member of this name: a consumer is where its stream is.
    """
    config = consumer.config
    wire = CONSUMER_CONFIG.wire(config)
    if version is not None:
        wire["metadata"] = dict(sorted(shown(config.metadata, version).items()))
    fields = {
        **_said_first(consumer.stream.name, consumer.name, consumer.state, wire),
        **_counts(consumer.state, consumer.deliverer.last_delivered_ns, consumer.replies.last_ack_ns),
        "num_waiting": _waiting(consumer, now_ns),
        "num_pending": consumer.deliverer.undelivered.pending(),
    }
    if cluster is not None:
        fields["cluster"] = cluster
    if consumer.push is not None and consumer.push.listening:
        fields["push_bound"] = True
    until_ns = config.pause_until_ns
    if until_ns is not None and until_ns > now_ns:
        fields["paused"] = True
        fields["pause_remaining"] = min(until_ns - now_ns, DURATION_MAX_NS)
    fields["ts"] = format_time(now_ns)
    if config.priority_groups:
        fields["priority_groups"] = [_group(consumer)]
    return fields


def stored_consumer_fields(
    stream: str, name: str, state: ConsumerState, now_ns: int, cluster: Mapping[str, object]
) -> dict[str, object]:
    """The same of a consumer that another server runs, by what is stored of it here.

    What only its leader knows is shown as nats-server's followers do: nobody waits, nothing is left to deliver.
    """
    return {
        **_said_first(stream, name, state, CONSUMER_CONFIG.wire(state.config)),
        **_counts(state, 0, 0),
        "num_waiting": 0,
        "num_pending": 0,
        "cluster": cluster,
        "ts": format_time(now_ns),
    }


def _said_first(stream: str, name: str, state: ConsumerState, wire: dict[str, object]) -> dict[str, object]:
    return {
        "stream_name": stream,
        "name": name,
        "created": format_time(state.created_ns),
        "config": _ordered(wire),
    }


def _counts(state: ConsumerState, delivered_ns: int, acked_ns: int) -> dict[str, object]:
    acks = state.acks
    floor_dseq, floor_seq = acks.shown_floor
    return {
        "delivered": _pair(acks.dseq, acks.delivered_seq, delivered_ns),
        "ack_floor": _pair(floor_dseq, floor_seq, acked_ns),
        "num_ack_pending": len(acks.pending),
        # With one delivery there are no redeliveries to report.
        "num_redelivered": 0 if state.config.max_deliver == 1 else acks.redelivered_count,
    }


_METADATA_AT = [field.name for field in CONSUMER_CONFIG.fields]


def _ordered(wire: dict[str, object]) -> dict[str, object]:
    return {name: wire[name] for name in _METADATA_AT if name in wire}


def _pair(dseq: int, seq: int, last_ns: int) -> dict[str, object]:
    pair: dict[str, object] = {"consumer_seq": dseq, "stream_seq": seq}
    if last_ns:
        pair["last_active"] = format_time(last_ns)
    return pair


def _waiting(consumer: Consumer, now_ns: int) -> int:
    if consumer.pull is None:
        return 0
    consumer.pull.drop_gone(now_ns)
    return len(consumer.pull.waiting)


def _group(consumer: Consumer) -> dict[str, object]:
    """The one group that is shown, as by nats-server."""
    groups = consumer.groups
    fields: dict[str, object] = {"group": consumer.config.priority_groups[0]}
    if groups.pin_id:
        fields["pinned_client_id"] = groups.pin_id
    fields["pinned_ts"] = format_time(groups.pinned_ns or ZERO_TIME_NS)
    return fields
