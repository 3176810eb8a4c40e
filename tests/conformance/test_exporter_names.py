"""/metrics beside nats-server's Prometheus exporter: what its Grafana boards ask for is there, by name and label.

The boards are in the exporter's `walkthrough` directory: one for servers, one for JetStream, each also in the form of
the Helm chart, which has the prefix `nats`. The tables list what their queries name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from slipstream.client.wire import WireClient
from support.monitoring import get
from support.server_process import ServerProcess
from support.servers import Both

CONFIG = """
http: "127.0.0.1:-1"
server_name: boards
jetstream { store_dir: "js", domain: "hub" }
"""

OF_SERVER = {"server_id"}
OF_JETSTREAM = OF_SERVER | {"server_name", "cluster", "domain", "meta_leader", "is_meta_leader"}
OF_ACCOUNT = OF_JETSTREAM | {"account", "account_name", "account_id"}
OF_STREAM = OF_ACCOUNT | {"stream_name", "stream_leader", "is_stream_leader", "stream_raft_group"}
OF_CONSUMER = OF_STREAM | {"consumer_name", "consumer_leader", "is_consumer_leader", "consumer_desc"}

# Board of servers, and its variables.
SERVER_BOARD = [
    *("varz_connections", "varz_cpu", "varz_in_bytes", "varz_in_msgs", "varz_mem", "varz_out_bytes", "varz_out_msgs"),
    *("varz_slow_consumers", "varz_subscriptions"),
]
# Board of JetStream: the core part and the rest, with the labels by which it chooses and sums.
JETSTREAM_BOARD_CORE = [
    *("varz_connections", "varz_jetstream_config_max_memory", "varz_jetstream_config_max_storage"),
    *("varz_jetstream_stats_memory", "varz_jetstream_stats_storage"),
]
JETSTREAM_BOARD = {
    "server_total_streams": {"server_id"},
    "server_total_consumers": {"server_id"},
    "stream_last_seq": {"server_id", "stream_name"},
    "stream_total_bytes": {"stream_name"},
    "stream_total_messages": {"stream_name"},
    "consumer_delivered_consumer_seq": {"server_id", "stream_name", "consumer_name"},
    "consumer_num_ack_pending": {"server_id", "stream_name", "consumer_name"},
    "consumer_num_pending": {"server_id", "stream_name", "consumer_name"},
}
# What the exporter gives beyond that, with all labels: people have boards and alerts of their own.
JETSTREAM_NAMES = {
    **{
        f"server_{name}": OF_JETSTREAM
        for name in (
            *("jetstream_disabled", "total_streams", "total_consumers", "total_messages", "total_message_bytes"),
            *("max_memory", "max_storage"),
        )
    },
    **{f"account_{name}": OF_ACCOUNT for name in ("max_memory", "max_storage", "storage_used", "memory_used")},
    **{
        f"stream_{name}": OF_STREAM
        for name in (
            *("total_messages", "total_bytes", "first_seq", "last_seq", "consumer_count", "subject_count"),
            *("limit_bytes", "limit_messages"),
        )
    },
    **{
        f"stream_source_{name}": OF_STREAM | {"source_name", "source_api", "source_deliver"}
        for name in ("lag", "active_duration_ns")
    },
    **{
        f"stream_mirror_{name}": OF_STREAM | {"mirror_name", "mirror_api", "mirror_deliver"}
        for name in ("lag", "active_duration_ns")
    },
    **{
        f"consumer_{name}": OF_CONSUMER
        for name in (
            *("delivered_consumer_seq", "delivered_stream_seq", "num_ack_pending", "num_redelivered", "num_waiting"),
            *("num_pending", "ack_floor_stream_seq", "ack_floor_consumer_seq"),
            *("last_delivery_seconds", "last_ack_seconds"),
        )
    },
}
CORE_NAMES = {
    **{
        f"connz_{name}": OF_SERVER
        for name in (
            *("num_connections", "total", "offset", "limit", "pending_bytes", "subscriptions"),
            *("in_bytes", "out_bytes", "in_msgs", "out_msgs"),
        )
    },
    **{
        f"accstatz_{name}": OF_SERVER | {"account", "account_id", "account_name"}
        for name in (
            *("current_connections", "total_connections", "subscriptions", "leaf_nodes", "sent_messages"),
            *("sent_bytes", "received_messages", "received_bytes", "slow_consumers"),
        )
    },
    "healthz_status": OF_SERVER,
    "healthz_status_value": OF_SERVER | {"value"},
    "leafz_conn_nodes_total": OF_SERVER,
    "varz_server_name": OF_SERVER | {"value"},
    "varz_version": OF_SERVER | {"value"},
    "varz_start": OF_SERVER,
}

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')


def _samples(server: ServerProcess, query: str = "") -> Samples:
    """Everything on the page; a line that is not the text format fails."""
    found: Samples = {}
    kinds: set[str] = set()
    for line in get(server, f"/metrics{query}").body.decode().splitlines():
        if line.startswith("# TYPE "):
            name = line.split(" ")[2]
            assert name not in kinds, f"{name} stands in two places"
            kinds.add(name)
        elif not line.startswith("#"):
            read = SAMPLE.match(line)
            assert read is not None, line
            labels = tuple(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', read[2] or ""))
            assert read[1] in kinds
            of_name = found.setdefault(read[1], {})
            assert labels not in of_name, line
            of_name[labels] = float(read[3])
    return found


def _fill(server: ServerProcess) -> None:
    """A stream with a consumer that has delivered and acknowledged, a mirror, and a stream with a source."""
    with WireClient(server.url) as client:

        def api(verb: str, **body: object) -> None:
            answer = client.request(f"$JS.hub.API.{verb}", json.dumps(body).encode()).payload
            assert b'"error"' not in answer, answer

        api("STREAM.CREATE.ORDERS", name="ORDERS", subjects=["orders.>"], max_msgs=1000)
        api("STREAM.CREATE.COPY", name="COPY", mirror={"name": "ORDERS"})
        api("STREAM.CREATE.ALL", name="ALL", sources=[{"name": "ORDERS"}])
        for number in range(3):
            assert b'"seq"' in client.request(f"orders.{number}", b"hello").payload
        config = {"durable_name": "billing", "ack_policy": "explicit", "description": 'so "called"'}
        api("CONSUMER.CREATE.ORDERS.billing", stream_name="ORDERS", config=config)
        inbox = client.new_inbox()
        client.subscribe(inbox)
        client.publish("$JS.hub.API.CONSUMER.MSG.NEXT.ORDERS.billing", b'{"batch":2}', reply=inbox)
        first = client.next_message()
        client.next_message()
        client.request(first.reply, b"+ACK")


@pytest.fixture(scope="module")
def filled(server_pool: object) -> Iterator[ServerProcess]:
    from support.servers import Launcher

    launcher = Launcher(server_pool, "ours")  # type: ignore[arg-type]
    server = launcher.fresh(CONFIG)
    _fill(server)
    yield server
    launcher.end_own()


@pytest.fixture(scope="module")
def shown(filled: ServerProcess) -> Samples:
    return _samples(filled)


@pytest.mark.parametrize("name", [*SERVER_BOARD, *JETSTREAM_BOARD_CORE])
def test_numbers_of_servers_on_the_boards(shown: Samples, name: str) -> None:
    ((labels, _value),) = shown[f"gnatsd_{name}"].items()
    assert {key for key, _ in labels} == {"server_id"}


@pytest.mark.parametrize("name", JETSTREAM_BOARD)
def test_numbers_of_jetstream_on_the_boards(shown: Samples, name: str) -> None:
    for labels in shown[f"jetstream_{name}"]:
        assert {key for key, _ in labels} >= JETSTREAM_BOARD[name]


@pytest.mark.parametrize("name", [*JETSTREAM_NAMES, *CORE_NAMES])
def test_names_and_labels_of_the_exporter(shown: Samples, name: str) -> None:
    labels = JETSTREAM_NAMES.get(name) or CORE_NAMES[name]
    metric = f"{'jetstream' if name in JETSTREAM_NAMES else 'gnatsd'}_{name}"
    assert {frozenset(key for key, _ in sample) for sample in shown[metric]} == {frozenset(labels)}


def test_values_are_those_of_the_streams(shown: Samples) -> None:
    def of(metric: str, **chosen: str) -> list[float]:
        return [value for labels, value in shown[metric].items() if chosen.items() <= dict(labels).items()]

    assert of("jetstream_server_total_streams", domain="hub", server_name="boards") == [3]
    assert of("jetstream_stream_total_messages", stream_name="ORDERS", account="$G") == [3]
    assert of("jetstream_stream_limit_messages", stream_name="ORDERS") == [1000]
    assert of("jetstream_stream_subject_count", stream_name="ORDERS") == [3]
    billing = {"stream_name": "ORDERS", "consumer_name": "billing", "consumer_desc": r"so \"called\""}
    assert of("jetstream_consumer_num_pending", **billing) == [1]
    assert of("jetstream_consumer_delivered_stream_seq", **billing) == [2]
    assert of("jetstream_consumer_ack_floor_stream_seq", **billing) == [1]
    assert of("jetstream_consumer_num_ack_pending", **billing) == [1]
    assert 0 <= of("jetstream_consumer_last_ack_seconds", **billing)[0] < 1000
    assert of("jetstream_stream_source_lag", stream_name="ALL", source_name="ORDERS") == [0]
    assert of("gnatsd_healthz_status_value", value="ok") == [1]
    assert of("slipstream_metrics_left_out", kind="stream") == [0]


def test_the_prefix_of_the_helm_chart(filled: ServerProcess) -> None:
    shown = _samples(filled, "?prefix=nats")
    for name in (*SERVER_BOARD, *JETSTREAM_BOARD_CORE, *JETSTREAM_BOARD):
        assert f"nats_{name}" in shown
    assert not [name for name in shown if name.startswith(("gnatsd_", "jetstream_"))]
    assert get(filled, "/metrics?prefix=a%20b").status == 400


def test_every_number_that_nats_server_shows_has_its_name(both: Both) -> None:
    pair = both(CONFIG)
    endpoints = ("varz", "routez", "subsz")
    answers = [(get(pair.ours, f"/{name}"), get(pair.real, f"/{name}").body) for name in endpoints]
    theirs = {
        f"{endpoint}_{name}"
        for endpoint, (_, answer) in zip(endpoints, answers, strict=True)
        for name in _named(json.loads(answer))
    }
    ours = _samples(pair.ours)
    assert not {name for name in theirs if f"gnatsd_{name}" not in ours}


def _named(shown: dict[str, object], *path: str) -> Iterator[str]:
    """The names that the exporter makes of a JSON object: a number is named by the keys that lead to it."""
    left_out = {"cluster_tls_timeout", "cluster_cluster_port", "cluster_auth_timeout", "gateway_port"}
    left_out |= {"leaf", "gateway_auth_timeout", "gateway_tls_timeout", "gateway_connect_retries"}
    texts = {"server_id", "server_name", "version", "domain", "leader", "name", "start", "config_load_time"}
    for key, value in shown.items():
        name = re.sub("_+", "_", "_".join((*path, key)).replace("/", "_")).strip("_")
        if isinstance(value, dict) and name not in left_out:
            yield from _named(value, *path, key)
        elif name not in left_out and type(value) is not bool and (isinstance(value, int | float) or key in texts):
            yield name
