"""Tags of operators, accounts and users, as templates and people use them: small letters, each once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from slipstream.cli.auth.tree import Fields

__all__ = ["retag", "tags_flag", "without_tags_flag"]

tags_flag: Final = click.option("--tags", metavar="TAG", multiple=True, help="Tags to add.")
without_tags_flag: Final = click.option("--no-tags", metavar="TAG", multiple=True, help="Tags to remove.")


def retag(part: Fields, added: Iterable[str], removed: Iterable[str]) -> None:
    """Add and remove tags."""
    tags = list(part.get("tags") or ())
    tags += [tag for tag in map(_tag, added) if tag and tag not in tags]
    gone = set(map(_tag, removed))
    tags = [tag for tag in tags if tag not in gone]
    if tags:
        part["tags"] = tags
    else:
        part.pop("tags", None)


def _tag(text: str) -> str:
    return text.strip().lower()
