"""`slipstream`: the command line. Commands are imported when they are called, so that help is there at once."""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from typing import Final

import click

from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

__all__ = ["cli", "main"]

# Name to (module, attribute, one line of help).
_COMMANDS: Final = {
    "bench": ("slipstream.cli.bench", "bench", "Measure how fast a server publishes, delivers and answers."),
}


class _LazyGroup(click.Group):
    """A group whose commands live in modules that are imported when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = _COMMANDS.get(cmd_name)
        if known is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(known[0]), known[1])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, row[2]) for name, row in _COMMANDS.items()]
        rows += [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            nearest = get_close_matches(name, known, 1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(PRODUCT_VERSION, message=f"slipstream {PRODUCT_VERSION} (NATS server {SERVER_VERSION})")
def cli() -> None:
    """Slipstream: NATS in Python."""


@cli.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def server(flags: tuple[str, ...]) -> None:
    """Run a server; takes the flags of nats-server (`slipstream server --help` lists them)."""
    from slipstream.server.main import main as run

    sys.exit(run(list(flags)))


def main() -> None:
    """The console script."""
    cli(prog_name="slipstream")
