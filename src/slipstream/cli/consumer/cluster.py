"""`consumer cluster`: who leads a consumer of a replicated stream."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, CommandGroup, Session
from slipstream.cli.consumer.info import print_consumer
from slipstream.cli.jetstream import choose_consumer, choose_stream
from slipstream.cli.leaders import balance, placement_flags, placement_of, stand_down
from slipstream.cli.link import Reply
from slipstream.cli.types import json_flag

__all__ = ["cluster"]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Manage the replicas of a consumer."""


@cluster.command("step-down", cls=Command, short_help="Have another server lead CONSUMER.")
@click.argument("stream", metavar="[STREAM]", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@placement_flags
@json_flag
@click.pass_obj
def step_down(session: Session, /, stream: str | None, name: str | None, as_json: bool, **given: Any) -> None:
    """Have another server lead CONSUMER of STREAM; with Slipstream that moves the stream."""
    link = session.link()
    stream = choose_stream(session, stream, internal=True)
    name = choose_consumer(session, stream, name)

    def block(timeout_ns: int) -> Reply:
        found: Reply = link.api(f"CONSUMER.INFO.{stream}.{name}", timeout_ns=timeout_ns).get("cluster") or {}
        return found

    verb = f"CONSUMER.LEADER.STEPDOWN.{stream}.{name}"
    stand_down(link, verb, placement_of(given), block, f'consumer "{stream} > {name}"')
    print_consumer(link.api(f"CONSUMER.INFO.{stream}.{name}"), as_json=as_json)


@cluster.command("balance", cls=Command, short_help="Spread the leaders of consumers evenly.")
@click.argument("stream", metavar="[STREAM]", required=False)
@click.pass_obj
def balance_consumers(session: Session, stream: str | None) -> None:
    """Spread the leaders of the consumers of STREAM evenly over servers."""
    link = session.link()
    stream = choose_stream(session, stream, internal=True)
    balance(
        link,
        (
            (f"CONSUMER.LEADER.STEPDOWN.{stream}.{info['name']}", f'consumer "{stream} > {info["name"]}"', block)
            for info in link.api_pages(f"CONSUMER.LIST.{stream}", "consumers")
            if (block := info.get("cluster") or {})
        ),
    )
