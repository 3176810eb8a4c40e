"""`server cluster`: who leads the servers of a JetStream cluster, and which servers belong to it."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, CommandGroup, Failure, Session
from slipstream.cli.human import format_duration
from slipstream.cli.leaders import placement_flags, placement_of, stand_down
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import Table, print_json
from slipstream.cli.system import ask_servers, shown_names
from slipstream.cli.types import force_flag, json_flag

__all__ = ["cluster", "meta_of", "print_meta"]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Manage a JetStream cluster."""


@cluster.command("step-down", cls=Command)
@placement_flags
@force_flag
@json_flag
@click.pass_obj
def step_down(session: Session, /, force: bool, as_json: bool, **given: Any) -> None:
    """Have another server lead the cluster."""
    del force  # it is asked for nothing; scripts written for `nats` give it
    link = session.link()
    found = stand_down(
        link,
        "META.LEADER.STEPDOWN",
        placement_of(given),
        lambda wait_ns: meta_of(link, wait_ns),
        "the JetStream cluster",
    )
    if as_json:
        print_json(found)
    else:
        print_meta(found)


@cluster.command("peer-remove", cls=Command, short_help="Remove a server from the cluster.")
@click.argument("name")
@force_flag
@json_flag
@click.pass_obj
def peer_remove(session: Session, name: str, force: bool, as_json: bool) -> None:
    """Remove the server NAME from the cluster, for ever; its streams get other copies."""
    link = session.link()
    found = meta_of(link)
    peers = [*(found.get("replicas") or []), {"name": found.get("leader"), "peer": found.get("peer")}]
    peer = next((one for one in peers if name in (one["name"], one.get("peer"))), None)
    if peer is None:
        raise Failure(f"no server called {name!r} belongs to the cluster")
    if not peer.get("offline") and peer["name"] != found.get("leader"):
        click.echo(f"{peer['name']} is online: its streams are moved, and it will not be let in again")
    confirm_or_stop(f"Really remove the server {peer['name']} from the cluster", force=force)
    answer = link.api("SERVER.REMOVE", {"peer": peer["name"], "peer_id": peer.get("peer", "")})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{peer['name']} was removed from the cluster")


def meta_of(link: ClientLink, timeout_ns: int = 0) -> Reply:
    """What the leader of the cluster says about it, if it answers in this time.

    Raises:
        Failure: there is no cluster, nobody leads it, or this user may not ask.
    """
    asked = ask_servers(link, "JSZ", {"leader_only": True}, timeout_ns=timeout_ns)
    answers = [answer["data"].get("meta_cluster") for answer, _ in asked]
    for found in answers:
        if found and found.get("leader"):
            meta: Reply = found
            return meta
    raise Failure("no server leads a JetStream cluster")


def print_meta(meta: Reply, *, compact: bool = False) -> None:
    """The servers of a cluster and how far each is."""
    headers = ("Connection Name", "ID", "Leader", "Current", "Online", "Active", "Lag")
    table = Table(f"RAFT Meta Group Information - Lead cluster: {meta.get('name', '')}", *headers)
    peers = [*(meta.get("replicas") or []), {"name": meta["leader"], "peer": meta.get("peer", ""), "current": True}]
    shown = shown_names([str(peer["name"]) for peer in peers], compact=compact)
    for peer in sorted(peers, key=lambda one: str(one["name"])):
        table.add(
            shown[str(peer["name"])],
            peer.get("peer", ""),
            "yes" if peer["name"] == meta["leader"] else "",
            "true" if peer.get("current") else "false",
            "false" if peer.get("offline") else "true",
            format_duration(peer.get("active", 0)),
            peer.get("lag", 0),
        )
    table.print()
