"""`slipstream server request`: what servers monitor, as they say it. It needs the system account.

Kinds, flags and what is asked for by default are those of `nats server request`.
"""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.link import Reply
from slipstream.cli.system import ask_server, ask_servers, choice_flags, chosen_servers
from slipstream.cli.types import pairs_option
from slipstream.units import SECOND_NS

__all__ = [
    "accounts",
    "connections",
    "gateways",
    "ipqueue",
    "jetstream",
    "jetstream_health",
    "kick",
    "leafnodes",
    "profile",
    "raft",
    "request",
    "routes",
    "subscriptions",
    "variables",
]

_HERE: Final = "slipstream.cli.server.request"
_STATES: Final = {"open": 0, "closed": 1, "all": 2}
_RECORDS: Final = 2048
PROFILES: Final = ("allocs", "block", "cpu", "goroutine", "heap", "mutex", "threadcreate")  # of Go's runtime
_CPU_MAX_NS: Final = 15 * SECOND_NS  # nats-server measures no longer


class _Flag(NamedTuple):
    """A flag, and which fields of the request it fills."""

    name: str
    fields: tuple[str, ...]
    about: str
    type: Any = bool  # a switch, if nothing else is said
    default: Any = None
    short: str = ""


class _Kind(NamedTuple):
    """Something that servers can be asked for."""

    endpoint: str
    about: str
    aliases: tuple[str, ...]
    flags: tuple[_Flag, ...] = ()
    asked: tuple[tuple[str, object], ...] = ()  # whatever the flags say


_LIMIT: Final = _Flag("limit", ("limit",), "At most so many records.", click.IntRange(min=1), _RECORDS)
_OFFSET: Final = _Flag("offset", ("offset",), "Records to leave out at first.", click.IntRange(min=0))
_ACCOUNT: Final = _Flag("account", ("account",), "Only this account.", str)
_ALL: Final = ("accounts", "streams", "consumer", "config", "raft")

KINDS: Final = {
    "variables": _Kind("VARZ", "What servers say about themselves.", ("var", "varz")),
    "connections": _Kind(
        "CONNZ",
        "Connections.",
        ("conn", "connz"),
        (
            _Flag("sort", ("sort",), "What comes first.", str, "cid"),
            _Flag("subscriptions", ("subscriptions", "subscriptions_detail"), "With their subscriptions."),
            _Flag("filter-cid", ("cid",), "Only this connection.", int),
            _Flag("filter-state", ("state",), "Only open, closed, or all.", click.Choice(list(_STATES)), "open"),
            _Flag("filter-user", ("user",), "Only of this user.", str),
            _Flag("filter-account", ("acc",), "Only of this account.", str),
            _Flag("filter-subject", ("filter_subject",), "Only those that want this subject.", str),
            _Flag("filter-empty", (), "Only servers that have such connections."),
            _LIMIT,
            _OFFSET,
        ),
        (("auth", True),),
    ),
    "subscriptions": _Kind(
        "SUBSZ",
        "Subscriptions.",
        ("sub", "subsz"),
        (
            _Flag("detail", ("subscriptions",), "Each of them."),
            _Flag("filter-account", ("account",), "Only of this account.", str),
            _Flag("filter-subject", ("test",), "Only those that match this subject.", str),
            _LIMIT,
            _OFFSET,
        ),
    ),
    "routes": _Kind(
        "ROUTEZ",
        "Routes within clusters.",
        ("route", "routez"),
        (_Flag("subscriptions", ("subscriptions", "subscriptions_detail"), "With what is wanted there."),),
    ),
    "gateways": _Kind(
        "GATEWAYZ",
        "Gateways between clusters.",
        ("gateway", "gwy", "gatewayz"),
        (
            _Flag("filter-name", ("name",), "Only to this cluster.", str),
            _Flag("filter-account", ("account_name",), "Only this account.", str),
            _Flag("accounts", ("accounts",), "With their accounts."),
            _Flag("subscriptions", ("subscriptions", "subscriptions_detail"), "With what is wanted there."),
        ),
    ),
    "leafnodes": _Kind(
        "LEAFZ",
        "Leaf nodes.",
        ("leaf", "leafz"),
        (_Flag("subscriptions", ("subscriptions",), "With what is wanted there."),),
    ),
    "accounts": _Kind("ACCOUNTZ", "Accounts.", ("accountz", "acct"), (_ACCOUNT,)),
    "jetstream": _Kind(
        "JSZ",
        "JetStream.",
        ("jsz", "js"),
        (
            _ACCOUNT,
            _Flag("accounts", ("accounts",), "With accounts."),
            _Flag("streams", ("streams",), "With streams."),
            _Flag("consumer", ("consumer",), "With consumers."),
            _Flag("config", ("config",), "With configurations."),
            _Flag("raft", ("raft",), "With what replicas agree on."),
            _Flag("leader", ("leader_only",), "Only of the server that leads the cluster."),
            _Flag("stream-leader", ("stream_leader_only",), "Only streams that a server leads."),
            _Flag("all", _ALL, "With accounts, streams, consumers and configurations."),
            _LIMIT,
            _OFFSET,
        ),
    ),
    "jetstream-health": _Kind(
        "HEALTHZ",
        "Health of JetStream.",
        ("healthz",),
        (
            _Flag("js-enabled", ("js-enabled-only",), "Whether all servers have JetStream.", short="J"),
            _Flag("server-only", ("js-server-only",), "Servers, and neither streams nor consumers.", short="S"),
            _ACCOUNT,
            _Flag("stream", ("stream",), "Only this stream.", str),
            _Flag("consumer", ("consumer",), "Only this consumer.", str),
            _Flag("details/--no-details", ("details",), "With all that is wrong.", default=True),
        ),
    ),
    "ipqueue": _Kind(
        "IPQUEUESZ",
        "Queues within servers.",
        ("ipq", "ipqueuesz"),
        (
            _Flag("all/--no-all", ("all",), "Those that are empty, too.", default=True),
            _Flag("filter", ("filter",), "Only these.", str),
        ),
    ),
    "raft": _Kind(
        "RAFTZ",
        "What replicas agree on.",
        ("raftz",),
        (_ACCOUNT, _Flag("group", ("group",), "Only this group.", str)),
    ),
}
REQUESTS: Final = {
    **{name: Verb(f"{_HERE}:{name.replace('-', '_')}", kind.about, kind.aliases) for name, kind in KINDS.items()},
    "kick": Verb(f"{_HERE}:kick", "End the connection of a client.", ()),
    "profile": Verb(f"{_HERE}:profile", "What servers are doing, in a file for each.", ()),
}


@click.group(cls=LazyGroup, entries=REQUESTS)
def request() -> None:
    """Ask servers for what they monitor, as JSON: a document a line, one for each server."""


def _command(name: str) -> click.Command:
    kind = KINDS[name]

    @click.command(
        name, cls=Command, help=f"{kind.about} Stops waiting after EXPECT answers; without it, when no more come."
    )
    @click.argument("expect", type=click.IntRange(min=0), default=0)
    @click.option("--name", "server_name", default="", help="Only servers with this in their name.")
    @choice_flags
    @pairs_option("--option", "options", help="An option of the endpoint, as limit=10 or accounts=true.")
    @click.pass_obj
    def run(
        session: Session,
        /,
        expect: int,
        server_name: str,
        options: dict[str, str],
        filter_empty: bool = False,
        **given: Any,
    ) -> None:
        chosen = chosen_servers(given) | ({"server_name": server_name} if server_name else {})
        body = _asked(kind, given) | {key: _value(text) for key, text in options.items()}
        try:
            answers = ask_servers(session.link(), kind.endpoint, body | chosen, expected=expect)
        except Failure as error:
            if chosen:
                raise Failure(f"no server answers; are there servers like that? Also, {error.message}") from error
            raise
        for answer, _ in answers:
            if not filter_empty or answer["data"]["connections"]:
                _print(answer)

    for flag in kind.flags:
        words = [f"--{flag.name}", *([f"-{flag.short}"] if flag.short else [])]
        switch = {"is_flag": True, "default": bool(flag.default)} if flag.type is bool else {"type": flag.type}
        if flag.type is not bool:
            switch |= {"default": flag.default, "show_default": flag.default is not None}
        click.option(*words, help=flag.about, **switch)(run)
    return run


def _asked(kind: _Kind, given: dict[str, Any]) -> Reply:
    """What the flags ask for, as servers read it."""
    body: Reply = dict(kind.asked)
    for flag in kind.flags:
        value = given.get(flag.name.partition("/")[0].replace("-", "_"))
        if value is None or value is False:
            continue
        for field in flag.fields:
            body[field] = _STATES[value] if field == "state" else value
    return body


variables = _command("variables")
connections = _command("connections")
subscriptions = _command("subscriptions")
routes = _command("routes")
gateways = _command("gateways")
leafnodes = _command("leafnodes")
accounts = _command("accounts")
jetstream = _command("jetstream")
jetstream_health = _command("jetstream-health")
ipqueue = _command("ipqueue")
raft = _command("raft")


@click.command(cls=Command)
@click.argument("client", type=click.IntRange(min=1))
@click.argument("server")
@click.pass_obj
def kick(session: Session, client: int, server: str) -> None:
    """End the connection of the CLIENT with this number at the SERVER with this id."""
    _print(ask_server(session.link(), server, "KICK", {"cid": client}))


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(PROFILES), metavar="PROFILE")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--level", type=click.IntRange(min=0), default=0, help="How much of it: of nats-server, 0 is for pprof.")
@click.option("--name", "server_name", default="", help="Only servers with this in their name.")
@choice_flags
@click.pass_obj
def profile(session: Session, /, kind: str, directory: Path, level: int, server_name: str, **given: Any) -> None:
    """Write the PROFILE of each server to a file of its own in the DIRECTORY.

    PROFILE is goroutine or threadcreate, where this server writes the stacks of its threads as text, or one that only
    nats-server has: allocs, block, cpu, heap, mutex, in the form that pprof reads.
    """
    link = session.link()
    body: Reply = {"name": kind, "debug": level, **chosen_servers(given)}
    if server_name:
        body["server_name"] = server_name
    if kind == "cpu":
        # It is measured while it is waited for, and has to be back in time.
        body["duration"] = min(link.settings.timeout_ns // 2, _CPU_MAX_NS)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    refused = []
    for answer, _ in ask_servers(link, "PROFILEZ", body):
        server, data = answer["server"], answer["data"]
        if data["error"]:
            refused.append(f"{server['name']}: {data['error']}")
            continue
        path = directory / f"{kind}-{stamp}-{server['id']}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(base64.b64decode(data["profile"] or ""))
        except OSError as error:
            raise Failure(f"the profile cannot be written: {error}") from error
        click.echo(f'Server "{server["name"]}" profile written: {path}')
    if refused:
        raise Failure("\n".join(refused))


def _print(answer: Reply) -> None:
    click.echo(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))


def _value(text: str) -> object:
    """`10` and `true` are what they look like; everything else is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
