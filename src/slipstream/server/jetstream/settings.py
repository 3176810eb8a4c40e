"""JetStream's part of the configuration, as JetStream wants to hear it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.config.jetstream_options import JetStreamBatchLimitsOptions
from slipstream.jetstream.ports import AccountLimits, BatchLimits, ServerFacts
from slipstream.server.jetstream.storage import disk_share, memory_share
from slipstream.server.memory import HELD_MEMORY_SHARE, memory_bytes
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.config.account_options import AccountJetStreamOptions
    from slipstream.server.server import Server

__all__ = ["account_limits", "server_facts"]


def server_facts(server: Server, directory: str) -> ServerFacts:
    """What the API says about a server, and its own limits; what is not configured is found out here."""
    options = server.options.jetstream
    limits = options.limits
    return ServerFacts(
        name=server.identity.name,
        version=SERVER_VERSION,
        domain=options.domain,
        max_memory=options.max_memory_store if options.max_memory_store >= 0 else memory_share(),
        max_storage=options.max_file_store if options.max_file_store >= 0 else disk_share(directory),
        duplicate_window_max_ns=limits.duplicate_window_ns,
        sync_always=options.sync_always,
        sync_interval_ns=options.sync_interval_ns,
        max_pending_bytes=server.options.max_pending,
        max_payload_bytes=server.options.max_payload,
        max_held_bytes=int(memory_bytes() * HELD_MEMORY_SHARE),
        max_ack_pending=limits.max_ack_pending,
        max_request_batch=limits.max_request_batch,
        default_max_consumers=limits.default_max_consumers,
        strict=options.strict,
        max_buffered_msgs=options.max_buffered_msgs,
        max_buffered_bytes=options.max_buffered_size,
        request_queue_limit=options.request_queue_limit,
        info_queue_limit=options.info_queue_limit,
        batches=_batch_limits(limits.batch),
    )


def _batch_limits(options: JetStreamBatchLimitsOptions) -> BatchLimits:
    """What is configured, for both kinds of batches; the defaults differ."""
    limits = BatchLimits()
    if options.max_inflight_per_stream > 0:
        limits.atomic_per_stream_max = limits.fast_per_stream_max = options.max_inflight_per_stream
    if options.max_inflight_total > 0:
        limits.atomic_max = limits.fast_max = options.max_inflight_total
    limits.msgs_max = options.max_msgs if options.max_msgs > 0 else limits.msgs_max
    limits.timeout_ns = options.timeout_ns if options.timeout_ns > 0 else limits.timeout_ns
    return limits


def account_limits(options: AccountJetStreamOptions) -> AccountLimits:
    """What an account may have."""
    return AccountLimits(
        max_memory=options.max_memory,
        max_storage=options.max_store,
        max_streams=options.max_streams,
        max_consumers=options.max_consumers,
        max_ack_pending=options.max_ack_pending,
        memory_max_stream_bytes=options.mem_max_stream_bytes,
        storage_max_stream_bytes=options.disk_max_stream_bytes,
        max_bytes_required=options.max_bytes_required,
        tiers={name: account_limits(tier) for name, tier in options.tiers.items()},
    )
