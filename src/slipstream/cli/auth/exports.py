"""`slipstream auth account exports`: what an account offers to others, and to whom."""

from __future__ import annotations

from typing import Any, Final

import click

from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.cli.auth.account_limits import ends_after
from slipstream.cli.auth.choosing import choose_account, choose_shared, operator_flag, put_given, remove_shared
from slipstream.cli.auth.files import write_secret
from slipstream.cli.auth.tree import AccountEntry, Fields, issue
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import Columns, Table, print_json, say
from slipstream.cli.types import DURATION, force_flag, json_flag

__all__ = ["exports"]

_HERE: Final = "slipstream.cli.auth.exports"

VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Add an export.", ("new", "a", "n")),
    "info": Verb(f"{_HERE}:info", "Show an export.", ("i", "show", "view")),
    "edit": Verb(f"{_HERE}:edit", "Change an export.", ("update",)),
    "ls": Verb(f"{_HERE}:ls", "List exports.", ("list",)),
    "rm": Verb(f"{_HERE}:rm", "Remove an export.", ("delete",)),
    "activate": Verb(f"{_HERE}:activate", "Let an account import what is private.", ("activation",)),
}

_RESPONSES: Final = {"single": "Singleton", "stream": "Stream", "chunked": "Chunked"}


@click.group(cls=LazyGroup, entries=VERBS)
def exports() -> None:
    """Manage exports: streams and services that other accounts may import."""


_description = click.option("--description", metavar="TEXT", help="A line about it.")
_url = click.option("--url", metavar="URL", help="Where more is said about it.")
_position = click.option(
    "--token-position", type=click.IntRange(min=0), metavar="N", help="Position of a * that is the importing account."
)
_advertise = click.option("--advertise/--no-advertise", default=None, help="Show it in catalogues.")
_private = click.option("--private/--public", default=None, help="Importing needs an activation.")


@click.command(cls=Command)
@click.argument("name")
@click.argument("subject")
@click.argument("account", required=False)
@operator_flag
@_description
@_url
@_position
@_advertise
@_private
@click.option("--service", is_flag=True, help="A service rather than a stream.")
@click.option("--response", type=click.Choice(list(_RESPONSES)), help="How a service answers.")
def add(
    name: str, subject: str, account: str | None, operator: str, service: bool, response: str | None, **given: Any
) -> None:
    """Export SUBJECT of ACCOUNT as NAME."""
    owner, found = choose_account(operator, account)
    if response and not service:
        raise click.UsageError("--response is for services.")
    entry: Fields = {"name": name, "subject": subject, "type": "service" if service else "stream"}
    if response:
        entry["response_type"] = _RESPONSES[response]
    present: list[Fields] = found.part.setdefault("exports", [])
    if any((one["subject"], one["type"]) == (subject, entry["type"]) for one in present):
        raise Failure(f"{subject!r} is exported already")
    _apply(entry, given)
    present.append(entry)
    owner.save_account(found)
    _show(found, entry)


def _apply(entry: Fields, given: dict[str, Any]) -> None:
    fields = {
        "description": "description",
        "url": "info_url",
        "token_position": "account_token_position",
        "advertise": "advertise",
        "private": "token_req",
    }
    put_given(entry, ((field, given[flag]) for flag, field in fields.items()))


def _choose(found: AccountEntry, subject: str | None) -> Fields:
    return choose_shared(found, "export", subject, lambda one: str(one.get("subject", "")))


def _show(found: AccountEntry, entry: Fields) -> None:
    columns = Columns(f"Export info for {entry.get('name', '')} exporting {entry['subject']}")
    columns.section("Configuration")
    columns.row("Name", entry.get("name", ""))
    columns.row("Account", found.name)
    columns.row("Description", entry.get("description"), when=entry.get("description"))
    columns.row("Kind", str(entry["type"]).title())
    columns.row("Info", entry.get("info_url"), when=entry.get("info_url"))
    columns.row("Subject", entry["subject"])
    columns.row("Activation Required", bool(entry.get("token_req")))
    columns.row("Account Token Position", entry.get("account_token_position", 0))
    columns.row("Advertised", bool(entry.get("advertise")))
    columns.row("Revocations", len(entry.get("revocations") or ()))
    columns.print()


@click.command(cls=Command)
@click.argument("subject", required=False)
@click.argument("account", required=False)
@operator_flag
@json_flag
def info(subject: str | None, account: str | None, operator: str, as_json: bool) -> None:
    """Show the export of SUBJECT of ACCOUNT."""
    _owner, found = choose_account(operator, account)
    entry = _choose(found, subject)
    if as_json:
        print_json(entry)
    else:
        _show(found, entry)


@click.command(cls=Command)
@click.argument("subject")
@click.argument("account", required=False)
@operator_flag
@_description
@_url
@_position
@_advertise
@_private
def edit(subject: str, account: str | None, operator: str, **given: Any) -> None:
    """Change the export of SUBJECT of ACCOUNT; what is not given stays."""
    owner, found = choose_account(operator, account)
    entry = _choose(found, subject)
    _apply(entry, given)
    owner.save_account(found)
    _show(found, entry)


@click.command(cls=Command)
@click.argument("account", required=False)
@operator_flag
def ls(account: str | None, operator: str) -> None:
    """List the exports of ACCOUNT."""
    _owner, found = choose_account(operator, account)
    present = found.fields["nats"].get("exports") or []
    if not present:
        say("No Exports defined")
        return
    table = Table(
        f"Exports for account {found.name}",
        *("Name", "Kind", "Subject", "Activation Required", "Advertised", "Token Position", "Revocations"),
    )
    for entry in present:
        table.add(
            entry.get("name", ""),
            str(entry["type"]).title(),
            entry["subject"],
            bool(entry.get("token_req")),
            bool(entry.get("advertise")),
            entry.get("account_token_position", 0),
            len(entry.get("revocations") or ()),
        )
    table.print()


@click.command(cls=Command)
@click.argument("subject")
@click.argument("account", required=False)
@operator_flag
@force_flag
def rm(subject: str, account: str | None, operator: str, force: bool) -> None:
    """Remove the export of SUBJECT from ACCOUNT."""
    owner, found = choose_account(operator, account)
    entry = _choose(found, subject)
    confirm_or_stop(f"Really remove the export of {subject}", force=force)
    remove_shared(found, "export", entry)
    owner.save_account(found)
    say(f"Removed export {subject}")


@click.command(cls=Command)
@click.argument("subject")
@click.argument("target")
@click.argument("account", required=False)
@operator_flag
@click.option("--as-subject", metavar="SUBJECT", default="", help="Less than all of what is exported.")
@click.option("--expiry", type=DURATION, metavar="DURATION", help="How long it is valid.")
@click.option("--output", "-o", metavar="FILE", default="", help="Write it to a file.")
@force_flag
def activate(
    subject: str,
    target: str,
    account: str | None,
    operator: str,
    as_subject: str,
    expiry: int | None,
    output: str,
    force: bool,
) -> None:
    """Let the account TARGET, a name or public key, import SUBJECT of ACCOUNT: prints the activation."""
    owner, found = choose_account(operator, account)
    entry = _choose(found, subject)
    if not is_public_key(target, KeyKind.ACCOUNT):
        target = owner.account(target).subject
    signer = found.signer(strict=owner.claims.nats.strict_signing_key_usage)
    part: Fields = {"subject": as_subject or subject, "kind": entry["type"], "type": "activation", "version": 2}
    if signer.public != found.subject:
        part["issuer_account"] = found.subject
    fields: Fields = {"name": part["subject"], "sub": target, "nats": part}
    if expiry:
        fields["exp"] = ends_after(expiry)
    text = issue(fields, signer)
    if output:
        write_secret(output, text, replace=force)
    else:
        click.echo(text)
