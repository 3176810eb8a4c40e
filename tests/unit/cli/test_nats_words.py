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
        "kv",
        "object obj",
        "server srv",
        "account a",
        "events event e",
        "errors err error",
        "latency lat",
        "rtt",
        "top",
        "schema",
        "auth",
        "bench",
        "cheat",
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
        "gaps",
        "graph",
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
        "graph",
        "reset",
    ],
    "kv": [
        *("add new", "edit", "put", "get", "create", "update", "del rm", "purge", "history", "revert"),
        *("info view status", "watch", "ls list", "compact"),
    ],
    "object": ["add", "edit", "put", "del rm", "get", "info show i", "ls", "seal", "watch"],
    "server": [
        *("run", "config", "passwd mkpasswd pass password", "info i", "list ls", "ping", "report rep"),
        *("request req", "check"),
    ],
    "server report": ["connections conn connz conns", "accounts acct", "jetstream jsz js", "health", "cpu", "mem"],
    "bench": ["pub", "sub", "service", "js", "kv"],
    "bench service": ["request", "serve"],
    "bench js": ["pub", "ordered", "consume", "fetch", "get"],
    "bench js pub": ["sync", "async", "atomic batch", "fast"],
    "bench js get": ["sync", "batch"],
    "bench kv": ["put", "get"],
    "account": ["info nfo", "report rep", "backup snapshot", "restore"],
    "account report": ["connections conn connz conns", "statistics stats statsz"],
    "errors": ["ls list", "lookup find get l view show"],
    "schema": ["ls search find list", "info show view", "validate check"],
    "auth": ["nkey nk", "operator o op", "account a acct act", "user u usr users"],
    "auth nkey": ["gen", "show", "sign", "check verify", "seal encrypt enc", "unseal open decrypt dec"],
    "auth operator": [
        *("add", "info i show view", "list ls", "edit update", "import", "select", "backup", "restore", "keys sk s"),
    ],
    "auth operator keys": ["list ls", "add new create", "rm delete"],
    "auth account": [
        *("add create new", "info show view", "edit update", "ls", "push", "query pull", "imports i imp import"),
        *("exports e exp export", "keys sk s", "mappings m mapping map"),
    ],
    "auth account imports": ["add new a n", "info i show view", "edit update", "ls list", "rm"],
    "auth account exports": ["add new a n", "info i show view", "edit update", "ls list", "rm"],
    "auth account keys": ["add new a n", "info i show view", "ls list", "rm"],
    "auth account mappings": ["add new a", "info i show view", "ls list", "rm"],
    "auth user": ["add create new", "info i show view", "edit update", "ls", "rm", "credential cred creds"],
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
    group: click.Command | None = cli
    for word in noun.split():
        assert isinstance(group, LazyGroup)
        group = group.get_command(click.Context(group), word)
    assert isinstance(group, LazyGroup)
    name, *aliases = words.split()
    command = group.get_command(click.Context(group), name)
    assert command is not None
    for alias in aliases:
        assert group.get_command(click.Context(group), alias) is command
