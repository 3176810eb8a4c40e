"""The metrics of nats-server's Prometheus exporter, by the same names and labels, so that its Grafana boards show data.

The exporter reads the monitoring endpoints of a server and gives every number in them a name:

    gnatsd_varz_*, gnatsd_routez_*, gnatsd_subsz_*     each number, named by its path in the JSON
    gnatsd_connz_*, gnatsd_healthz_*, gnatsd_accstatz_*   chosen numbers
    jetstream_server_*, _account_*, _stream_*, _consumer_*   chosen numbers of /jsz

`gnatsd` and `jetstream` are both replaced by a prefix when one is asked for, as `nats` is by the Helm chart. Nearly
everything is a gauge there, and so it is here. What is not here: one series for every connection (`connz_detailed`).

Each account, stream and consumer is several time series for ever, so there are limits, and `left_out` says what is
beyond them. The work is done in steps: ten thousand streams do not hold up the loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from slipstream.monitoring.endpoints.accstatz import account_stat
from slipstream.monitoring.endpoints.exposition import Labels, Metric, exposed, one, rendered
from slipstream.monitoring.endpoints.healthz import HealthzOptions, healthz
from slipstream.monitoring.endpoints.jsz import Jsz, JszOptions, jsz
from slipstream.monitoring.endpoints.routez import RoutezOptions, routez
from slipstream.monitoring.endpoints.subsz import SubszOptions, subsz
from slipstream.monitoring.endpoints.varz import varz
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.jetstream_facts import StreamView
from slipstream.monitoring.limits import (
    MONITOR_METRICS_ACCOUNTS_MAX,
    MONITOR_METRICS_CONSUMERS_MAX,
    MONITOR_METRICS_STREAMS_MAX,
    MONITOR_PAGE,
    MONITOR_STEP_ENTRIES,
)
from slipstream.monitoring.query import BadRequest, UrlQuery
from slipstream.monitoring.worker import Steps

__all__ = ["exporter_metrics", "prefix_of"]

_CORE: Final = "gnatsd"
_JETSTREAM: Final = "jetstream"
_PREFIX: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,63}")
_STEP_ENTRIES: Final = 32  # streams and consumers looked at before messages get their turn

# Strings that are shown, as the label `value` of a sample 1, or as milliseconds if they are times. Others are left out.
_TEXTS: Final = frozenset(
    ("server_id", "server_name", "version", "domain", "leader", "name", "start", "config_load_time")
)
_LEFT_OUT: Final = frozenset(
    (
        *("leaf", "trusted_operators_claim", "cluster_tls_timeout", "cluster_cluster_port", "cluster_auth_timeout"),
        *("gateway_port", "gateway_auth_timeout", "gateway_tls_timeout", "gateway_connect_retries"),
        # Words of the operator, which would become names of metrics.
        *("metadata", "feature_flags"),
    )
)
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9]+")

_CONNECTION_NUMBERS: Final[dict[str, Callable[[Any], int]]] = {
    "pending_bytes": lambda connection: connection.outbox.pending,
    "subscriptions": lambda connection: len(connection.subscriptions),
    "in_bytes": lambda connection: connection.parser.msg_bytes,
    "out_bytes": lambda connection: connection.outbox.msg_bytes,
    "in_msgs": lambda connection: connection.parser.msgs,
    "out_msgs": lambda connection: connection.outbox.msgs,
}
_STREAM_NUMBERS: Final = {
    "total_messages": ("state", "messages"),
    "total_bytes": ("state", "bytes"),
    "first_seq": ("state", "first_seq"),
    "last_seq": ("state", "last_seq"),
    "consumer_count": ("state", "consumer_count"),
    "subject_count": ("state", "num_subjects"),
    "limit_bytes": ("config", "max_bytes"),
    "limit_messages": ("config", "max_msgs"),
}
_CONSUMER_NUMBERS: Final = {
    "delivered_consumer_seq": ("delivered", "consumer_seq"),
    "delivered_stream_seq": ("delivered", "stream_seq"),
    "num_ack_pending": ("num_ack_pending",),
    "num_redelivered": ("num_redelivered",),
    "num_waiting": ("num_waiting",),
    "num_pending": ("num_pending",),
    "ack_floor_stream_seq": ("ack_floor", "stream_seq"),
    "ack_floor_consumer_seq": ("ack_floor", "consumer_seq"),
}
_UPSTREAM_NUMBERS: Final = {"lag": ("lag",), "active_duration_ns": ("active",)}
# Seconds since something happened, at the time of the info.
_CONSUMER_AGES: Final = {
    "last_delivery_seconds": ("delivered", "last_active"),
    "last_ack_seconds": ("ack_floor", "last_active"),
}


def prefix_of(query: UrlQuery) -> str:
    """`?prefix=nats`: another word before all names; empty for the exporter's own.

    Raises:
        BadRequest: no name of a metric can begin so.
    """
    prefix = query.text("prefix")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise BadRequest("Error decoding prefix: letters, digits and underscores make the name of a metric")
    return prefix


def exporter_metrics(facts: Facts, prefix: str = "") -> Steps[list[str]]:
    """The lines of all metrics of the exporter."""
    core, jetstream = f"{prefix or _CORE}_", f"{prefix or _JETSTREAM}_"
    server = {"server_id": facts.server_id}
    lines: list[str] = []
    shown = {
        "varz": (yield from varz(facts)),
        "routez": (yield from routez(facts, RoutezOptions())),
        "subsz": (yield from subsz(facts, SubszOptions())),
    }
    for endpoint, answer in shown.items():
        lines += exposed(_numbers_in(msgspec.to_builtins(answer), server), f"{core}{endpoint}_")
    lines += exposed((yield from _connections(facts, server)), f"{core}connz_")
    lines += exposed(_health(facts, server), f"{core}healthz_")
    lines += exposed([one("conn_nodes_total", "gauge", "Leaf nodes.", len(facts.leafs()), server)], f"{core}leafz_")
    lines += exposed(_accounts(facts), f"{core}accstatz_")
    lines += yield from _jetstream(facts, jetstream)
    return lines


def _numbers_in(shown: Mapping[str, Any], server: Mapping[str, str]) -> Iterator[Metric]:
    """Every number of a JSON object, named by the keys that lead to it."""
    seen: set[str] = set()
    for name, value in _leaves(shown, ()):
        if name in seen:
            continue
        seen.add(name)
        if isinstance(value, str):
            moment = _milliseconds(value)
            if moment is None:
                yield one(name, "gauge", name, 1, {**server, "value": value})
                continue
            value = moment
        yield one(name, "gauge", name, value, server)


def _leaves(shown: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in shown.items():
        name = _NO_NAME.sub("_", "_".join((*path, key))).strip("_")
        if name in _LEFT_OUT or isinstance(value, bool):
            continue
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        elif isinstance(value, int | float) or (isinstance(value, str) and key in _TEXTS):
            yield name, value


def _connections(facts: Facts, server: Mapping[str, str]) -> Steps[list[Metric]]:
    """Open connections, all together."""
    connections = list(facts.hub.connections.values())
    sums = dict.fromkeys(_CONNECTION_NUMBERS, 0)
    for number, connection in enumerate(connections, 1):
        for name, count in _CONNECTION_NUMBERS.items():
            sums[name] += count(connection)
        if not number % MONITOR_STEP_ENTRIES:
            yield 0
    page = {"num_connections": len(connections), "total": len(connections), "offset": 0, "limit": MONITOR_PAGE}
    return [
        *(one(name, "gauge", name, value, server) for name, value in page.items()),
        *(
            one(name, "gauge" if name in ("pending_bytes", "subscriptions") else "counter", name, value, server)
            for name, value in sums.items()
        ),
    ]


def _health(facts: Facts, server: Mapping[str, str]) -> list[Metric]:
    status = healthz(facts, HealthzOptions()).status
    return [
        one("status", "gauge", "0 when all is well.", int(status != "ok"), server),
        one("status_value", "gauge", "1 when all is well.", int(status == "ok"), {**server, "value": status}),
    ]


def _accounts(facts: Facts) -> list[Metric]:
    accounts = islice(facts.accounts.values(), MONITOR_METRICS_ACCOUNTS_MAX)
    stats = [account_stat(facts, account) for account in accounts]
    labels = [
        {"server_id": facts.server_id, "account": stat.acc, "account_id": stat.acc, "account_name": stat.name}
        for stat in stats
    ]
    numbers = {
        "current_connections": [stat.conns for stat in stats],
        "total_connections": [stat.total_conns for stat in stats],
        "subscriptions": [stat.num_subscriptions for stat in stats],
        "leaf_nodes": [stat.leafnodes for stat in stats],
        "sent_messages": [stat.sent.msgs for stat in stats],
        "sent_bytes": [stat.sent.bytes for stat in stats],
        "received_messages": [stat.received.msgs for stat in stats],
        "received_bytes": [stat.received.bytes for stat in stats],
        "slow_consumers": [stat.slow_consumers for stat in stats],
    }
    return [Metric(name, "gauge", name, list(zip(labels, values, strict=True))) for name, values in numbers.items()]


def _jetstream(facts: Facts, prefix: str) -> Steps[list[str]]:
    whole = yield from jsz(facts, JszOptions(accounts=True, limit=MONITOR_METRICS_ACCOUNTS_MAX))
    labels = {
        "server_id": facts.server_id,
        "server_name": facts.server_name,
        "cluster": "",
        "domain": whole.config.domain,
        "meta_leader": "",
        "is_meta_leader": "true",
    }
    lines = exposed(_server_numbers(whole, labels), f"{prefix}server_")
    if facts.jetstream is None or whole.disabled:
        return lines
    for name, field in (
        ("max_memory", "reserved_memory"),
        ("max_storage", "reserved_storage"),
        ("storage_used", "storage"),
        ("memory_used", "memory"),
    ):
        samples = [(_of_account(labels, one.name), getattr(one, field)) for one in whole.account_details]
        lines += exposed([Metric(name, "gauge", name, samples)], f"{prefix}account_")
    gathered = _Gathered()
    for account in sorted(facts.jetstream.accounts(), key=lambda account: account.name):
        of_account = _of_account(labels, account.name)
        for stream in account.streams():
            gathered.add(of_account, facts.server_name, stream)
            if gathered.since_pause >= _STEP_ENTRIES:
                gathered.since_pause = 0
                yield 0
    return lines + (yield from gathered.lines(prefix))


def _server_numbers(whole: Jsz, labels: Mapping[str, str]) -> list[Metric]:
    numbers = {
        "jetstream_disabled": int(whole.disabled),
        "total_streams": whole.streams,
        "total_consumers": whole.consumers,
        "total_messages": whole.messages,
        "total_message_bytes": whole.bytes,
        "max_memory": whole.config.max_memory,
        "max_storage": whole.config.max_storage,
    }
    return [one(name, "gauge", name, value, labels) for name, value in numbers.items()]


def _of_account(labels: Mapping[str, str], name: str) -> str:
    return rendered({**labels, "account": name, "account_name": name, "account_id": name})


class _Gathered:
    """Samples of streams and consumers, up to the limits."""

    def __init__(self) -> None:
        self._samples: dict[str, list[tuple[Labels, float]]] = {}  # labels are text: ten samples share them
        self._streams = self._consumers = 0
        self.since_pause = 0  # streams and consumers looked at
        self._left_out = {"stream": 0, "consumer": 0}
        self._readers: list[tuple[Labels, float]] = []  # lag of those who read in bulk

    def add(self, account: str, leader: str, stream: StreamView) -> None:
        """One stream and its consumers; without these if they are too many to be made into text at all."""
        state = msgspec.to_builtins(stream.state())
        consumers = state["consumer_count"]
        self.since_pause += 1
        if self._streams >= MONITOR_METRICS_STREAMS_MAX:
            self._left_out["stream"] += 1
            self._left_out["consumer"] += consumers
            return
        self._streams += 1
        names = {"stream_name": stream.name, "stream_leader": leader, "is_stream_leader": "true"}
        labels = f"{account},{rendered({**names, 'stream_raft_group': ''})}"
        self._take("stream", _STREAM_NUMBERS, {"state": state, "config": stream.config()}, labels)
        for source in stream.sources():
            self._take("stream_source", _UPSTREAM_NUMBERS, source, _upstream(labels, "source", source))
        mirror = stream.mirror()
        if mirror is not None:
            self._take("stream_mirror", _UPSTREAM_NUMBERS, mirror, _upstream(labels, "mirror", mirror))
        for by, lag in sorted(stream.readers().items()):
            self._readers.append((f"{labels},{rendered({'by': by})}", lag))
        if self._consumers + consumers > MONITOR_METRICS_CONSUMERS_MAX:
            self._left_out["consumer"] += consumers
            return
        self._consumers += consumers
        self.since_pause += consumers
        for info in stream.consumers(direct=False) if consumers else ():
            self._add_consumer(labels, leader, msgspec.to_builtins(info))

    def _add_consumer(self, stream: str, leader: str, info: Mapping[str, Any]) -> None:
        names = {"consumer_name": info["name"], "consumer_leader": leader, "is_consumer_leader": "true"}
        labels = f"{stream},{rendered({**names, 'consumer_desc': _at(info, ('config', 'description')) or ''})}"
        self._take("consumer", _CONSUMER_NUMBERS, info, labels)
        now = _milliseconds(info.get("ts"))
        for name, path in _CONSUMER_AGES.items():
            moment = _milliseconds(_at(info, path))
            if now is not None and moment is not None:
                self._samples.setdefault(f"consumer_{name}", []).append((labels, (now - moment) / 1000))

    def lines(self, prefix: str) -> Steps[list[str]]:
        """All of it, a metric a step."""
        lines: list[str] = []
        for name, samples in self._samples.items():
            lines += exposed([Metric(name, "gauge", name, samples)], prefix)
            if len(samples) >= _STEP_ENTRIES:
                yield 0
        left_out = [({"kind": kind}, count) for kind, count in self._left_out.items()]
        beyond = Metric("metrics_left_out", "gauge", "What has no series of its own, beyond the limits.", left_out)
        lag = Metric("bulk_reader_lag_messages", "gauge", "Messages that a bulk reader has not read.", self._readers)
        return lines + exposed([beyond, lag] if self._readers else [beyond], "slipstream_")

    def _take(self, kind: str, numbers: Mapping[str, tuple[str, ...]], shown: Mapping[str, Any], labels: str) -> None:
        for name, path in numbers.items():
            value = _at(shown, path)
            self._samples.setdefault(f"{kind}_{name}", []).append((labels, value if value is not None else 0))


def _upstream(stream: str, kind: str, shown: Mapping[str, Any]) -> str:
    external = shown.get("external") or {}
    places = {f"{kind}_api": external.get("api", ""), f"{kind}_deliver": external.get("deliver", "")}
    return f"{stream},{rendered({f'{kind}_name': str(shown['name']), **places})}"


def _at(shown: Any, path: tuple[str, ...]) -> Any:
    """What is at the end of a path; None if it is not there."""
    for key in path:
        shown = shown.get(key) if isinstance(shown, Mapping) else None
    return shown


def _milliseconds(text: object) -> int | None:
    """A time of the API as milliseconds; None for what is no time."""
    if not isinstance(text, str) or len(text) < len("2026-01-01T00:00:00Z"):
        return None
    try:
        return int(datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00").timestamp() * 1000)
    except ValueError:
        return None
