"""Leaders of replicated streams, of consumers and of the cluster itself: have another server lead."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.render import Table, counted, note
from slipstream.errors import SlipstreamError
from slipstream.units import SECOND_NS

__all__ = ["balance", "leaders_flag", "placement_flags", "placement_of", "print_leaders", "stand_down"]

_F = TypeVar("_F", bound=Callable[..., Any])
_ELECTION_NS: Final = 30 * SECOND_NS  # so long it is waited for another leader
_LOOK_S: Final = 0.2
_LOOK_NS: Final = SECOND_NS // 2  # what was asked while nobody led is not answered
_STARS: Final = 10  # all of the leaders

leaders_flag = click.option("--leaders", "-l", is_flag=True, help="Also which servers lead how many of them.")


def print_leaders(heading: str, infos: Iterable[Reply], *, also: Iterable[tuple[str, str]] = ()) -> None:
    """How many of these streams or consumers each server leads, and which part that is.

    Args:
        heading: of the column with the numbers.
        infos: streams or consumers, as servers tell of them.
        also: servers with their clusters that are shown even if they lead none.
    """
    led = Counter(dict.fromkeys(also, 0))
    led.update(
        (cluster["leader"], cluster.get("name", ""))
        for info in infos
        if (cluster := info.get("cluster") or {}).get("leader")
    )
    table = Table("RAFT Leader Report", "Server", "Cluster", heading, "Distribution")
    for (server, cluster), count in sorted(led.items(), key=lambda row: (row[1], row[0])):
        table.add(server, cluster, count, "*" * round(_STARS * count / max(led.total(), 1)))
    table.print()


def placement_flags(command: _F) -> _F:
    """Flags that say where the next leader should be."""
    for flag in (
        click.option("--tags", multiple=True, help="On a server with this tag; may be repeated."),
        click.option("--cluster", default="", help="In this cluster."),
        click.option("--host", "--preferred", "host", default="", help="On the server of this name."),
    ):
        command = flag(command)
    return command


def placement_of(given: dict[str, Any]) -> Reply:
    """The body of a step-down with these flags."""
    fields = {"preferred": given["host"], "cluster": given["cluster"], "tags": list(given["tags"])}
    wanted = {name: value for name, value in fields.items() if value}
    return {"placement": wanted} if wanted else {}


def stand_down(link: ClientLink, verb: str, body: Reply, cluster: Callable[[int], Reply], what: str) -> Reply:
    """Ask the leader to step down, and wait for the next one; its cluster block.

    Args:
        link: a connection that may ask for it.
        verb: of the API.
        body: what is asked.
        cluster: looks who leads; the time for an answer, 0 as for other requests.
        what: of whom, for people.

    Raises:
        Failure: there is no leader, it refuses, or nobody follows.
    """
    before = cluster(0)
    leader = before.get("leader", "")
    if not leader:
        raise Failure(f"{what} has no leader")
    peers = len(before.get("replicas") or []) + 1
    note(f'Requesting leader step down of "{leader}" for {what} in a {peers} peer group')
    link.api(verb, body)
    end_ns = time.monotonic_ns() + _ELECTION_NS
    while time.monotonic_ns() < end_ns:
        try:
            now = cluster(_LOOK_NS)
        except (SlipstreamError, Failure):  # nobody leads, so nobody answers
            now = {}
        if now.get("leader") and now["leader"] != leader:
            note(f'New leader elected "{now["leader"]}"')
            return now
        link.idle(_LOOK_S)
    raise Failure(f"no other leader of {what} was elected")


def balance(link: ClientLink, found: Iterable[tuple[str, str, Reply]]) -> int:
    """Spread leaders evenly over the servers that have replicas; how many were moved.

    Args:
        link: a connection that may ask for it.
        found: what they lead: the verb that makes them step down, a name for people, the cluster block.
    """
    led = [(verb, name, block) for verb, name, block in found if block.get("leader") and block.get("replicas")]
    counts: Counter[str] = Counter()
    for _, _, block in led:
        counts[block["leader"]] += 1
        counts.update({peer["name"]: 0 for peer in block["replicas"]})
    fair = math.ceil(len(led) / len(counts)) if counts else 0
    moved = 0
    for verb, name, block in led:
        leader = block["leader"]
        able = [peer["name"] for peer in block["replicas"] if peer.get("current") and not peer.get("offline")]
        if counts[leader] <= fair or not able:
            continue
        wanted = min(able, key=lambda peer: counts[peer])
        if counts[wanted] + 1 > fair:
            continue
        note(f'Moving the leader of {name} from "{leader}" to "{wanted}"')
        link.api(verb, {"placement": {"preferred": wanted}})
        counts[leader] -= 1
        counts[wanted] += 1
        moved += 1
    click.echo(f"Balanced {counted(moved, 'leader')}")
    return moved
