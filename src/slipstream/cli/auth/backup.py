"""`slipstream auth operator backup` and `restore`: an operator and all below it in one file, the one of `nats`."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slipstream.auth.jwt.token import InvalidToken, decode_account, decode_operator, decode_user
from slipstream.auth.nkeys import KeyKind, decode_public_key, is_public_key
from slipstream.cli.auth.choosing import choose_operator
from slipstream.cli.auth.files import read_text, write_secret
from slipstream.cli.auth.keyring import KeyPair, Keyring
from slipstream.cli.auth.show import show_operator
from slipstream.cli.auth.tree import Fields, checked_name, default_tree
from slipstream.cli.connection import Command, Failure
from slipstream.cli.render import note, say

if TYPE_CHECKING:
    from slipstream.cli.auth.tree import TreeEntry

__all__ = ["backup", "restore"]

_key = click.option("--key", metavar="FILE", default="", help="Seed of a curve key, to encrypt with.")


@click.command(cls=Command)
@click.argument("name")
@click.argument("output")
@_key
def backup(name: str, output: str, key: str) -> None:
    """Save the operator NAME with its accounts, users and keys in the file OUTPUT."""
    tree, found = choose_operator(name)
    saved = _saved(found, tree.keyring, found.claims.nats.signing_keys or ())
    saved["accounts"] = [
        {
            **_saved(account, tree.keyring, list(account.claims.nats.signing_keys)),
            "users": [_saved(user, tree.keyring) for user in account.users()],
        }
        for account in found.accounts()
    ]
    content = json.dumps(saved, indent=2).encode()
    if key:
        pair = _curve_key(key)
        content = b64encode(pair.seal(content, _public(pair)))
    write_secret(output, content)
    say(f"Wrote backup for {found.name} to {output}")
    if not key:
        note("the file holds secrets and is not encrypted: --key encrypts it")


def _saved(entry: TreeEntry, keyring: Keyring, signing: Sequence[str] | None = None) -> Fields:
    saved: Fields = {"name": entry.name, "key": _saved_key(keyring, entry.subject), "token": entry.text}
    if signing is not None:
        saved["signingKeys"] = [_saved_key(keyring, public) for public in signing]
    return saved


def _saved_key(keyring: Keyring, public: str) -> Fields:
    key = keyring.get(public)
    return {"key": public if key is None else key.seed}


@click.command(cls=Command)
@click.argument("name")
@click.argument("input", type=click.Path(exists=True, dir_okay=False))
@_key
def restore(name: str, input: str, key: str) -> None:
    """Bring back the operator NAME from the file INPUT."""
    content = read_text(input)
    if key:
        pair = _curve_key(key)
        try:
            content = pair.unseal(b64decode(content, validate=True), _public(pair)).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Failure(f"{input} was not encrypted with a curve key") from error
    try:
        saved = json.loads(content)
        claims = decode_operator(_field(saved, "token"))
        accounts = [_checked_account(one) for one in saved.get("accounts") or ()]
        keys = _keys(saved)
    except (ValueError, TypeError, InvalidToken) as error:
        raise Failure(f"{input} is no backup of an operator: {error}") from error
    if _field(saved, "name") != name:
        raise Failure(f"{input} is a backup of operator {_field(saved, 'name')!r}")
    if any(signer not in (claims.sub, *(claims.nats.signing_keys or ())) for signer, *_rest in accounts):
        raise Failure(f"{input} holds an account of another operator")
    made = default_tree().put_operator(name, _field(saved, "token"), keys)
    for _signer, account, account_keys, users in accounts:
        home = made.put_account(_field(account, "name"), _field(account, "token"), account_keys)
        for user, user_keys in users:
            home.put_user(_field(user, "name"), _field(user, "token"), user_keys)
    show_operator(made)


def _checked_account(saved: Any) -> tuple[str, Fields, list[KeyPair], list[tuple[Fields, list[KeyPair]]]]:
    """Who signed it, the account, its keys and its users; nothing is written before all of it was looked at."""
    claims = decode_account(_field(saved, "token"))
    checked_name(_field(saved, "name"), "an account")
    users = saved.get("users") or []
    for user in users:
        decode_user(_field(user, "token"))
        checked_name(_field(user, "name"), "a user")
    return claims.iss, saved, _keys(saved), [(user, _keys(user)) for user in users]


def _field(saved: Any, name: str) -> str:
    value = saved.get(name) if isinstance(saved, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is missing")
    return value


def _keys(saved: Fields) -> list[KeyPair]:
    """Those keys of which there is more than the public half."""
    entries = [saved.get("key"), *(saved.get("signingKeys") or ())]
    texts = [entry["key"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("key"), str)]
    return [KeyPair.read(text) for text in texts if not is_public_key(text)]


def _curve_key(file: str) -> KeyPair:
    key = KeyPair.read(read_text(Path(file)))
    if key.kind != KeyKind.CURVE:
        raise Failure(f"{file} is no curve key: `slipstream auth nkey gen curve` makes one")
    return key


def _public(key: KeyPair) -> bytes:
    raw = decode_public_key(key.public)
    assert raw is not None
    return raw
