"""`slipstream account report`: connections, traffic and streams of the account in use."""

from __future__ import annotations

from typing import Any, Final

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.connections import connection_flags, report_connections
from slipstream.cli.human import format_bytes
from slipstream.cli.jetstream import all_streams
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.render import Table, print_json
from slipstream.cli.system import ask_all
from slipstream.cli.types import json_flag

__all__ = ["connections", "jetstream", "report", "statistics"]

_HERE: Final = "slipstream.cli.account.report"
REPORTS: Final = {
    "connections": Verb(f"{_HERE}:connections", "Report on connections.", ("conn", "connz", "conns")),
    "statistics": Verb(f"{_HERE}:statistics", "Report on the traffic of each server.", ("stats", "statsz")),
    "jetstream": Verb(f"{_HERE}:jetstream", "Report on what streams hold.", ("js",)),
}


@click.group(cls=LazyGroup, entries=REPORTS)
def report() -> None:
    """Report on the account."""


@click.command(cls=Command)
@connection_flags
@click.pass_obj
def connections(session: Session, /, **given: Any) -> None:
    """Report on the account's connections."""
    report_connections(session.link(), given)


@click.command(cls=Command)
@json_flag
@click.pass_obj
def statistics(session: Session, as_json: bool) -> None:
    """Report on what the account does on each server."""
    answers = [answer for answer, _ in ask_all(session.link(), "$SYS.REQ.ACCOUNT.PING.STATZ")]
    if as_json:
        print_json(answers)
        return
    headers = ("Server", "Cluster", "Account", "Conns", "Leafs", "Subs", "In Msgs", "In Bytes", "Out Msgs", "Out Bytes")
    table = Table("Account Statistics", *headers, "Slow")
    for answer in answers:
        server = answer["server"]
        for stats in answer["data"]["account_statz"]:
            table.add(
                server["name"],
                server.get("cluster", ""),
                stats["acc"],
                stats["conns"],
                stats["leafnodes"],
                stats["num_subscriptions"],
                stats["received"]["msgs"],
                format_bytes(stats["received"]["bytes"]),
                stats["sent"]["msgs"],
                format_bytes(stats["sent"]["bytes"]),
                stats["slow_consumers"],
            )
    table.print(drop_empty=True)


@click.command(cls=Command)
@json_flag
@click.pass_obj
def jetstream(session: Session, as_json: bool) -> None:
    """Report on what the account's streams hold."""
    streams = all_streams(session.link())
    if as_json:
        print_json(streams)
        return
    if not streams:
        click.echo("No Streams defined")
        return
    table = Table("Account JetStream", "Stream", "Storage", "Messages", "Bytes", "Subjects", "Consumers")
    for each in streams:
        config, state = each["config"], each["state"]
        held = (state["messages"], format_bytes(state["bytes"]), state.get("num_subjects", 0), state["consumer_count"])
        table.add(config["name"], config["storage"].capitalize(), *held)
    table.print(spare=("Storage", "Subjects"))
