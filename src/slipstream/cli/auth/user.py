"""`slipstream auth user`: users of an account, and the credentials with which they connect."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from slipstream.cli.auth.account_limits import ends_after
from slipstream.cli.auth.choosing import choose_account, choose_user, operator_flag
from slipstream.cli.auth.files import write_secret
from slipstream.cli.auth.rights import apply_rights, rights_flags, rights_given
from slipstream.cli.auth.show import show_user
from slipstream.cli.auth.tags import retag, tags_flag, without_tags_flag
from slipstream.cli.auth.tree import Fields, checked_name
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import ask, confirm_or_stop
from slipstream.cli.render import Table, print_names, say
from slipstream.cli.types import DURATION, force_flag, json_flag, names_flag

if TYPE_CHECKING:
    from slipstream.cli.auth.tree import AccountEntry, OperatorEntry, UserEntry

__all__ = ["user"]

_HERE: Final = "slipstream.cli.auth.user"
_PAYLOAD_DEFAULT: Final = 1024 * 1024  # with --defaults, as for `nats`

VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Make a user.", ("create", "new")),
    "info": Verb(f"{_HERE}:info", "Show a user.", ("i", "show", "view")),
    "edit": Verb(f"{_HERE}:edit", "Change a user.", ("update",)),
    "ls": Verb(f"{_HERE}:ls", "List users.", ("list",)),
    "rm": Verb(f"{_HERE}:rm", "Remove a user.", ("delete",)),
    "credential": Verb(f"{_HERE}:credential", "Write a credentials file.", ("cred", "creds")),
}


@click.group(cls=LazyGroup, entries=VERBS)
def user() -> None:
    """Manage users: who connects, and what they may do."""


_credential = click.option("--credential", metavar="FILE", default="", help="Write a credentials file.")


@click.command(cls=Command)
@click.argument("name")
@click.argument("account", required=False)
@operator_flag
@click.option("--key", metavar="KEY", default="", help="Role or public key of the account to sign with.")
@rights_flags
@click.option("--expiry", type=DURATION, metavar="DURATION", help="How long the user is valid.")
@tags_flag
@force_flag
@_credential
@click.option("--defaults", is_flag=True, help="Ask nothing.")
def add(
    name: str,
    account: str | None,
    operator: str,
    key: str,
    expiry: int | None,
    tags: tuple[str, ...],
    force: bool,
    credential: str,
    defaults: bool,
    **given: Any,
) -> None:
    """Make the user NAME in ACCOUNT. With a key that has a role, the role says what the user may do."""
    owner, home = choose_account(operator, account)
    name = checked_name(name, "a user")
    if home.has_user(name):
        raise Failure(f"user {name!r} exists already")
    if credential and not force and Path(credential).exists():
        raise Failure(f"file {credential} exists already: give --force to replace it")
    signer = home.signer(key, strict=owner.claims.nats.strict_signing_key_usage)
    part: Fields = {"pub": {}, "sub": {}}
    if home.claims.nats.signing_keys.get(signer.public) is not None:
        if rights_given(given):
            raise Failure("the role of the key says what the user may do: no further rights can be given")
    else:
        if defaults and given["payload"] is None:
            given["payload"] = _PAYLOAD_DEFAULT
        for flag, question in (("payload", "Maximum Payload"), ("subscriptions", "Maximum Subscriptions")):
            if given[flag] is None and not defaults:
                given[flag] = ask(question, default="-1", read=int, help="-1: no limit.", flag=f"--{flag}")
        part |= {"subs": -1, "data": -1, "payload": -1}
        apply_rights(part, given)
    retag(part, tags, ())
    made = home.add_user(name, part, signer, expires_s=ends_after(expiry))
    if credential:
        write_secret(credential, home.credentials(made))
    show_user(made, home)


@click.command(cls=Command)
@click.argument("name", required=False)
@click.argument("account", required=False)
@operator_flag
@json_flag
def info(name: str | None, account: str | None, operator: str, as_json: bool) -> None:
    """Show the user NAME in ACCOUNT."""
    _owner, home, found = choose_user(operator, account, name)
    show_user(found, home, as_json=as_json)


@click.command(cls=Command)
@click.argument("name", required=False)
@click.argument("account", required=False)
@operator_flag
@rights_flags
@click.option("--expiry", type=DURATION, metavar="DURATION", help="How long the user is valid from now on.")
@tags_flag
@without_tags_flag
@_credential
def edit(
    name: str | None,
    account: str | None,
    operator: str,
    expiry: int | None,
    tags: tuple[str, ...],
    no_tags: tuple[str, ...],
    credential: str,
    **given: Any,
) -> None:
    """Change the user NAME in ACCOUNT; what is not given stays. Servers know it when the user connects with it."""
    _owner, home, found = choose_user(operator, account, name)
    if home.claims.nats.signing_keys.get(found.issuer) is not None:
        if rights_given(given):
            raise Failure("the role of the key says what the user may do: no rights can be changed")
    else:
        apply_rights(found.part, given)
    retag(found.part, tags, no_tags)
    if expiry is not None:
        found.expire_at(ends_after(expiry))
    home.save_user(found)
    if credential:
        write_secret(credential, home.credentials(found))
    show_user(found, home)


@click.command(cls=Command)
@click.argument("account", required=False)
@operator_flag
@names_flag
def ls(account: str | None, operator: str, names: bool) -> None:
    """List the users of ACCOUNT."""
    _owner, home = choose_account(operator, account)
    found = home.users()
    if names:
        print_names(one.name for one in found)
        return
    if not found:
        say("No users found")
        return
    table = Table(
        f"Users in account {home.name}", "Name", "Subject", "Scoped", "Pub Perms", "Sub Perms", "Max Subscriptions"
    )
    for one in found:
        scope = home.claims.nats.signing_keys.get(one.issuer)
        rights = one.claims.nats if scope is None else scope.template
        table.add(
            one.name,
            one.subject,
            scope is not None,
            "✓" if rights.pub.allow or rights.pub.deny else "",
            "✓" if rights.sub.allow or rights.sub.deny else "",
            "Unlimited" if rights.subs == -1 else rights.subs,
        )
    table.print()


@click.command(cls=Command)
@click.argument("name", required=False)
@click.argument("account", required=False)
@operator_flag
@click.option("--revoke", is_flag=True, help="Revoke it in the account, too, which then has to be pushed.")
@force_flag
def rm(name: str | None, account: str | None, operator: str, revoke: bool, force: bool) -> None:
    """Remove the user NAME of ACCOUNT, with its key. Whoever has its credentials can connect until it is revoked."""
    owner, home, found = choose_user(operator, account, name)
    confirm_or_stop(f"Really remove the User {found.name}", force=force)
    if revoke:
        _revoke(owner, home, found)
    home.remove_user(found)
    say(f"Removed user {found.name}")


def _revoke(owner: OperatorEntry, home: AccountEntry, found: UserEntry) -> None:
    revocations: Fields = home.part.setdefault("revocations", {})
    revocations[found.subject] = int(time.time())
    owner.save_account(home)


@click.command(cls=Command)
@click.argument("file")
@click.argument("name", required=False)
@click.argument("account", required=False)
@operator_flag
@click.option("--expire", type=DURATION, metavar="DURATION", help="How long the credentials are valid.")
@force_flag
def credential(
    file: str, name: str | None, account: str | None, operator: str, expire: int | None, force: bool
) -> None:
    """Write FILE, with which a client connects as the user NAME of ACCOUNT."""
    _owner, home, found = choose_user(operator, account, name)
    write_secret(file, home.credentials(found, expires_s=ends_after(expire)), replace=force)
    say(f"Wrote credential for {found.name} to {file}")
