"""`consumer ls` and `consumer report`: all consumers of a stream."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.consumer.info import ACK_NAMES
from slipstream.cli.human import format_age, format_duration, format_number, format_time
from slipstream.cli.jetstream import all_consumers, api_level, choose_stream, now_of, replicas_of
from slipstream.cli.leaders import leaders_flag, print_leaders
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, counted, print_json, print_names
from slipstream.cli.types import json_flag, names_flag

__all__ = ["ls", "print_consumers", "report"]


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@names_flag
@json_flag
@click.option("--no-select", is_flag=True, hidden=True, expose_value=False)
@click.pass_obj
def ls(session: Session, stream: str | None, names: bool, as_json: bool) -> None:
    """List the consumers of STREAM."""
    stream = choose_stream(session, stream, internal=session.show_all)
    link = session.link()
    if names:
        found = sorted(link.api_pages(f"CONSUMER.NAMES.{stream}", "consumers"))
        (print_json if as_json else print_names)(found)
        return
    print_consumers(all_consumers(link, stream), "Consumers", as_json=as_json)


def print_consumers(consumers: list[Reply], title: str, *, as_json: bool) -> None:
    """A line for each consumer."""
    if as_json:
        print_json(consumers)
        return
    if not consumers:
        click.echo("No Consumers defined" if title == "Consumers" else "No matching Consumers")
        return
    table = Table(title, "Name", "Description", "Created", "Ack Pending", "Unprocessed", "Last Delivery")
    for info in consumers:
        table.add(
            info["name"],
            info["config"].get("description", ""),
            format_time(info["created"]),
            info.get("num_ack_pending", 0),
            info.get("num_pending", 0),
            format_age((info.get("delivered") or {}).get("last_active", ""), now_of(info)),
        )
    table.print(spare=("Description", "Created"))


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.option("--raw", "-r", is_flag=True, help="Plain numbers.")
@leaders_flag
@json_flag
@click.pass_obj
def report(session: Session, stream: str | None, raw: bool, leaders: bool, as_json: bool) -> None:
    """Compare the consumers of STREAM."""
    stream = choose_stream(session, stream, internal=session.show_all)
    link = session.link()
    messages = link.api(f"STREAM.INFO.{stream}")["state"]["messages"]
    consumers = all_consumers(link, stream)
    if as_json:
        print_json(consumers)
        return
    if not consumers:
        click.echo("No Consumers defined")
        return
    title = f"Consumer report for {stream} with {counted(len(consumers), 'consumer')}"
    numbers = ("Ack Pending", "Redelivered", "Unprocessed", "Ack Floor")
    table = Table(title, "Consumer", "Mode", "Ack Policy", "Ack Wait", *numbers, "API Level", "Cluster")
    for info in consumers:
        config = info["config"]
        counts = [info.get("num_ack_pending", 0), info.get("num_redelivered", 0)]
        floor = (info.get("ack_floor") or {}).get("stream_seq", 0)
        pending = info.get("num_pending", 0)
        table.add(
            info["name"],
            "Push" if config.get("deliver_subject") else "Pull",
            ACK_NAMES.get(config["ack_policy"], config["ack_policy"]),
            "" if config["ack_policy"] == "none" else format_duration(config.get("ack_wait", 0)),
            *([str(count) for count in counts] if raw else counts),
            str(pending) if raw else _share(pending, messages),
            str(floor) if raw else floor,
            api_level(config),
            replicas_of(info),
        )
    table.print(spare=("API Level", "Ack Wait", "Ack Policy"))
    if leaders:
        click.echo()
        print_leaders("Consumers", consumers)


def _share(pending: int, messages: int) -> str:
    if not pending:
        return "0"
    return f"{format_number(pending)} / {min(100 * pending // max(messages, 1), 100)}%"
