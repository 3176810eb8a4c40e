"""The nouns, verbs and aliases of `nats` lead to the same places here."""

from __future__ import annotations

import click
import pytest

from slipstream.cli.lazy import LazyGroup
from slipstream.cli.main import cli

WORDS = {
    "": [
        "pub publish",
        "sub subscribe",
        "req request",
        "reply",
        "stream str st ms s",
        "consumer con obs c",
        "context ctx",
    ],
    "stream": [
        "add create new",
        "edit update",
        "copy cp",
        "info nfo i",
        "state",
        "ls list l",
        "rm delete del",
        "purge",
        "rmm",
        "get",
        "view",
        "report",
        "find query",
        "seal",
        "subjects subj",
        "backup snapshot",
        "restore",
    ],
    "consumer": [
        "add create new",
        "edit update",
        "copy cp",
        "info nfo",
        "state",
        "ls list",
        "next",
        "sub",
        "rm delete del",
        "pause",
        "resume",
        "report",
        "unpin",
        "find query",
    ],
    "context": [
        "add create save",
        "copy cp",
        "edit vi",
        "ls list l",
        "rm remove",
        "select switch set",
        "unselect",
        "info show v view",
        "validate",
        "previous -",
    ],
}


@pytest.mark.parametrize(("noun", "words"), [(noun, words) for noun, rows in WORDS.items() for words in rows])
def test_aliases(noun: str, words: str) -> None:
    group = cli.get_command(click.Context(cli), noun) if noun else cli
    assert isinstance(group, LazyGroup)
    name, *aliases = words.split()
    command = group.get_command(click.Context(group), name)
    assert command is not None
    for alias in aliases:
        assert group.get_command(click.Context(group), alias) is command
