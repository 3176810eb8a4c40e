"""Every configuration and message that was accepted starts again: everything online, in the same state."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.units import SECOND_NS
from support.bulk_world import BulkPorts, BulkWorld

LONGEST = 2**63 - 1
NAMES = ("A", "B")
_durations = st.sampled_from([0, 1, SECOND_NS - 1, SECOND_NS, 120 * SECOND_NS, LONGEST // 2, LONGEST - 1, LONGEST])
_counts = st.sampled_from([-1, 0, 1, 2, 7, 2**31 - 1, 2**31, 2**32, 2**62, LONGEST])
_seqs = st.sampled_from([0, 1, 5, 2**32 - 1, 2**32, 2**40, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 4, 2**64 - 1])
_times = st.sampled_from(["0001-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "2262-05-01T00:00:00Z"])
_ttls = st.sampled_from(["", "never", "1s", "0", "1", "9223372036", "9223372036854775807", "2562047h47m16.854775807s"])
_flags = st.booleans()

streams = st.fixed_dictionaries(
    {},
    optional={
        "first_seq": _seqs,
        "max_msgs": _counts,
        "max_bytes": st.sampled_from([-1, 0, 1, 300, 2**31, 2**32]),
        "max_msgs_per_subject": _counts,
        "max_msg_size": st.sampled_from([-1, 0, 1, 2**31 - 1]),
        "max_consumers": _counts,
        "max_age": _durations,
        "duplicate_window": _durations,
        "subject_delete_marker_ttl": _durations,
        "discard": st.sampled_from(["old", "new"]),
        "retention": st.sampled_from(["limits", "interest", "workqueue"]),
        "allow_msg_ttl": _flags,
        "allow_rollup_hdrs": _flags,
        "allow_atomic": _flags,
        "allow_msg_counter": _flags,
        "allow_msg_schedules": _flags,
        "allow_direct": _flags,
        "deny_delete": _flags,
        "consumer_limits": st.fixed_dictionaries(
            {}, optional={"inactive_threshold": _durations, "max_ack_pending": _counts}
        ),
        "metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        "description": st.text(max_size=5),
        "compression": st.sampled_from(["none", "s2"]),
    },
)
consumers = st.fixed_dictionaries(
    {},
    optional={
        "ack_wait": _durations,
        "ack_policy": st.sampled_from(["explicit", "none", "all"]),
        "backoff": st.lists(_durations, max_size=3),
        "max_deliver": _counts,
        "inactive_threshold": _durations,
        "max_ack_pending": _counts,
        "max_waiting": _counts,
        "max_batch": _counts,
        "max_bytes": _counts,
        "max_expires": _durations,
        "pause_until": _times,
        "deliver_policy": st.sampled_from(["all", "last", "new", "last_per_subject"]),
        "filter_subject": st.sampled_from(["", "a.>", "*.x", "a.*"]),
        "sample_freq": st.sampled_from(["", "50", "100%"]),
        "metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    },
) | st.one_of(
    _seqs.map(lambda seq: {"deliver_policy": "by_start_sequence", "opt_start_seq": seq}),
    _times.map(lambda time: {"deliver_policy": "by_start_time", "opt_start_time": time}),
)
messages = st.tuples(
    st.sampled_from(["x", "y", "x" * 200, "\u00e9"]),
    st.binary(max_size=20),
    st.fixed_dictionaries(
        {},
        optional={
            "Nats-TTL": _ttls,
            "Nats-Msg-Id": st.sampled_from(["1", "2", "\u00fc", "i" * 300]),
            "Nats-Rollup": st.sampled_from(["sub", "all"]),
            "Nats-Incr": st.sampled_from(["1", "-9223372036854775808", "9" * 60]),
            "Nats-Schedule": st.sampled_from(["@every 1s", "@every 2562047h", "@at 9999-12-31T23:59:59Z"]),
            "Nats-Schedule-TTL": _ttls,
            "Nats-Schedule-Target": st.just("a.target"),
            "Nats-Expected-Last-Sequence": st.sampled_from(["0", "1", "18446744073709551615"]),
        },
    ),
)


def header_of(fields: dict[str, str]) -> bytes | None:
    if not fields:
        return None
    return b"NATS/1.0\r\n" + b"".join(f"{key}: {value}\r\n".encode() for key, value in fields.items()) + b"\r\n"


def strict_start(w: BulkWorld) -> BulkWorld:
    """A start in which an exception that is reported fails the test."""
    w.account.shutdown()
    ports = BulkPorts()
    ports.clock_ns = w.ports.clock_ns
    return BulkWorld(w.disk, ports=ports)


def state_of(w: BulkWorld) -> dict[str, Any]:
    """Everything that has to be the same before and after."""
    out: dict[str, Any] = {}
    for name, stream in w.account.streams.items():
        store, interest = stream.store, stream.interest
        assert isinstance(interest, Consumers)
        info = w.api(f"STREAM.INFO.{name}")
        stored = store.read_batch((), 0, max_msgs=1000, max_bytes=1 << 30, up_to_seq=store.last_seq)
        shown = {one: w.api(f"CONSUMER.INFO.{name}.{one}") for one in sorted(interest.consumers)}
        out[name] = {
            "config": info["config"],
            "state": {key: info["state"].get(key) for key in ("messages", "bytes", "first_seq", "last_seq")},
            "messages": [(m.seq, m.ts_ns, m.subject, m.headers, m.payload, m.expires_ns) for m in stored],  # type: ignore[union-attr]
            "consumers": {
                one: (seen["config"], seen["num_pending"], seen["num_ack_pending"]) for one, seen in shown.items()
            },
        }
    return out


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), streams), min_size=1, max_size=2),
    st.lists(st.tuples(st.sampled_from(NAMES), messages), max_size=8),
    st.lists(st.tuples(st.sampled_from(NAMES), consumers), max_size=3),
)
def test_what_was_accepted_starts_again(
    made: list[tuple[str, dict[str, Any]]],
    sent: list[tuple[str, tuple[str, bytes, dict[str, str]]]],
    reading: list[tuple[str, dict[str, Any]]],
) -> None:
    w = BulkWorld()
    for name, config in made:
        w.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config})
    for number, (name, config) in enumerate(reading):
        body = {"stream_name": name, "config": {"durable_name": f"C{number}", "ack_policy": "explicit", **config}}
        w.api(f"CONSUMER.DURABLE.CREATE.{name}.C{number}", body)
    for name, (tail, payload, fields) in sent:
        w.request(f"{name.lower()}.{tail}", payload, header_of(fields))
    for number, (name, _) in enumerate(reading):
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{name}.C{number}".encode()
        w.ports.route(subject, b"_INBOX.pull", None, json.dumps({"batch": 2, "no_wait": True}).encode())
        w.ports.settle()
    before = state_of(w)
    again = strict_start(w)
    assert again.account.offline == {} and again.account.snapshot().quarantined == []
    assert all(stream.interest.offline == {} for stream in again.account.streams.values())  # type: ignore[attr-defined]
    assert state_of(again) == before
    # And it goes on: another start after another message.
    for name in again.account.streams:
        again.request(f"{name.lower()}.x", b"later")
    again.ports.advance(SECOND_NS)
    names = set(again.account.streams)
    last = strict_start(again)
    assert last.account.offline == {} and set(last.account.streams) == names == set(before)
