"""Endpoints over a hub without sockets: what the comparison with a real server cannot reach."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.world import World, login, two_accounts
from slipstream.config.listener_options import (
    ClusterOptions,
    GatewayOptions,
    LeafnodeOptions,
    LeafRemoteOptions,
    MQTTOptions,
    RemoteGatewayOptions,
    WebsocketOptions,
)
from slipstream.config.options import Options
from slipstream.monitoring.endpoints.connz import ConnzOptions, connz
from slipstream.monitoring.endpoints.dashboard import base_path
from slipstream.monitoring.endpoints.subsz import SubszOptions, subsz
from slipstream.monitoring.endpoints.table import ENDPOINTS, Endpoints
from slipstream.monitoring.limits import MONITOR_STEP_ENTRIES
from slipstream.monitoring.reply import Reply
from slipstream.monitoring.worker import finished
from slipstream.protocol.limits import CLOSED_SUBSCRIPTIONS_MAX
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason

EXTREMES = st.sampled_from([-(2**63), -1, 0, 1, 2, 5, 2**31, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)


def ask(world: World, path: str, query: str = "") -> Reply:
    return finished(Endpoints(world.facts).reply(path, query))


def asked(world: World, path: str, query: str = "") -> Any:
    reply = ask(world, path, query)
    assert reply.status == 200, reply
    return json.loads(reply.body)


@given(
    offset=EXTREMES, limit=EXTREMES, sort=st.sampled_from(["cid", "subs", "rtt", "idle", "uptime", "last", "pending"])
)
def test_every_page_is_a_part_of_the_whole(offset: int, limit: int, sort: str) -> None:
    world = World()
    for number in range(5):
        world.connect(feed=b"SUB a 1\r\n" * (number % 2))
    whole = [entry.cid for entry in finished(connz(world.facts, ConnzOptions(sort=sort))).connections or ()]
    page = finished(connz(world.facts, ConnzOptions(sort=sort, offset=offset, limit=limit)))
    start = max(offset, 0)
    assert [entry.cid for entry in page.connections or ()] == whole[start : start + (limit if limit > 0 else 1024)]
    assert page.num_connections == len(page.connections or ())
    assert page.total == 5
    json.dumps([page.offset, page.limit])


@given(offset=EXTREMES, limit=EXTREMES)
def test_every_page_of_subscriptions_is_a_part_of_the_whole(offset: int, limit: int) -> None:
    world = World()
    world.connect(feed=b"".join(b"SUB s.%d %d\r\n" % (number, number) for number in range(5)))
    options = SubszOptions(subscriptions=True, offset=offset, limit=limit)
    whole = finished(subsz(world.facts, SubszOptions(subscriptions=True))).subscriptions_list
    page = finished(subsz(world.facts, options))
    start = max(offset, 0)
    assert page.subscriptions_list == whole[start : start + (limit if limit > 0 else 1024)]
    assert page.total == 5


def test_large_pages_are_built_in_steps() -> None:
    world = World()
    for _ in range(2 * MONITOR_STEP_ENTRIES + 1):
        world.connect()
    steps = connz(world.facts, ConnzOptions())
    pauses = 0
    while True:
        try:
            next(steps)
            pauses += 1
        except StopIteration as end:
            assert end.value.num_connections == 2 * MONITOR_STEP_ENTRIES + 1
            break
    assert pauses == 3


def test_times_of_open_and_closed_connections() -> None:
    world = World()
    gone = world.connect(name="gone")
    stays = world.connect(name="stays")
    world.pass_time(90)
    gone.close(CloseReason.KICKED)
    world.pass_time(3600)
    entries = {entry["name"]: entry for entry in asked(world, "/connz", "state=any")["connections"]}
    assert (entries["gone"]["uptime"], entries["gone"]["reason"]) == ("1m30s", "Kicked")
    assert entries["stays"]["uptime"] == "1h1m30s"
    assert "stop" not in entries["stays"]
    assert stays.cid == entries["stays"]["cid"]


def test_subscriptions_of_closed_connections_are_kept_while_few() -> None:
    world = World()
    for count in (2, CLOSED_SUBSCRIPTIONS_MAX + 1):
        feed = b"".join(b"SUB s.%d %d\r\n" % (number, number) for number in range(count))
        world.connect(name=f"had {count}", feed=feed).close(CloseReason.CLIENT_CLOSED)
    few, many = asked(world, "/connz", "state=closed&subs=1")["connections"]
    assert (few["subscriptions"], few["subscriptions_list"]) == (2, ["s.0", "s.1"])
    assert many["subscriptions"] == CLOSED_SUBSCRIPTIONS_MAX + 1
    assert "subscriptions_list" not in many


def test_websocket_clients_are_told_apart() -> None:
    world = World()
    world.connect(kind="websocket")
    assert asked(world, "/connz")["connections"][0]["type"] == "websocket"


def test_clients_that_did_not_say_who_they_are_count_for_the_global_account() -> None:
    world = World(two_accounts())
    silent = world.hub.open_connection(Peer("192.0.2.1", 1))
    page = asked(world, "/connz", "acc=$G&auth=1")
    assert [entry["cid"] for entry in page["connections"]] == [silent.cid]
    assert "account" not in page["connections"][0]


def test_totals_survive_the_clients() -> None:
    world = World(two_accounts())
    for _ in range(2):
        client = world.connect(feed=b"SUB x 1\r\nPUB x 3\r\nabc\r\n", **login("a"))
        client.close(CloseReason.CLIENT_CLOSED)
    world.connect(feed=b"PUB y 4\r\nabcd\r\n", **login("a"))
    varz = asked(world, "/varz")
    assert (varz["in_msgs"], varz["in_bytes"], varz["out_msgs"], varz["out_bytes"]) == (3, 10, 2, 6)
    assert (varz["connections"], varz["total_connections"]) == (1, 3)
    (account,) = asked(world, "/accstatz")["account_statz"]
    assert account["received"]["msgs"] == 3
    assert account["sent"]["bytes"] == 6


def test_urls_in_varz_lose_their_secrets() -> None:
    options = Options(
        cluster=ClusterOptions(
            name="C", host="h", port=1, password="hush", routes=("nats://u:hush@r:6222", "tls://x/p")
        ),
        gateway=GatewayOptions(
            name="C",
            host="h",
            port=2,
            password="hush",
            gateways=(RemoteGatewayOptions("D", ("nats://u:hush@g:7222",)),),
        ),
        leafnodes=LeafnodeOptions(
            host="h",
            port=3,
            password="hush",
            remotes=(LeafRemoteOptions(urls=("nats-leaf://u:hush@l:7422",), nkey="SUhush", deny_imports=("a.>",)),),
        ),
        mqtt=MQTTOptions(host="h", port=4, password="hush", token="hush"),
        websocket=WebsocketOptions(host="h", port=5, password="hush", token="hush"),
    )
    reply = ask(World(options), "/varz")
    assert b"hush" not in reply.body
    varz = json.loads(reply.body)
    assert varz["cluster"]["urls"] == ["r:6222", "x"]
    assert varz["gateway"]["gateways"] == [{"name": "D", "urls": ["g:7222"]}]
    assert varz["leaf"]["remotes"] == [{"local_account": "$G", "urls": ["l:7422"], "deny": {"imports": ["a.>"]}}]
    assert varz["mqtt"] == {"host": "h", "port": 4, "ack_wait": 30_000_000_000, "max_ack_pending": 1024}


def test_ports_that_listeners_picked_are_shown() -> None:
    world = World(Options(leafnodes=LeafnodeOptions(port=-1), websocket=WebsocketOptions(port=-1, no_tls=True)))
    world.facts.ports.update(leafnodes=7422, websocket=8080)
    varz = asked(world, "/varz")
    assert (varz["leaf"]["port"], varz["websocket"]["port"]) == (7422, 8080)


def test_health_says_when_clients_cannot_connect() -> None:
    world = World()
    world.running = False
    for _ in range(3):
        reply = ask(world, "/healthz")
    assert reply.status == 500
    assert json.loads(reply.body)["status"] == "error"
    # However often somebody asks.
    assert len(world.lines) == 1
    assert ask(world, "/healthz", "details=1").status == 500
    world.running = True
    assert ask(world, "/healthz").body == b'{"status":"ok"}'


@pytest.mark.parametrize(
    ("configured", "path"),
    [("", ""), ("/", ""), ("mon", "/mon"), ("/mon/", "/mon"), ("//a//b/", "/a/b"), ("a/../b", "/b"), ("..", "")],
)
def test_base_paths(configured: str, path: str) -> None:
    assert base_path(configured) == path


def test_index_escapes_names() -> None:
    page = ask(World(Options(server_name="<script>alert(1)</script>")), "/").body
    assert b"<script>" not in page
    assert b"&lt;script&gt;" in page


# A path comes decoded; a query is still as it was sent, and HTTP lets only visible characters through.
@given(st.text(), st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)))
def test_any_request_has_an_answer(path: str, query: str) -> None:
    reply = ask(World(), f"/{path}", query)
    assert reply.status in (200, 307, 400, 404)
    for name, value in reply.headers:
        assert f"{name}{value}".isascii()
        assert not {"\r", "\n"} & set(value)


@given(
    st.sampled_from(sorted(ENDPOINTS)),
    st.dictionaries(st.sampled_from(["acc", "limit", "subs", "sort", "test"]), st.text()),
)
def test_any_parameter_has_an_answer(path: str, parameters: dict[str, str]) -> None:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    assert ask(World(), path, query).status in (200, 400, 404)


def test_metrics_escape_labels() -> None:
    world = World(Options(server_name='a"b\\c\nd'))
    text = ask(world, "/metrics").body.decode()
    assert 'server_name="a\\"b\\\\c\\nd"' in text
    assert all(line for line in text.splitlines())


def test_inner_queues() -> None:
    world = World()
    world.facts.queues.update(one=lambda: 3, two=lambda: 0)
    assert asked(world, "/ipqueuesz") == {"one": {"pending": 3}}
    assert asked(world, "/ipqueuesz", "all=1&queues=tw") == {"two": {"pending": 0}}


def test_stacks_name_this_function() -> None:
    assert b"test_stacks_name_this_function" in ask(World(), "/stacksz").body
