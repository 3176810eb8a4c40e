"""`cluster status`: the servers of a cluster, who leads, and whose copies are behind."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, print_json
from slipstream.cli.server.cluster import meta_of, print_meta
from slipstream.cli.system import ask_servers
from slipstream.cli.types import json_flag

__all__ = ["status"]


@click.command(cls=Command, short_help="Show servers, who leads, and who is behind.")
@json_flag
@click.pass_obj
def status(session: Session, as_json: bool) -> None:
    """Show the servers of a cluster, what each leads, and streams whose copies are behind. Needs the system account."""
    link = session.link()
    meta = meta_of(link)
    streams: list[Reply] = []
    for answer, _ in ask_servers(link, "JSZ", {"accounts": True, "streams": True}):
        server = answer["server"]["name"]
        for account in answer["data"].get("account_details") or []:
            for stream in account.get("stream_detail") or []:
                block = stream.get("cluster") or {}
                if block.get("leader") == server:
                    streams.append({"account": account["name"], "name": stream["name"], "cluster": block})
    if as_json:
        print_json({"meta": meta, "streams": streams})
        return
    print_meta(meta)
    table = Table("Streams", "Account", "Stream", "Leader", "Copies", "Behind")
    for stream in sorted(streams, key=lambda one: (one["account"], one["name"])):
        block = stream["cluster"]
        peers = block.get("replicas") or []
        table.add(stream["account"], stream["name"], block["leader"], len(peers) + 1, ", ".join(_behind(peers)))
    table.print()


def _behind(peers: list[Reply]) -> list[str]:
    out = []
    for peer in peers:
        if peer.get("offline"):
            out.append(f"{peer['name']} (offline)")
        elif not peer.get("current"):
            out.append(f"{peer['name']} ({peer.get('lag', 0)})")
    return out
