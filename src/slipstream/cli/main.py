"""`slipstream`: the command line. Commands are imported when they are called, so that help is there at once.

How to add a noun
    1. A row in `COMMANDS` below: where it is, its line of help, its aliases.
    2. A module `cli/NOUN.py`, or a package `cli/NOUN/` with a `LazyGroup` and a module for each verb, as `cli/stream`.
    3. In it a function with `@click.command(cls=Command)` and `@click.pass_obj`. It takes the `Session`, asks the
       server through `session.link()` (`link.api("STREAM.INFO.X")`, `link.request(...)`), and prints through
       `cli.render`: `Table` and `Columns` for people, `print_json` under the shared flag `cli.types.json_flag`.
    4. What goes wrong is raised: `Failure("text")`, or any `SlipstreamError`. Questions are asked by `cli.prompts`.
       What listens for long uses `cli.listening`, which connects again after the server went away.
    5. Modules that take long to import (rich, asyncio, nats) are imported inside functions.
"""

from __future__ import annotations

import os
from typing import Final

import click

from slipstream.cli.connection import Session
from slipstream.cli.lazy import RootGroup, Verb
from slipstream.cli.preview import PREVIEW
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

__all__ = ["COMMANDS", "cli", "main"]

_MESSAGES = "Messages"
_STREAMS = "Streams and consumers"
_OPERATE = "Servers"
_LOCAL = "On this side"

COMMANDS: Final = {
    "pub": Verb("slipstream.cli.pub:pub", "Publish messages.", ("publish",), _MESSAGES),
    "sub": Verb("slipstream.cli.sub:sub", "Subscribe and show what comes.", ("subscribe",), _MESSAGES),
    "req": Verb("slipstream.cli.req:req", "Send a request and show the answers.", ("request",), _MESSAGES),
    "reply": Verb("slipstream.cli.reply:reply", "Answer requests.", (), _MESSAGES),
    "stream": Verb("slipstream.cli.stream:stream", "Manage streams.", ("str", "s", "st", "ms", "streams"), _STREAMS),
    "consumer": Verb(
        "slipstream.cli.consumer:consumer", "Manage consumers.", ("con", "c", "obs", "consumers"), _STREAMS
    ),
    "kv": Verb("slipstream.cli.kv:kv", "Keep values by key.", (), _STREAMS),
    "object": Verb("slipstream.cli.object:object_", "Keep values of any size.", ("obj",), _STREAMS),
    "apply": Verb("slipstream.cli.apply:apply", "Make streams as a file declares them.", (), _STREAMS),
    "sql": Verb("slipstream.cli.sql:sql", "Ask streams in SQL.", (), _STREAMS),
    "lake": Verb("slipstream.cli.lake:lake", "Keep streams as Delta or Iceberg tables.", (), _STREAMS),
    "spark": Verb("slipstream.cli.spark:spark", "Run jobs of the data pipeline.", (), _STREAMS),
    "server": Verb("slipstream.cli.server:server", "Run a server, and look at those that run.", ("srv",), _OPERATE),
    "cluster": Verb("slipstream.cli.cluster:cluster", "Try a cluster here, and manage those that run.", (), _OPERATE),
    "account": Verb(
        "slipstream.cli.account:account", "Show the account in use, save its streams.", ("a", "acct"), _OPERATE
    ),
    "migrate": Verb("slipstream.cli.migrate:migrate", "Take over the streams of a nats-server.", (), _OPERATE),
    "events": Verb("slipstream.cli.events:events", "Show advisories as they happen.", ("event", "e"), _OPERATE),
    "audit": Verb("slipstream.cli.audit:audit", "Show who administered what.", (), _OPERATE),
    "dashboard": Verb("slipstream.cli.dashboard:dashboard", "Open a server's dashboard.", ("ui",), _OPERATE),
    "otel": Verb("slipstream.cli.otel:otel", "Send metrics and traces to a collector.", (), _OPERATE),
    "top": Verb("slipstream.cli.top:top", "Watch a server's connections.", (), _OPERATE),
    "rtt": Verb("slipstream.cli.rtt:rtt", "Measure the round trip to servers.", (), _OPERATE),
    "latency": Verb("slipstream.cli.rtt:latency", "Measure how long messages take.", ("lat",), _OPERATE),
    "bench": Verb("slipstream.cli.bench:bench", "Measure how fast a server is.", (), _OPERATE),
    "auth": Verb("slipstream.cli.auth:auth", "Manage operators, accounts, users and keys.", (), _LOCAL),
    "nkey": Verb("slipstream.cli.auth.nkeys:nkey", "Make and use nkeys.", ("nk",), _LOCAL),
    "errors": Verb("slipstream.cli.errors:errors", "Look up error codes.", ("err", "error"), _LOCAL),
    "schema": Verb("slipstream.cli.schema:schema", "Look up and check API documents.", (), _LOCAL),
    "cheat": Verb("slipstream.cli.cheat:cheat", "Show examples.", (), _LOCAL),
    "context": Verb("slipstream.cli.context:context", "Manage named connections.", ("ctx",), _LOCAL),
}


@click.group(
    cls=RootGroup,
    entries={**COMMANDS, **PREVIEW},
    show_connection_flags=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(PRODUCT_VERSION, message=f"slipstream {PRODUCT_VERSION} (NATS server {SERVER_VERSION})")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Slipstream: NATS and JetStream from the command line."""
    ctx.ensure_object(Session)
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def main() -> None:
    """The console script."""
    cli(prog_name="slipstream", obj=Session(own_process=True))
