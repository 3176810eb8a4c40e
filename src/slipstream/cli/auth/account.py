"""`slipstream auth account`: accounts of an operator."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import click

from slipstream.cli.auth.account_limits import UNLIMITED, apply_limits, ends_after, limit_flags
from slipstream.cli.auth.choosing import choose_account, choose_operator, operator_flag
from slipstream.cli.auth.show import show_account
from slipstream.cli.auth.tags import retag, tags_flag, without_tags_flag
from slipstream.cli.auth.tree import checked_name
from slipstream.cli.connection import Command, Failure
from slipstream.cli.human import parse_bytes
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import ask, confirm_or_stop
from slipstream.cli.render import Table, print_json, print_names, say
from slipstream.cli.types import force_flag, json_flag, names_flag

__all__ = ["account"]

_PACKAGE: Final = "slipstream.cli.auth"
_HERE: Final = f"{_PACKAGE}.account"

# `i` means `imports`, as for `nats`.
VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Make an account.", ("create", "new")),
    "info": Verb(f"{_HERE}:info", "Show an account.", ("show", "view")),
    "edit": Verb(f"{_HERE}:edit", "Change an account.", ("update",)),
    "ls": Verb(f"{_HERE}:ls", "List accounts.", ("list",)),
    "rm": Verb(f"{_HERE}:rm", "Remove an account from the tree.", ("delete",)),
    "push": Verb(f"{_PACKAGE}.resolver:push", "Send an account to servers."),
    "query": Verb(f"{_PACKAGE}.resolver:query", "Fetch an account from a server.", ("pull",)),
    "imports": Verb(f"{_PACKAGE}.imports:imports", "Manage imports.", ("i", "imp", "import")),
    "exports": Verb(f"{_PACKAGE}.exports:exports", "Manage exports.", ("e", "exp", "export")),
    "keys": Verb(f"{_PACKAGE}.account_keys:keys", "Manage signing keys and roles.", ("sk", "s")),
    "mappings": Verb(f"{_PACKAGE}.mappings:mappings", "Manage subject mappings.", ("m", "mapping", "map")),
}


@click.group(cls=LazyGroup, entries=VERBS)
def account() -> None:
    """Manage accounts: who is in one does not see the messages of others."""


@click.command(cls=Command)
@click.argument("name", metavar="[ACCOUNT]", required=False)
@operator_flag
@click.option("--key", metavar="KEY", default="", help="Public key of the operator to sign with.")
@limit_flags
@tags_flag
@click.option("--defaults", is_flag=True, help="Ask nothing.")
def add(name: str | None, operator: str, key: str, tags: tuple[str, ...], defaults: bool, **given: Any) -> None:
    """Make the account ACCOUNT."""
    _tree, owner = choose_operator(operator)
    name = checked_name(
        name or ask("Account Name", read=str, help="A name of your choice.", flag="ACCOUNT"), "an account"
    )
    if owner.find_account(name) is not None:
        raise Failure(f"account {name!r} exists already")
    if not defaults:
        for flag, question, read in (
            ("connections", "Maximum Connections", int),
            ("subscriptions", "Maximum Subscriptions", int),
            ("payload", "Maximum Message Payload", parse_bytes),
        ):
            if given[flag] is None:
                given[flag] = ask(question, default="-1", read=read, help="-1: as many as there are.", flag=f"--{flag}")
    part = deepcopy(UNLIMITED)
    # As `nats` has it: who wants bearer tokens says so.
    apply_limits(part, {**given, "bearer": bool(given["bearer"])})
    retag(part, tags, ())
    made = owner.add_account(name, part, owner.signer(key), expires_s=ends_after(given["expiry"]))
    show_account(made.claims, owner, made)


@click.command(cls=Command)
@click.argument("name", metavar="[ACCOUNT]", required=False)
@operator_flag
@json_flag
def info(name: str | None, operator: str, as_json: bool) -> None:
    """Show the account ACCOUNT."""
    owner, found = choose_account(operator, name)
    if as_json:
        print_json(found.fields)
    else:
        show_account(found.claims, owner, found)


@click.command(cls=Command)
@click.argument("name", metavar="[ACCOUNT]", required=False)
@operator_flag
@limit_flags
@tags_flag
@without_tags_flag
def edit(name: str | None, operator: str, tags: tuple[str, ...], no_tags: tuple[str, ...], **given: Any) -> None:
    """Change the account ACCOUNT; what is not given stays."""
    owner, found = choose_account(operator, name)
    apply_limits(found.part, given)
    retag(found.part, tags, no_tags)
    if given["expiry"] is not None:
        found.expire_at(ends_after(given["expiry"]))
    owner.save_account(found)
    show_account(found.claims, owner, found)


@click.command(cls=Command)
@click.argument("operator", required=False)
@names_flag
@json_flag
def ls(operator: str | None, names: bool, as_json: bool) -> None:
    """List the accounts of the operator OPERATOR."""
    _tree, owner = choose_operator(operator)
    found = owner.accounts()
    if as_json:
        print_json([one.name for one in found] if names else [one.fields for one in found])
        return
    if names:
        print_names(one.name for one in found)
        return
    if not found:
        say("No Accounts found")
        return
    table = Table("Accounts", "Name", "Subject", "Users", "JetStream", "System")
    system = owner.claims.nats.system_account
    for one in found:
        has_jetstream = "true" if one.claims.nats.limits.jetstream() else ""
        table.add(one.name, one.subject, len(one.users()), has_jetstream, "true" if one.subject == system else "")
    table.print()


@click.command(cls=Command)
@click.argument("name", metavar="ACCOUNT")
@operator_flag
@click.option("--rm-nkey", is_flag=True, help="Remove its keys and those of its users, too.")
@force_flag
def rm(name: str, operator: str, rm_nkey: bool, force: bool) -> None:
    """Remove ACCOUNT and its users from the tree. Servers that have it keep it."""
    owner, found = choose_account(operator, name)
    if found.subject == owner.claims.nats.system_account:
        raise Failure(f"{found.name!r} is the system account of operator {owner.name!r}")
    confirm_or_stop(f"Really remove the Account {found.name} with its users", force=force)
    owner.remove_account(found, with_keys=rm_nkey)
    say(f"Removed account {found.name}")
