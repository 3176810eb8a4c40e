"""/metrics: the numbers of /varz, /accstatz and /jsz in the text format of Prometheus. An addition to nats-server.

Names start with `slipstream_`, counters end in `_total`, units are bytes and seconds. Accounts are labels; beyond
`MONITOR_METRICS_ACCOUNTS_MAX` of them the rest is left out, because each is a time series for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Literal, NamedTuple

from slipstream.monitoring.facts import Facts
from slipstream.monitoring.limits import MONITOR_METRICS_ACCOUNTS_MAX
from slipstream.units import SECOND_NS
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

__all__ = ["metrics"]


class _Metric(NamedTuple):
    """One metric: samples are (labels, value)."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Iterable[tuple[dict[str, str], float]]


def metrics(facts: Facts) -> bytes:
    """All metrics."""
    lines: list[str] = []
    for metric in (*_server(facts), *_accounts(facts), *_jetstream(facts)):
        name = f"slipstream_{metric.name}"
        lines.append(f"# HELP {name} {metric.help}")
        lines.append(f"# TYPE {name} {metric.kind}")
        lines += (f"{name}{_labels(labels)} {value}" for labels, value in metric.samples)
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _one(
    name: str, kind: Literal["counter", "gauge"], help_text: str, value: float, labels: dict[str, str] | None = None
) -> _Metric:
    return _Metric(name, kind, help_text, [(labels or {}, value)])


def _server(facts: Facts) -> list[_Metric]:
    hub, traffic = facts.hub, facts.traffic()
    process = facts.usage.read(facts.server.clock.monotonic_ns())
    up_ns = facts.now_ns() - facts.server.identity.start_ns
    about = {"server_id": facts.server_id, "server_name": facts.server_name, "version": PRODUCT_VERSION}
    about["nats_version"] = SERVER_VERSION
    return [
        _one("info", "gauge", "Who this server is.", 1, about),
        _one("uptime_seconds", "gauge", "Time since the start.", up_ns / SECOND_NS),
        _one("resident_memory_bytes", "gauge", "Memory of the process.", process.resident_bytes),
        _one("cpu_percent", "gauge", "Processor use, 100 is one core.", process.cpu_percent),
        _one("connections", "gauge", "Open client connections.", len(hub.connections)),
        _one("connections_total", "counter", "Client connections since the start.", hub.total_connections),
        _one("subscriptions", "gauge", "Subscriptions of all accounts.", facts.subscription_count()),
        _one("received_messages_total", "counter", "Messages from clients.", traffic.in_msgs),
        _one("received_bytes_total", "counter", "Bytes of messages from clients.", traffic.in_bytes),
        _one("sent_messages_total", "counter", "Messages to clients.", traffic.out_msgs),
        _one("sent_bytes_total", "counter", "Bytes of messages to clients.", traffic.out_bytes),
        _one("slow_consumers_total", "counter", "Clients closed because they were too slow.", hub.slow_consumers),
        _one("stale_connections_total", "counter", "Clients closed because they were silent.", hub.stale_connections),
        _one("stalled_clients_total", "counter", "Producers held up for slow receivers.", hub.stalled_clients),
        _Metric(
            "monitor_requests_total",
            "counter",
            "Requests to monitoring endpoints.",
            [({"path": path}, count) for path, count in sorted(facts.http_requests.items())],
        ),
    ]


def _accounts(facts: Facts) -> list[_Metric]:
    accounts = list(islice(facts.accounts.values(), MONITOR_METRICS_ACCOUNTS_MAX))
    labels = [{"account": account.name} for account in accounts]
    traffic = [facts.account_traffic(account) for account in accounts]

    def each(name: str, kind: Literal["counter", "gauge"], help_text: str, values: Iterable[float]) -> _Metric:
        return _Metric(f"account_{name}", kind, help_text, list(zip(labels, values, strict=True)))

    return [
        each("connections", "gauge", "Open connections of an account.", [len(a.connections) for a in accounts]),
        each("subscriptions", "gauge", "Subscriptions of an account.", [a.interest.count for a in accounts]),
        each("received_messages_total", "counter", "Messages from an account's clients.", [t.in_msgs for t in traffic]),
        each("received_bytes_total", "counter", "Bytes from an account's clients.", [t.in_bytes for t in traffic]),
        each("sent_messages_total", "counter", "Messages to an account's clients.", [t.out_msgs for t in traffic]),
        each("sent_bytes_total", "counter", "Bytes to an account's clients.", [t.out_bytes for t in traffic]),
        each("slow_consumers_total", "counter", "Slow consumers of an account.", [a.slow_consumers for a in accounts]),
    ]


def _jetstream(facts: Facts) -> list[_Metric]:
    jetstream = facts.jetstream
    enabled = jetstream is not None and jetstream.enabled
    found = [_one("jetstream_enabled", "gauge", "Whether JetStream runs.", int(enabled))]
    if jetstream is None or not enabled:
        return found
    stats = jetstream.stats()
    return [
        *found,
        _one("jetstream_memory_bytes", "gauge", "Messages kept in memory.", stats.memory),
        _one("jetstream_storage_bytes", "gauge", "Messages kept on disk.", stats.storage),
        _one("jetstream_api_requests_total", "counter", "JetStream API requests.", stats.api.total),
        _one("jetstream_api_errors_total", "counter", "JetStream API requests refused.", stats.api.errors),
    ]


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
