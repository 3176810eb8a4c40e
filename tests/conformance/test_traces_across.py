"""A traced message on its way over servers: each tells its part, also where nats-server is at either end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import DEADLINE, HAS_NATS_SERVER, cluster, connected, heard_by_all
from support.leaf_world import LeafWorld
from support.superclusters import supercluster

ROUTE, GATEWAY, LEAF = 1, 2, 4


@asynccontextmanager
async def routed(kinds: str, directory: Path) -> AsyncIterator[list[str]]:
    async with cluster(kinds, directory) as nodes:
        yield [node.url for node in nodes]


@asynccontextmanager
async def leafed(kinds: str, directory: Path) -> AsyncIterator[list[str]]:
    """The first is the leaf."""
    async with LeafWorld(directory) as world:
        hub = await world.hub(kinds[1], name="s1")
        remote = f'{{ url: "nats-leaf://127.0.0.1:{hub.leaf_port}" }}'
        leaf = await world.server(kinds[0], "s0", f'leafnodes {{ reconnect: "50ms", remotes [ {remote} ] }}')
        yield [leaf.url, hub.url]


@asynccontextmanager
async def gated(kinds: str, directory: Path) -> AsyncIterator[list[str]]:
    async with supercluster("-".join(kinds), directory) as whole:
        yield [member.url for member in whole.members]


WORLDS = {"routes": (routed, ROUTE), "leafs": (leafed, LEAF), "gateways": (gated, GATEWAY)}


def told(event: dict[str, Any]) -> dict[str, Any]:
    """What of the event of one server does not differ from run to run."""
    steps = [{key: value for key, value in step.items() if key not in ("ts", "cid")} for step in event["events"]]
    return {"hops": event.get("hops", 0), "hop": event["request"]["header"].get("Nats-Trace-Hop"), "events": steps}


async def traces_of(first: nats.NATS, second: nats.NATS, **headers: str) -> tuple[dict[str, Any], list[str]]:
    """Publish at the first server what is wanted at both; the events by server, and who got it."""
    got: list[str] = []
    events: dict[str, Any] = {}

    def taking(who: str) -> Any:
        async def take(_message: nats.aio.msg.Msg) -> None:
            got.append(who)

        return take

    async def note(message: nats.aio.msg.Msg) -> None:
        event = json.loads(message.data)
        events[event["server"]["name"]] = told(event)

    subscriptions = [
        await first.subscribe("a.*", cb=taking("near")),
        await second.subscribe("a.>", cb=taking("far")),
        await second.subscribe("a.b", queue="workers", cb=taking("worker")),
        await second.subscribe("traces", cb=note),
    ]
    await heard_by_all([first, second])
    await first.publish("a.b", b"x", headers={"Nats-Trace-Dest": "traces", **headers})
    await first.flush()
    async with asyncio.timeout(DEADLINE):
        while len(events) < 2:
            await asyncio.sleep(0.01)
    await heard_by_all([first, second])
    for subscription in subscriptions:
        await subscription.unsubscribe()
    return events, sorted(got)


@pytest.mark.parametrize("kinds", ["oo", "on", "no", "nn"])
@pytest.mark.parametrize("world", WORLDS)
async def test_each_server_tells_its_part_of_the_way(world: str, kinds: str, tmp_path: Path) -> None:
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    made, kind = WORLDS[world]
    async with made(kinds, tmp_path) as urls:
        first, second = [await connected(url, name=name) for url, name in zip(urls, ("one", "two"), strict=True)]
        await heard_by_all([first, second])
        found = {}
        for only in (False, True):
            found[only] = await traces_of(first, second, **({"Nats-Trace-Only": "on"} if only else {}))
        await first.close()
        await second.close()
    for only, (events, got) in found.items():
        assert got == ([] if only else ["far", "near", "worker"])
        ingress = {"type": "in", "kind": 0, "name": "one", "acc": "$G", "subj": "a.b"}
        near = {"type": "eg", "kind": 0, "name": "one", "sub": "a.*"}
        across = {"type": "eg", "kind": kind, "name": "s1", "hop": "1"}
        assert events["s0"] == {"hops": 1, "hop": None, "events": [ingress, near, across]}
        there = events["s1"]
        assert (there["hops"], there["hop"]) == (0, ["1"])
        assert there["events"][0] == {"type": "in", "kind": kind, "name": "s0", "acc": "$G", "subj": "a.b"}
        far = {"type": "eg", "kind": 0, "name": "two", "sub": "a.>"}
        worker = {"type": "eg", "kind": 0, "name": "two", "sub": "a.b", "queue": "workers"}
        assert there["events"][1:] == [far, worker]


async def test_a_server_that_cannot_trace_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the message, unless that was to be traced only: it would deliver it."""
    monkeypatch.setattr("slipstream.links.documents.LinkInfo.understands_traces", False)
    async with routed("oo", tmp_path) as urls:
        first, second = [await connected(url) for url in urls]
        events: list[dict[str, Any]] = []
        got: list[bytes] = []

        async def note(message: nats.aio.msg.Msg) -> None:
            events.append(told(json.loads(message.data))["events"][-1])

        async def take(message: nats.aio.msg.Msg) -> None:
            got.append(message.data)

        await first.subscribe("traces", cb=note)
        await second.subscribe("a", cb=take)
        await heard_by_all([first, second])
        for body, only in ((b"traced", "0"), (b"only traced", "true")):
            await first.publish("a", body, headers={"Nats-Trace-Dest": "traces", "Nats-Trace-Only": only})
        await heard_by_all([first, second])
        assert got == [b"traced"]
        errors = [event["error"] for event in events if event["kind"] == ROUTE and event["type"] == "eg"]
        assert [error.partition(" because ")[0].partition(" but ")[0] for error in errors] == [
            "Message delivered",
            "Not delivered",
        ]
        await first.close()
        await second.close()


async def test_the_lot_is_drawn_where_a_client_publishes(tmp_path: Path) -> None:
    """A message with a W3C header is traced by all servers, or by none."""
    accounts = (
        'accounts { A { users: [{user: a, password: a}], msg_trace: {dest: "traces", sampling: 50} } }\nno_auth_user: a'
    )
    async with cluster("oo", tmp_path, more=accounts) as nodes:
        first, second = [await connected(node.url) for node in nodes]
        by_server: dict[str, set[str]] = {"s0": set(), "s1": set()}

        async def note(message: nats.aio.msg.Msg) -> None:
            event = json.loads(message.data)
            by_server[event["server"]["name"]].add(event["request"]["header"]["number"][0])

        await first.subscribe("traces", cb=note)
        await second.subscribe("a", cb=note_nothing)
        await heard_by_all([first, second])
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        for number in range(40):
            await first.publish("a", b"", headers={"traceparent": parent, "number": str(number)})
        await heard_by_all([first, second])
        assert by_server["s0"] == by_server["s1"]
        assert 0 < len(by_server["s0"]) < 40
        await first.close()
        await second.close()


async def note_nothing(_message: nats.aio.msg.Msg) -> None: ...


async def test_a_leaf_has_traces_sent_only_where_it_may_publish(tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        users = (
            '[{user: l, password: l, permissions: {publish: ["a", "hello"], subscribe: ">"}}, {user: c, password: c}]'
        )
        hub = await world.hub("o", more=f"accounts {{ A {{ users: {users} }} }}\nno_auth_user: c")
        leaf = await world.leaf("o", hub, url=f"nats-leaf://l:l@127.0.0.1:{hub.leaf_port}")
        here, there = await world.client(leaf), await world.client(hub)
        got: list[bytes] = []

        async def take(message: nats.aio.msg.Msg) -> None:
            got.append(message.data)

        await there.subscribe("secret", cb=take)
        await there.subscribe("a", cb=take)
        await heard_by_all([here, there])
        await here.publish("a", b"forged", headers={"Nats-Trace-Dest": "secret"})
        await here.publish("a", b"plain")
        await heard_by_all([here, there])
        assert got == [b"plain"]
        assert 'Publish Violation - Subject "secret"' in hub.text()
