"""`slipstream server`: the server itself, with the flags of nats-server."""

from __future__ import annotations

import sys

import click

__all__ = ["server"]


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def server(flags: tuple[str, ...]) -> None:
    """Run a server; takes the flags of nats-server (`slipstream server --help` lists them)."""
    from slipstream.server.main import main as run

    sys.exit(run(list(flags)))
