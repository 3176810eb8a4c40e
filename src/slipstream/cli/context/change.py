"""Contexts that come, change and go."""

from __future__ import annotations

import base64
from typing import Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.context.show import print_context
from slipstream.cli.link import content_of
from slipstream.cli.prompts import ask_choice, confirm_or_stop, edited_by_hand
from slipstream.cli.render import say
from slipstream.cli.settings import CONTEXT_NAMES
from slipstream.cli.types import force_flag

__all__ = ["add", "copy", "edit", "previous", "rm", "select", "unselect"]

# Fields of a new context, in the order `nats` writes them.
_FIELDS = (
    "description",
    "url",
    "socks_proxy",
    "token",
    "user",
    "password",
    "creds",
    "nkey",
    "cert",
    "key",
    "ca",
    "nsc",
    "jetstream_domain",
    "jetstream_api_prefix",
    "jetstream_event_prefix",
    "inbox_prefix",
    "user_jwt",
    "user_seed",
    "color_scheme",
    "tls_first",
)
_EMBEDDED = ("creds", "nkey", "user_jwt", "user_seed")

_description = click.option("--description", default="", help="A line about it.")
_select = click.option("--select", "activate", is_flag=True, help="Select it.")
_embed = click.option("--embed", is_flag=True, help="Put the content of credential files into the context.")


@click.command(cls=Command)
@click.argument("name")
@_description
@_select
@_embed
@click.pass_obj
def add(session: Session, name: str, description: str, activate: bool, embed: bool) -> None:
    """Save the context NAME with the connection flags that are given; other fields of an existing one stay.

    \b
        slipstream context add prod --server tls://prod:4222 --creds p.creds
    """
    fields: dict[str, Any] = dict.fromkeys(_FIELDS, "") | {"tls_first": False}
    if name in session.contexts.names():
        fields |= session.contexts.load(name)
    _save(session, name, fields, description, activate=activate, embed=embed)


@click.command(cls=Command)
@click.argument("source")
@click.argument("name")
@_description
@_select
@_embed
@click.pass_obj
def copy(session: Session, source: str, name: str, description: str, activate: bool, embed: bool) -> None:
    """Copy the context SOURCE to NAME, changed by the connection flags that are given."""
    if name in session.contexts.names():
        raise Failure(f"context {name!r} exists already")
    _save(session, name, session.contexts.load(source), description, activate=activate, embed=embed)


def _save(
    session: Session, name: str, fields: dict[str, Any], description: str, *, activate: bool, embed: bool
) -> None:
    for flag, value in session.flags.items():
        field = CONTEXT_NAMES.get(flag, flag)
        if field in _FIELDS:
            fields[field] = value
    if description:
        fields["description"] = description
    if embed:
        for field in _EMBEDDED:
            place = fields.get(field)
            if place and not place.startswith(("data:", "env:")):
                fields[field] = f"data:;base64,{base64.b64encode(content_of(place).encode()).decode()}"
    session.contexts.save(name, fields)
    if activate:
        session.contexts.select(name)
    print_context(session, name)


@click.command(cls=Command)
@click.argument("name")
@click.pass_obj
def edit(session: Session, name: str) -> None:
    """Open the context NAME in $EDITOR."""
    before = session.contexts.load(name)
    fields = edited_by_hand(before)
    if fields == before:
        raise Failure("nothing was changed")
    session.contexts.save(name, fields)
    print_context(session, name)


@click.command(cls=Command)
@click.argument("name", required=False)
@click.pass_obj
def select(session: Session, name: str | None) -> None:
    """Make NAME the context that is used when none is named."""
    known = session.contexts.names()
    if not known:
        raise Failure("there are no contexts: add one with `slipstream context add`")
    if name is None:
        name = ask_choice("Select a Context", known, default=session.contexts.selected() or None, flag="NAME")
    session.contexts.select(name)
    print_context(session, name)


@click.command(cls=Command)
@click.pass_obj
def previous(session: Session) -> None:
    """Select the context that was selected before."""
    name = session.contexts.previous()
    if not name:
        raise Failure("no context was selected before")
    session.contexts.select(name)
    print_context(session, name)


@click.command(cls=Command)
@click.pass_obj
def unselect(session: Session) -> None:
    """Select no context."""
    session.contexts.unselect()
    click.echo("No context is selected")


@click.command(cls=Command)
@click.argument("name")
@force_flag
@click.pass_obj
def rm(session: Session, name: str, force: bool) -> None:
    """Remove the context NAME."""
    session.contexts.load(name)
    confirm_or_stop(f"Really delete context {name}", force=force)
    session.contexts.remove(name)
    say(f"Removed context {name}")
