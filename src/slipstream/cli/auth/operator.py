"""`slipstream auth operator`: whom servers trust."""

from __future__ import annotations

from typing import Any, Final

import click

from slipstream.auth.nkeys import KeyKind
from slipstream.cli.auth.account_limits import UNLIMITED
from slipstream.cli.auth.choosing import choose_operator, put_given, select_operator
from slipstream.cli.auth.files import read_text
from slipstream.cli.auth.keyring import KeyPair
from slipstream.cli.auth.show import show_operator
from slipstream.cli.auth.tags import retag, tags_flag, without_tags_flag
from slipstream.cli.auth.tree import Fields, checked_name, default_tree
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import ask, confirm_or_stop
from slipstream.cli.render import Table, print_names, say
from slipstream.cli.types import force_flag, json_flag, names_flag

__all__ = ["operator"]

_HERE: Final = "slipstream.cli.auth.operator"
_BACKUP: Final = "slipstream.cli.auth.backup"

VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Make an operator.", ("create", "new")),
    "info": Verb(f"{_HERE}:info", "Show an operator.", ("i", "show", "view")),
    "list": Verb(f"{_HERE}:list_", "List operators.", ("ls",)),
    "edit": Verb(f"{_HERE}:edit", "Change an operator.", ("update",)),
    "import": Verb(f"{_HERE}:import_", "Take in an operator made elsewhere."),
    "select": Verb(f"{_HERE}:select", "Select the operator to use."),
    "generate": Verb("slipstream.cli.auth.generate:generate", "Write a server's configuration.", ("gen", "config")),
    "backup": Verb(f"{_BACKUP}:backup", "Save an operator with everything below it."),
    "restore": Verb(f"{_BACKUP}:restore", "Bring a saved operator back."),
    "keys": Verb(f"{_HERE}:keys", "Manage signing keys.", ("sk", "s")),
}

SYSTEM: Final = "SYSTEM"  # the name that `nats` gives to the system account


@click.group(cls=LazyGroup, entries=VERBS)
def operator() -> None:
    """Manage operators: servers trust one, and it signs accounts."""


_service = click.option("--service", metavar="URL", multiple=True, help="Addresses of its servers.")
_account_server = click.option("--account-server", metavar="URL", help="Address where accounts are found.")


@click.command(cls=Command)
@click.argument("name", required=False)
@_service
@_account_server
@click.option("--signing-key/--no-signing-key", default=True, show_default=True, help="Make a signing key, too.")
@tags_flag
def add(
    name: str | None, service: tuple[str, ...], account_server: str | None, signing_key: bool, tags: tuple[str, ...]
) -> None:
    """Make the operator NAME, with a system account."""
    tree = default_tree()
    name = checked_name(
        name or ask("Operator Name", read=str, help="A name of your choice.", flag="NAME"), "an operator"
    )
    if name in tree.names():
        raise Failure(f"operator {name!r} exists already")
    own, signing = KeyPair.new(KeyKind.OPERATOR), [KeyPair.new(KeyKind.OPERATOR)] if signing_key else []
    part: Fields = {"signing_keys": [key.public for key in signing]} if signing else {}
    _addresses(part, service, account_server)
    retag(part, tags, ())
    for key in signing:
        tree.keyring.add(key)
    made = tree.new_operator(name, part, own)
    system = made.add_account(SYSTEM, UNLIMITED, own)
    made.part["system_account"] = system.subject
    made.save()
    show_operator(made)


def _addresses(part: Fields, service: tuple[str, ...], account_server: str | None) -> None:
    """Set what was given; an empty text takes it away."""
    urls = [url for url in service if url] if service else None
    put_given(part, (("operator_service_urls", urls), ("account_server_url", account_server)))


@click.command(cls=Command)
@click.argument("name", required=False)
@json_flag
def info(name: str | None, as_json: bool) -> None:
    """Show the operator NAME."""
    show_operator(choose_operator(name)[1], as_json=as_json)


@click.command(cls=Command, name="list")
@names_flag
def list_(names: bool) -> None:
    """List operators."""
    tree = default_tree()
    found = tree.names()
    if names:
        print_names(found)
        return
    if not found:
        say("No Operators found")
        return
    table = Table("Operators", "Name", "Subject", "Accounts", "Account Server", "Signing Keys")
    for one in map(tree.operator, found):
        part = one.claims.nats
        table.add(one.name, one.subject, len(one.accounts()), part.account_server_url, len(part.signing_keys or ()))
    table.print()


@click.command(cls=Command)
@click.argument("name", required=False)
@_service
@_account_server
@click.option("--system-account", metavar="ACCOUNT", help="The system account of its servers.")
@click.option(
    "--require-signing-keys/--no-require-signing-keys", default=None, help="Accounts and users need signing keys."
)
@tags_flag
@without_tags_flag
def edit(
    name: str | None,
    service: tuple[str, ...],
    account_server: str | None,
    system_account: str | None,
    require_signing_keys: bool | None,
    tags: tuple[str, ...],
    no_tags: tuple[str, ...],
) -> None:
    """Change the operator NAME; what is not given stays."""
    _tree, found = choose_operator(name)
    part = found.part
    _addresses(part, service, account_server)
    retag(part, tags, no_tags)
    if system_account is not None:
        part["system_account"] = found.account(system_account).subject
    if require_signing_keys is not None:
        if require_signing_keys and not part.get("signing_keys"):
            raise Failure(f"operator {found.name!r} has no signing key")
        part["strict_signing_key_usage"] = require_signing_keys
    found.save()
    show_operator(found)


@click.command(cls=Command, name="import")
@click.argument("token", type=click.Path(exists=True, dir_okay=False))
@click.argument("key", nargs=-1, type=click.Path(exists=True, dir_okay=False))
def import_(token: str, key: tuple[str, ...]) -> None:
    """Take in the operator whose token is in the file TOKEN, with the seeds in the files KEY."""
    from slipstream.auth.jwt.token import InvalidToken, decode_operator, undecorated

    text = undecorated(read_text(token))
    try:
        claims = decode_operator(text)
    except InvalidToken as error:
        raise Failure(f"{token}: {error}") from error
    keys = [KeyPair.read(read_text(file)) for file in key]
    for file, pair in zip(key, keys, strict=True):
        if pair.public not in (claims.sub, *(claims.nats.signing_keys or ())):
            raise Failure(f"{file} is no key of operator {claims.name!r}")
    show_operator(default_tree().put_operator(claims.name, text, keys))


@click.command(cls=Command)
@click.argument("name", required=False)
def select(name: str | None) -> None:
    """Use the operator NAME when none is given."""
    found = choose_operator(name, selected=False)[1]
    select_operator(found.name)
    say(f"Selected operator {found.name!r} as default")


# --- signing keys ----------------------------------------------------------------------------------------------------

KEY_VERBS: Final = {
    "list": Verb(f"{_HERE}:list_keys", "List signing keys.", ("ls",)),
    "add": Verb(f"{_HERE}:add_key", "Make a signing key.", ("new", "create")),
    "rm": Verb(f"{_HERE}:rm_key", "Remove a signing key.", ("delete",)),
}


@click.group(cls=LazyGroup, entries=KEY_VERBS)
def keys() -> None:
    """Manage signing keys: they sign accounts so that the operator's own key can stay away."""


@click.command(cls=Command)
@click.argument("name", required=False)
def list_keys(name: str | None) -> None:
    """List the signing keys of the operator NAME."""
    print_names(choose_operator(name)[1].claims.nats.signing_keys or ())


@click.command(cls=Command)
@click.argument("name", required=False)
def add_key(name: str | None) -> None:
    """Make a signing key for the operator NAME; prints its public key."""
    tree, found = choose_operator(name)
    key = KeyPair.new(KeyKind.OPERATOR)
    present: list[Any] = found.part.setdefault("signing_keys", [])
    present.append(key.public)
    tree.keyring.add(key)
    found.save()
    say(key.public)


@click.command(cls=Command)
@click.argument("name")
@click.argument("key")
@force_flag
def rm_key(name: str, key: str, force: bool) -> None:
    """Remove the signing key KEY of the operator NAME; accounts that it signed have to be signed again."""
    tree, found = choose_operator(name)
    present = found.part.get("signing_keys") or []
    if key not in present:
        raise Failure(f"{key} is no signing key of operator {found.name!r}")
    confirm_or_stop(f"Really remove the signing key {key}", force=force)
    found.part["signing_keys"] = [other for other in present if other != key]
    found.save()
    tree.keyring.remove(key)
    say("Signing key removed")
