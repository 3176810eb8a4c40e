"""How a stream looks in answers: configuration, state, cluster."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.jetstream.api.limits import DELETED_DETAILS_MAX
from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.config.versioning import shown
from slipstream.jetstream.gojson.times import ZERO_TIME_NS, format_time
from slipstream.jetstream.ports import ServerFacts
from slipstream.jetstream.store.contract import StoreSummary
from slipstream.jetstream.stream.stream import Stream

__all__ = ["config_fields", "state_fields", "stored_state_fields", "stream_fields"]


def stream_fields(
    stream: Stream,
    facts: ServerFacts,
    now_ns: int,
    *,
    versioned: bool = True,
    domain: bool = True,
    cluster: Mapping[str, object] | None = None,
    deleted: bool = False,
    subjects: dict[str, int] | None = None,
) -> dict[str, object]:
    """The members of a StreamInfo. Answers differ in details; the flags follow nats-server's.

    Args:
        stream: the stream.
        facts: of the server, for domain, version and leader.
        now_ns: time of the answer.
        versioned: with the server's version in the metadata.
        domain: with the domain, if there is one.
        cluster: the member of this name, which says who leads.
        deleted: with the list of deleted sequences.
        subjects: counts per subject, if asked for.
    """
    fields: dict[str, object] = {
        "config": config_fields(stream.config, facts.version if versioned else None),
        "created": format_time(stream.created_ns),
        "state": state_fields(stream, deleted=deleted, subjects=subjects),
    }
    if domain and facts.domain:
        fields["domain"] = facts.domain
    if cluster is not None:
        fields["cluster"] = cluster
    fields.update(stream.upstream.fields())
    fields["ts"] = format_time(now_ns)
    return fields


def config_fields(config: StreamConfig, version: str | None) -> dict[str, object]:
    """The configuration in wire order; with `version`, the metadata says which server answers."""
    fields = STREAM_CONFIG.wire(config)
    if version is not None:
        fields["metadata"] = dict(sorted(shown(config.metadata, version).items()))
    return fields


def state_fields(stream: Stream, *, deleted: bool = False, subjects: dict[str, int] | None = None) -> dict[str, object]:
    """The members of a StreamState."""
    store = stream.store
    # A message that nobody wanted took a sequence and left its time, but not in the store.
    last_ts_ns = stream.appends.last_ts_ns if store.is_settled else store.committed_ts_ns
    return {
        **_bounds(store, last_ts_ns, is_untouched=stream.removals.is_untouched),
        **_contents(store, deleted=deleted, subjects=subjects),
        "consumer_count": stream.interest.consumer_count,
    }


def stored_state_fields(store: StoreSummary, consumer_count: int) -> dict[str, object]:
    """The same of a stream that another server leads, by what is stored of it here."""
    return {
        **_bounds(store, store.committed_ts_ns, is_untouched=store.first_seq == 1),
        **_contents(store, deleted=False, subjects=None),
        "consumer_count": consumer_count,
    }


def _bounds(store: StoreSummary, last_ts_ns: int, *, is_untouched: bool) -> dict[str, object]:
    untouched = store.committed_seq == 0 and store.messages == 0 and is_untouched
    return {
        "messages": store.messages,
        "bytes": store.size_bytes,
        "first_seq": 0 if untouched else store.first_seq,
        "first_ts": format_time(store.first_ts_ns or ZERO_TIME_NS),
        "last_seq": store.committed_seq,
        "last_ts": format_time(last_ts_ns or ZERO_TIME_NS),
    }


def _contents(store: StoreSummary, *, deleted: bool, subjects: dict[str, int] | None) -> dict[str, object]:
    fields: dict[str, object] = {}
    if store.num_subjects:
        fields["num_subjects"] = store.num_subjects
    if subjects:
        fields["subjects"] = subjects
    if store.num_deleted:
        fields["num_deleted"] = store.num_deleted
        if deleted:
            fields["deleted"] = store.deleted(DELETED_DETAILS_MAX)
    lost = store.lost()
    if lost.seqs:
        fields["lost"] = {"msgs": lost.seqs, "bytes": lost.size_bytes}
    return fields
