"""Contexts on the screen. Passwords and tokens are not shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.contexts import ContextError
from slipstream.cli.render import Columns, Table, counted, print_json, print_names
from slipstream.cli.settings import ENVIRONMENT, resolve
from slipstream.cli.types import json_flag

__all__ = ["info", "ls", "print_context", "validate"]

_ROWS = {
    "description": "Description",
    "url": "Server URLs",
    "socks_proxy": "SOCKS5 Proxy",
    "user": "Username",
    "password": "Password",
    "token": "Token",
    "creds": "Credentials",
    "user_jwt": "User JWT",
    "user_seed": "User Seed",
    "nkey": "NKey",
    "cert": "Certificate",
    "key": "Key",
    "ca": "CA",
    "tls_first": "TLS First",
    "jetstream_api_prefix": "JS API Prefix",
    "jetstream_event_prefix": "JS Event Prefix",
    "jetstream_domain": "JS Domain",
    "inbox_prefix": "Inbox Prefix",
    "color_scheme": "Color Scheme",
}
_SECRET = frozenset(("password", "token"))
_FILES = frozenset(("creds", "user_jwt", "user_seed", "nkey", "cert", "key", "ca"))


@click.command(cls=Command)
@json_flag
@click.option("--names", "names_only", is_flag=True, help="Print only the names.")
@click.pass_obj
def ls(session: Session, as_json: bool, names_only: bool) -> None:
    """List contexts; the selected one has a star."""
    selected = session.contexts.selected()
    names = session.contexts.names()
    if names_only:
        print_names(names)
        return
    known: list[tuple[str, dict[str, Any]]] = []
    for name in names:
        try:
            known.append((name, session.contexts.load(name)))
        except ContextError as error:
            click.echo(f"{click.style('WARNING:', fg='yellow')} {error}", err=True)
    if as_json:
        print_json([{"name": name, "selected": name == selected, **_shown(fields)} for name, fields in known])
        return
    if not known:
        click.echo("No contexts are defined")
        return
    table = Table("Known Contexts", "Name", "Description")
    for name, fields in known:
        table.add(f"{name}*" if name == selected else name, fields.get("description", ""))
    table.print()


@click.command(cls=Command)
@click.argument("name", required=False)
@json_flag
@click.option("--connect", is_flag=True, help="Try to connect.")
@click.pass_obj
def info(session: Session, name: str | None, as_json: bool, connect: bool) -> None:
    """Show the context NAME, by default the selected one."""
    name = name or session.contexts.selected()
    if not name:
        raise Failure("no context is selected and none is named")
    if as_json:
        print_json(session.contexts.load(name))
        return
    if print_context(session, name, connect=connect):
        raise Failure(f"context {name!r} has errors")


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option("--connect", is_flag=True, help="Try to connect.")
@click.pass_obj
def validate(session: Session, name: str | None, connect: bool) -> None:
    """Check the context NAME, or all of them."""
    wrong = 0
    for each in [name] if name else session.contexts.names():
        wrong += print_context(session, each, connect=connect)
        click.echo()
    if wrong:
        raise Failure(f"{counted(wrong, 'error')} found")


def print_context(session: Session, name: str, *, connect: bool = False) -> int:
    """Print a context and return how many of its fields are wrong."""
    fields = session.contexts.load(name)
    columns = Columns(f'NATS Configuration Context "{name}"')
    wrong = 0
    for field, label in _ROWS.items():
        value = fields.get(field)
        if not value:
            continue
        if field in _SECRET:
            value = "*" * 8
        elif field in _FILES:
            value, is_wrong = _file(str(value))
            wrong += is_wrong
        first, *others = str(value).split(",") if field == "url" else [value]
        columns.row(label, first)
        for other in others:
            columns.row("", other)
    columns.row("Path", session.contexts.path(name))
    if connect:
        reason = _connection_error(fields, name)
        wrong += bool(reason)
        columns.row("Connection", click.style(reason, fg="red") if reason else click.style("OK", fg="green"))
    columns.print()
    overriding = [variable for variable in ENVIRONMENT.values() if os.environ.get(variable)]
    if overriding:
        click.echo(f"\n{click.style('WARNING', fg='red')}: the environment overrides it: {', '.join(overriding)}")
    return wrong


def _shown(fields: dict[str, Any]) -> dict[str, Any]:
    return {field: "*" * 8 if field in _SECRET and value else value for field, value in fields.items()}


def _file(place: str) -> tuple[str, bool]:
    """How a credential is shown, and whether its file is missing."""
    if place.startswith("data:"):
        return "embedded data", False
    if place.startswith("env://"):
        return f"{place} (environment)", False
    if place.startswith("SU"):
        return "embedded seed", False
    path = Path(place.removeprefix("file://")).expanduser()
    readable = os.access(path, os.R_OK)
    reason = "cannot be read" if path.exists() else "no such file"
    verdict = click.style("OK", fg="green") if readable else click.style(f"ERROR: {reason}", fg="red")
    return f"{place} ({verdict})", not readable


def _connection_error(fields: dict[str, Any], name: str) -> str:
    """Why a context cannot connect; nothing if it can."""
    from slipstream.cli.link import ClientLink
    from slipstream.client.wire import ClientError

    try:
        ClientLink(resolve({}, {}, fields, name)).close()
    except (ClientError, OSError, ValueError) as error:
        return str(error)
    return ""
