"""/metrics: the numbers of /varz, /accstatz and /jsz in the text format of Prometheus. An addition to nats-server.

Names start with `slipstream_`, counters end in `_total`, units are bytes and seconds. Accounts are labels; beyond
`MONITOR_METRICS_ACCOUNTS_MAX` of them the rest is left out, because each is a time series for ever. Behind them come
the names that nats-server's exporter gives: see `exporter`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from slipstream.monitoring.endpoints.exporter import exporter_metrics
from slipstream.monitoring.endpoints.exposition import Kind, Metric, exposed, one
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.lake_facts import lake_metrics
from slipstream.monitoring.limits import MONITOR_METRICS_ACCOUNTS_MAX
from slipstream.monitoring.worker import Steps
from slipstream.units import SECOND_NS
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

__all__ = ["metrics"]


def metrics(facts: Facts, prefix: str = "") -> Steps[bytes]:
    """All metrics; `prefix` is for the exporter's names."""
    lines = exposed(
        (*_server(facts), *_accounts(facts), *_jetstream(facts), *lake_metrics(facts.server.lake_states)), "slipstream_"
    )
    lines += yield from exporter_metrics(facts, prefix)
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _server(facts: Facts) -> list[Metric]:
    hub, traffic = facts.hub, facts.traffic()
    process = facts.usage.read(facts.server.clock.monotonic_ns())
    up_ns = facts.now_ns() - facts.server.identity.start_ns
    about = {"server_id": facts.server_id, "server_name": facts.server_name, "version": PRODUCT_VERSION}
    about["nats_version"] = SERVER_VERSION
    return [
        one("info", "gauge", "Who this server is.", 1, about),
        one("uptime_seconds", "gauge", "Time since the start.", up_ns / SECOND_NS),
        one("resident_memory_bytes", "gauge", "Memory of the process.", process.resident_bytes),
        one("cpu_percent", "gauge", "Processor use, 100 is one core.", process.cpu_percent),
        one("connections", "gauge", "Open client connections.", len(hub.connections)),
        one("connections_total", "counter", "Client connections since the start.", hub.total_connections),
        one("subscriptions", "gauge", "Subscriptions of all accounts.", facts.subscription_count()),
        one("received_messages_total", "counter", "Messages from clients.", traffic.in_msgs),
        one("received_bytes_total", "counter", "Bytes of messages from clients.", traffic.in_bytes),
        one("sent_messages_total", "counter", "Messages to clients.", traffic.out_msgs),
        one("sent_bytes_total", "counter", "Bytes of messages to clients.", traffic.out_bytes),
        one("slow_consumers_total", "counter", "Clients closed because they were too slow.", hub.slow_consumers),
        one("stale_connections_total", "counter", "Clients closed because they were silent.", hub.stale_connections),
        one("stalled_clients_total", "counter", "Producers held up for slow receivers.", hub.stalled_clients),
        Metric(
            "monitor_requests_total",
            "counter",
            "Requests to monitoring endpoints.",
            [({"path": path}, count) for path, count in sorted(facts.http_requests.items())],
        ),
    ]


def _accounts(facts: Facts) -> list[Metric]:
    accounts = list(islice(facts.accounts.values(), MONITOR_METRICS_ACCOUNTS_MAX))
    labels = [{"account": account.name} for account in accounts]
    traffic = [facts.account_traffic(account) for account in accounts]

    def each(name: str, kind: Kind, help_text: str, values: Iterable[float]) -> Metric:
        return Metric(f"account_{name}", kind, help_text, list(zip(labels, values, strict=True)))

    return [
        each("connections", "gauge", "Open connections of an account.", [len(a.connections) for a in accounts]),
        each("subscriptions", "gauge", "Subscriptions of an account.", [a.interest.count for a in accounts]),
        each("received_messages_total", "counter", "Messages from an account's clients.", [t.in_msgs for t in traffic]),
        each("received_bytes_total", "counter", "Bytes from an account's clients.", [t.in_bytes for t in traffic]),
        each("sent_messages_total", "counter", "Messages to an account's clients.", [t.out_msgs for t in traffic]),
        each("sent_bytes_total", "counter", "Bytes to an account's clients.", [t.out_bytes for t in traffic]),
        each("slow_consumers_total", "counter", "Slow consumers of an account.", [a.slow_consumers for a in accounts]),
    ]


def _jetstream(facts: Facts) -> list[Metric]:
    jetstream = facts.jetstream
    enabled = jetstream is not None and jetstream.enabled
    found = [one("jetstream_enabled", "gauge", "Whether JetStream runs.", int(enabled))]
    if jetstream is None or not enabled:
        return found
    stats, syncs = jetstream.stats(), jetstream.syncs()
    return [
        *found,
        one("jetstream_memory_bytes", "gauge", "Messages kept in memory.", stats.memory),
        one("jetstream_storage_bytes", "gauge", "Messages kept on disk.", stats.storage),
        one("jetstream_syncs_total", "counter", "Syncs of the disk for commits.", syncs.count),
        one("jetstream_sync_seconds_total", "counter", "Time that these took.", syncs.total_seconds),
        one("jetstream_api_requests_total", "counter", "JetStream API requests.", stats.api.total),
        one("jetstream_api_errors_total", "counter", "JetStream API requests refused.", stats.api.errors),
    ]
