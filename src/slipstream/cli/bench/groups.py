"""Groups of bench commands: flags may stand before the command, as in `bench js --clients 4 consume`.

The older form `bench js pub SUBJECT`, which has no command behind `pub`, publishes asynchronously.
"""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.lazy import LazyGroup
from slipstream.nearness import near

__all__ = ["BenchGroup"]


class BenchGroup(LazyGroup):
    """A group that hands flags it does not know to the command behind them, or to the one that is meant by none."""

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        """Take the name of the command to run if none is named."""
        super().__init__(*args, **kwargs)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move such flags behind the command."""
        known = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if args and args[0].startswith("-") and args[0].partition("=")[0] not in known:
            commands = (at for at, word in enumerate(args) if self.get_command(ctx, word) is not None)
            at = next(commands, None)
            if at is not None:
                args = [args[at], *args[:at], *args[at + 1 :]]
            elif self._default:
                args = [self._default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a word that is not even nearly one belongs to the default."""
        if self._default and self.get_command(ctx, args[0]) is None and not near(args[0], self.entries):
            args = [self._default, *args]
        return super().resolve_command(ctx, args)
