"""Which operator, account or user is meant: the one that is named, the one that is selected, or the only one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from slipstream.cli.auth.files import make_directory, write_secret
from slipstream.cli.auth.tree import AccountEntry, Fields, OperatorEntry, Tree, UserEntry, default_tree
from slipstream.cli.connection import Failure
from slipstream.cli.prompts import ask_choice, can_ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "choose_account",
    "choose_operator",
    "choose_shared",
    "choose_user",
    "operator_flag",
    "put_given",
    "remove_shared",
    "select_operator",
]

_SELECTED: Final = "select_operator"

operator_flag: Final = click.option("--operator", metavar="NAME", default="", help="Operator to act on.")


def _settings_file() -> Path:
    """Where `nats` remembers its choice."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "nats" / "cli" / "config.json"


def _settings() -> dict[str, Any]:
    try:
        found = json.loads(_settings_file().read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def select_operator(name: str) -> None:
    """Use this operator from now on when none is named."""
    path = _settings_file()
    make_directory(path.parent)
    write_secret(path, json.dumps({**_settings(), _SELECTED: name}))


def choose_operator(name: str | None, *, selected: bool = True) -> tuple[Tree, OperatorEntry]:
    """The operator that is meant.

    Raises:
        Failure: it is not there, or nobody can be asked.
    """
    tree = default_tree()
    names = tree.names()
    if not names:
        raise Failure("there are no operators: make one with `slipstream auth operator add`")
    if not name and selected and _settings().get(_SELECTED) in names:
        name = str(_settings()[_SELECTED])
    return tree, tree.operator(name or _pick("an Operator", names, "--operator"))


def choose_account(operator_name: str, name: str | None) -> tuple[OperatorEntry, AccountEntry]:
    """The account that is meant, and its operator.

    Raises:
        Failure: it is not there, or nobody can be asked.
    """
    _tree, operator = choose_operator(operator_name)
    return operator, operator.account(name or _pick("an Account", [a.name for a in operator.accounts()], "ACCOUNT"))


def choose_user(
    operator_name: str, account_name: str | None, name: str | None
) -> tuple[OperatorEntry, AccountEntry, UserEntry]:
    """The user that is meant, its account and operator.

    Raises:
        Failure: it is not there, or nobody can be asked.
    """
    operator, account = choose_account(operator_name, account_name)
    return operator, account, account.user(name or _pick("a User", [user.name for user in account.users()], "NAME"))


def choose_shared(account: AccountEntry, kind: str, subject: str | None, subject_of: Callable[[Fields], str]) -> Fields:
    """The export or import (`kind`) of an account that is meant.

    Raises:
        Failure: it is not there, there are several, or nobody can be asked.
    """
    present: list[Fields] = account.part.get(f"{kind}s") or []
    if not present:
        raise Failure(f"account {account.name!r} has no {kind}s")
    if subject is None:
        subject = ask_choice(f"Select an {kind.title()}", [subject_of(one) for one in present], flag="SUBJECT")
    fit = [one for one in present if subject_of(one) == subject]
    if len(fit) != 1:
        number = f"several {kind}s" if fit else f"no {kind}"
        raise Failure(f"{number} of account {account.name!r} with subject {subject!r}")
    return fit[0]


def remove_shared(account: AccountEntry, kind: str, entry: Fields) -> None:
    """Take an export or import out of an account."""
    account.part[f"{kind}s"] = [one for one in account.part[f"{kind}s"] if one is not entry]


def put_given(entry: Fields, given: Iterable[tuple[str, Any]]) -> None:
    """Change what flags say: None is not given, and what is empty or false is not written."""
    for field, value in given:
        if value:
            entry[field] = value
        elif value is not None:
            entry.pop(field, None)


def _pick(what: str, names: Sequence[str], flag: str) -> str:
    if not names:
        raise Failure(f"there is none to choose from: {flag}")
    if len(names) == 1 and not can_ask():
        return names[0]
    return ask_choice(f"Select {what}", names, default=names[0] if len(names) == 1 else None, flag=flag)
