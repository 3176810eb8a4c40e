"""`slipstream auth`: keys, and the trees of operators, accounts and users that `nsc` and `nats` keep as well."""

from __future__ import annotations

from typing import Final

import click

from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["auth"]

_HERE: Final = "slipstream.cli.auth"

NOUNS: Final = {
    "operator": Verb(f"{_HERE}.operator:operator", "Manage operators.", ("o", "op")),
    "account": Verb(f"{_HERE}.account:account", "Manage accounts of an operator.", ("a", "acct", "act")),
    "user": Verb(f"{_HERE}.user:user", "Manage users of an account.", ("u", "usr", "users")),
    "nkey": Verb(f"{_HERE}.nkeys:nkey", "Make and use nkeys.", ("nk",)),
    "passwd": Verb("slipstream.cli.server.local:passwd", "Hash a password.", ("pass", "bcrypt")),
}


@click.group(cls=LazyGroup, entries=NOUNS)
def auth() -> None:
    """Manage who may use servers: keys, operators, accounts and users."""
