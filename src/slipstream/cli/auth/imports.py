"""`slipstream auth account imports`: what an account takes from others."""

from __future__ import annotations

from typing import Final

import click

from slipstream.auth.jwt.token import undecorated
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.cli.auth.choosing import choose_account, choose_shared, operator_flag, put_given, remove_shared
from slipstream.cli.auth.files import read_text
from slipstream.cli.auth.tree import Fields, OperatorEntry
from slipstream.cli.connection import Command
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import ask_choice, confirm_or_stop
from slipstream.cli.render import Columns, Table, print_json, say
from slipstream.cli.types import force_flag, json_flag

__all__ = ["imports"]

_HERE: Final = "slipstream.cli.auth.imports"

VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Add an import.", ("new", "a", "n")),
    "info": Verb(f"{_HERE}:info", "Show an import.", ("i", "show", "view")),
    "edit": Verb(f"{_HERE}:edit", "Change an import.", ("update",)),
    "ls": Verb(f"{_HERE}:ls", "List imports.", ("list",)),
    "rm": Verb(f"{_HERE}:rm", "Remove an import.", ("delete",)),
}


@click.group(cls=LazyGroup, entries=VERBS)
def imports() -> None:
    """Manage imports: streams and services of other accounts."""


_local = click.option("--local", metavar="SUBJECT", help="What it is called in this account.")
_share = click.option("--share/--no-share", default=None, help="Tell the exporter who asks.")
_traceable = click.option("--traceable/--no-traceable", default=None, help="Let traces follow a stream.")


@click.command(cls=Command)
@click.argument("name")
@click.argument("subject")
@click.argument("account", required=False)
@operator_flag
@click.option("--source", metavar="ACCOUNT", default="", help="Account to import from: public key, or name.")
@_local
@_share
@_traceable
@click.option("--service", is_flag=True, help="A service rather than a stream.")
@click.option("--token", metavar="FILE", default="", help="Activation, for what is private.")
def add(
    name: str,
    subject: str,
    account: str | None,
    operator: str,
    source: str,
    local: str | None,
    share: bool | None,
    traceable: bool | None,
    service: bool,
    token: str,
) -> None:
    """Import SUBJECT into ACCOUNT as NAME."""
    owner, found = choose_account(operator, account)
    if not source:
        others = [one.name for one in owner.accounts() if one.name != found.name]
        source = ask_choice("Select an Account to import from", others, flag="--source")
    if not is_public_key(source, KeyKind.ACCOUNT):
        source = owner.account(source).subject
    entry: Fields = {"name": name, "subject": subject, "account": source}
    entry |= {"local_subject": local or subject, "type": "service" if service else "stream"}
    if token:
        entry["token"] = undecorated(read_text(token))
    _apply(entry, None, share, traceable)
    found.part.setdefault("imports", []).append(entry)
    owner.save_account(found)
    _show(owner, entry)


def _apply(entry: Fields, local: str | None, share: bool | None, traceable: bool | None) -> None:
    put_given(entry, (("local_subject", local), ("share", share), ("allow_trace", traceable)))


def _local_of(entry: Fields) -> str:
    return str(entry.get("local_subject") or entry.get("to") or entry["subject"])


def _source(owner: OperatorEntry, entry: Fields, *, short: bool = False) -> str:
    known = owner.find_account(entry["account"])
    if known is None:
        return str(entry["account"])
    return known.name if short else f"{known.name} ({known.subject})"


def _show(owner: OperatorEntry, entry: Fields) -> None:
    columns = Columns(f"Import info for import {entry.get('name', '')!r} importing {_local_of(entry)!r}")
    columns.section("Configuration")
    columns.row("Name", entry.get("name", ""))
    columns.row("From Account", _source(owner, entry))
    columns.row("Local Subject", _local_of(entry))
    columns.row("Kind", str(entry["type"]).title())
    columns.row("Remote Subject", entry["subject"])
    columns.row("Activation", "given", when=entry.get("token"))
    columns.row("Sharing Connection Info", bool(entry.get("share")))
    columns.row("Allows Message Tracing", bool(entry.get("allow_trace")), when=entry["type"] == "stream")
    columns.print()


@click.command(cls=Command)
@click.argument("subject", required=False)
@click.argument("account", required=False)
@operator_flag
@json_flag
def info(subject: str | None, account: str | None, operator: str, as_json: bool) -> None:
    """Show the import that ACCOUNT knows as SUBJECT."""
    owner, found = choose_account(operator, account)
    entry = choose_shared(found, "import", subject, _local_of)
    if as_json:
        print_json(entry)
    else:
        _show(owner, entry)


@click.command(cls=Command)
@click.argument("subject")
@click.argument("account", required=False)
@operator_flag
@_local
@_share
@_traceable
def edit(
    subject: str, account: str | None, operator: str, local: str | None, share: bool | None, traceable: bool | None
) -> None:
    """Change the import that ACCOUNT knows as SUBJECT; what is not given stays."""
    owner, found = choose_account(operator, account)
    entry = choose_shared(found, "import", subject, _local_of)
    _apply(entry, local, share, traceable)
    owner.save_account(found)
    _show(owner, entry)


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("operator", required=False, default="")
def ls(account: str | None, operator: str) -> None:
    """List the imports of ACCOUNT."""
    owner, found = choose_account(operator, account)
    present = found.fields["nats"].get("imports") or []
    if not present:
        say("No Imports defined")
        return
    table = Table(
        f"Imports for account {found.name}",
        *("Name", "Kind", "Source", "Local Subject", "Remote Subject", "Allows Tracing", "Sharing Connection Info"),
    )
    for entry in present:
        table.add(
            entry.get("name", ""),
            str(entry["type"]).title(),
            _source(owner, entry, short=True),
            _local_of(entry),
            entry["subject"],
            bool(entry.get("allow_trace")) if entry["type"] == "stream" else "",
            bool(entry.get("share")),
        )
    table.print()


@click.command(cls=Command)
@click.argument("subject")
@click.argument("account", required=False)
@operator_flag
@force_flag
def rm(subject: str, account: str | None, operator: str, force: bool) -> None:
    """Remove the import that ACCOUNT knows as SUBJECT."""
    owner, found = choose_account(operator, account)
    entry = choose_shared(found, "import", subject, _local_of)
    confirm_or_stop(f"Really remove the import {subject}", force=force)
    remove_shared(found, "import", entry)
    owner.save_account(found)
    say(f"Removed import {subject}")
