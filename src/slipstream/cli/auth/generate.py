"""`slipstream auth operator generate`: what a server needs to trust an operator, for this server and nats-server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from slipstream.cli.auth.choosing import choose_operator
from slipstream.cli.auth.files import write_secret
from slipstream.cli.auth.show import system_account
from slipstream.cli.connection import Command, Failure
from slipstream.cli.render import say
from slipstream.cli.types import force_flag

if TYPE_CHECKING:
    from slipstream.cli.auth.tree import OperatorEntry

__all__ = ["generate"]


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option(
    "--resolver",
    type=click.Choice(["memory", "full", "cache"]),
    default="full",
    show_default=True,
    help="Where accounts are kept.",
)
@click.option("--dir", "directory", metavar="DIR", default="jwt", show_default=True, help="Directory of the resolver.")
@click.option("--output", "-o", metavar="FILE", default="", help="Write to a file, to be included in another.")
@force_flag
def generate(name: str | None, resolver: str, directory: str, output: str, force: bool) -> None:
    """Write the configuration of a server that trusts the operator NAME.

    With `memory` all accounts stand in it. Otherwise the system account does, and `account push` brings the others.
    """
    text = "\n".join(_lines(choose_operator(name)[1], resolver, directory))
    if output:
        write_secret(output, text, replace=force)
        say(f"Wrote configuration to {output}")
    else:
        click.echo(text, nl=False)


def _lines(operator: OperatorEntry, resolver: str, directory: str) -> Iterator[str]:
    system = system_account(operator)
    yield f"# Operator {operator.name!r}"
    yield f"operator: {operator.text}"
    if system is not None:
        yield f"# System account {system.name!r}"
        yield f"system_account: {system.subject}"
    elif resolver != "memory":
        raise Failure(f"operator {operator.name!r} has no system account, which this resolver needs")
    if resolver == "memory":
        yield "resolver: MEMORY"
    else:
        deletes = ", allow_delete: false" if resolver == "full" else ""
        yield f"resolver: {{ type: {resolver}, dir: {json.dumps(directory)}{deletes} }}"
    preloaded = operator.accounts() if resolver == "memory" else [system] if system is not None else []
    yield "resolver_preload: {"
    for account in preloaded:
        yield f"  # Account {account.name!r}"
        yield f"  {account.subject}: {account.text}"
    yield "}\n"
