"""`slipstream auth account keys`: keys that sign users, with a role that says what these may do."""

from __future__ import annotations

from typing import Any, Final

import click

from slipstream.auth.nkeys import KeyKind
from slipstream.cli.auth.choosing import choose_account, operator_flag
from slipstream.cli.auth.keyring import KeyPair
from slipstream.cli.auth.rights import apply_rights, rights_flags, rights_given
from slipstream.cli.auth.show import show_rights
from slipstream.cli.auth.tree import AccountEntry, Fields
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import ask, ask_choice, confirm_or_stop
from slipstream.cli.render import Columns, Table, print_json, say
from slipstream.cli.types import force_flag, json_flag

__all__ = ["keys"]

_HERE: Final = "slipstream.cli.auth.account_keys"

VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Make a signing key.", ("new", "a", "n")),
    "info": Verb(f"{_HERE}:info", "Show a signing key.", ("i", "show", "view")),
    "edit": Verb(f"{_HERE}:edit", "Change what a role allows.", ("update",)),
    "ls": Verb(f"{_HERE}:ls", "List signing keys.", ("list",)),
    "rm": Verb(f"{_HERE}:rm", "Remove a signing key.", ("delete",)),
}


@click.group(cls=LazyGroup, entries=VERBS)
def keys() -> None:
    """Manage signing keys: each has a role, whose users may do what the role says."""


_description = click.option("--description", metavar="TEXT", default="", help="A line about it.")


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("role", required=False)
@operator_flag
@_description
@click.option("--plain", is_flag=True, help="Without a role: each user has rights of its own.")
@rights_flags
def add(account: str | None, role: str | None, operator: str, description: str, plain: bool, **given: Any) -> None:
    """Make a signing key of ACCOUNT for ROLE. Subjects may hold {{name()}}, {{tag(x)}} and the like."""
    owner, found = choose_account(operator, account)
    key = KeyPair.new(KeyKind.ACCOUNT)
    present: list[Any] = found.part.setdefault("signing_keys", [])
    if plain:
        if role or rights_given(given):
            raise click.UsageError("A plain key has no role and no rights.")
        present.append(key.public)
    else:
        role = role or ask("Role Name", read=str, help="What its users are.", flag="ROLE")
        template: Fields = {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
        apply_rights(template, given)
        scope = {"kind": "user_scope", "key": key.public, "role": role, "template": template}
        present.append({**scope, "description": description})
    owner.keyring.add(key)
    owner.save_account(found)
    _show(found, key.public)


def _choose(found: AccountEntry, named: str | None) -> str:
    signing = found.claims.nats.signing_keys
    if not signing:
        raise Failure(f"account {found.name!r} has no signing keys")
    if named is None:
        roles = [key if scope is None else scope.role or key for key, scope in signing.items()]
        named = ask_choice("Select a Signing Key", roles, flag="KEY")
    return found.scope_of(named)


def _show(found: AccountEntry, public: str) -> None:
    scope = found.claims.nats.signing_keys[public]
    columns = Columns(f"{'Signing Key' if scope is None else 'Scoped Signing Key'} {public}")
    columns.section("Config")
    columns.row("Key", public)
    if scope is not None:
        columns.row("Description", scope.description, when=scope.description)
        columns.row("Role", scope.role)
        show_rights(columns, scope.template)
    columns.print()


def _entry(found: AccountEntry, public: str) -> Any:
    return next(
        one for one in found.part["signing_keys"] if public == (one if isinstance(one, str) else one.get("key"))
    )


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("key", required=False)
@operator_flag
@json_flag
def info(account: str | None, key: str | None, operator: str, as_json: bool) -> None:
    """Show the signing key KEY of ACCOUNT, a role or public key."""
    _owner, found = choose_account(operator, account)
    public = _choose(found, key)
    if as_json:
        print_json(_entry(found, public))
    else:
        _show(found, public)


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("key", required=False)
@operator_flag
@_description
@rights_flags
def edit(account: str | None, key: str | None, operator: str, description: str, **given: Any) -> None:
    """Change what users of the role KEY of ACCOUNT may do; what is not given stays."""
    owner, found = choose_account(operator, account)
    public = _choose(found, key)
    entry = _entry(found, public)
    if isinstance(entry, str):
        raise Failure(f"{public} has no role")
    apply_rights(entry.setdefault("template", {}), given)
    if description:
        entry["description"] = description
    owner.save_account(found)
    _show(found, public)


@click.command(cls=Command)
@click.argument("account", required=False)
@operator_flag
def ls(account: str | None, operator: str) -> None:
    """List the signing keys of ACCOUNT."""
    _owner, found = choose_account(operator, account)
    signing = found.claims.nats.signing_keys
    if not signing:
        say("No Scoped Signing Keys or Roles defined")
        return
    table = Table("Signing Keys", "Role", "Key", "Description", "Max Subscriptions", "Pub Perms", "Sub Perms")
    for public, scope in signing.items():
        if scope is None:
            table.add("", public, "", "", "", "")
            continue
        rights = scope.template
        counts = (len(side.allow or ()) + len(side.deny or ()) for side in (rights.pub, rights.sub))
        table.add(scope.role, public, scope.description, rights.subs, *counts)
    table.print()


@click.command(cls=Command)
@click.argument("account", required=False)
@click.option("--key", metavar="KEY", help="Role or public key to remove.")
@operator_flag
@force_flag
def rm(account: str | None, key: str | None, operator: str, force: bool) -> None:
    """Remove a signing key of ACCOUNT; users that it signed are let in no more."""
    owner, found = choose_account(operator, account)
    public = _choose(found, key)
    confirm_or_stop(f"Really remove the signing key {public}", force=force)
    entry = _entry(found, public)
    found.part["signing_keys"] = [one for one in found.part["signing_keys"] if one is not entry]
    owner.save_account(found)
    owner.keyring.remove(public)
    say(f"Removed signing key {public}")
