"""`stream cluster`: who leads a replicated stream, and which servers have it."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, CommandGroup, Session
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.leaders import balance, placement_flags, placement_of, stand_down
from slipstream.cli.link import Reply
from slipstream.cli.prompts import ask_choice, confirm_or_stop
from slipstream.cli.render import note
from slipstream.cli.stream.info import print_stream
from slipstream.cli.types import force_flag, json_flag

__all__ = ["cluster"]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Manage the replicas of a stream."""


@cluster.command("step-down", cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@placement_flags
@json_flag
@click.pass_obj
def step_down(session: Session, /, name: str | None, as_json: bool, **given: Any) -> None:
    """Have another server lead STREAM."""
    link = session.link()
    name = choose_stream(session, name, internal=session.show_all)

    def block(timeout_ns: int) -> Reply:
        found: Reply = link.api(f"STREAM.INFO.{name}", timeout_ns=timeout_ns).get("cluster") or {}
        return found

    stand_down(link, f"STREAM.LEADER.STEPDOWN.{name}", placement_of(given), block, f'stream "{name}"')
    print_stream(link.api(f"STREAM.INFO.{name}"), as_json=as_json)


@cluster.command("peer-remove", cls=Command, short_help="Take STREAM away from a server.")
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("peer", required=False)
@force_flag
@click.pass_obj
def peer_remove(session: Session, name: str | None, peer: str | None, force: bool) -> None:
    """Take STREAM away from the server PEER; another one gets a copy, if there is one."""
    link = session.link()
    name = choose_stream(session, name, internal=session.show_all)
    if not peer:
        found: Reply = link.api(f"STREAM.INFO.{name}").get("cluster") or {}
        peers = [one["name"] for one in found.get("replicas") or []] + [found.get("leader", "")]
        peer = ask_choice("Select a Peer", sorted(one for one in peers if one), flag="PEER")
    confirm_or_stop(f"Really remove the copy of Stream {name} on {peer}", force=force)
    note(f'Removing peer "{peer}"')
    link.api(f"STREAM.PEER.REMOVE.{name}", {"peer": peer})
    click.echo(f"Requested removal of peer {peer}")


@cluster.command("balance", cls=Command)
@click.pass_obj
def balance_streams(session: Session) -> None:
    """Spread the leaders of streams evenly over servers."""
    link = session.link()
    found = link.api_pages("STREAM.LIST", "streams")
    balance(
        link,
        (
            (f"STREAM.LEADER.STEPDOWN.{info['config']['name']}", f'stream "{info["config"]["name"]}"', block)
            for info in found
            if (block := info.get("cluster") or {})
        ),
    )
