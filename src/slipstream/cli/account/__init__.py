"""`slipstream account`: what the account in use may, does and keeps."""

from __future__ import annotations

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["account"]

_HERE = "slipstream.cli.account"

VERBS = {
    "info": Verb(f"{_HERE}.info:info", "Show who is connected, and the account's JetStream.", ("nfo",)),
    "report": Verb(f"{_HERE}.report:report", "Report on connections, traffic, streams.", ("rep",)),
    "backup": Verb(f"{_HERE}.backup:backup", "Save all streams into a directory.", ("snapshot",)),
    "restore": Verb(f"{_HERE}.backup:restore", "Bring saved streams back.", ()),
}


@click.group(cls=LazyGroup, entries=VERBS)
def account() -> None:
    """Show the account in use, save and restore its streams."""
