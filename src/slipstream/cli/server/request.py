"""`slipstream server request`: what servers monitor, as they say it. It needs the system account."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.render import print_json
from slipstream.cli.system import ask_servers, choice_flags, chosen_servers
from slipstream.cli.types import pairs_option

__all__ = ["request"]

_KINDS: Final = {
    "variables": "VARZ",
    "connections": "CONNZ",
    "subscriptions": "SUBSZ",
    "routes": "ROUTEZ",
    "gateways": "GATEWAYZ",
    "leafnodes": "LEAFZ",
    "accounts": "ACCOUNTZ",
    "jetstream": "JSZ",
    "jetstream-health": "HEALTHZ",
    "ipqueue": "IPQUEUESZ",
    "raft": "RAFTZ",
}
_WORDS: Final = {**_KINDS, **{name.lower(): name for name in _KINDS.values()}}


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(list(_WORDS)), metavar="KIND")
@click.argument("expect", type=int, default=0)
@click.option("--name", default="", help="Only servers with this in their name.")
@choice_flags
@pairs_option("--option", "options", help="An option of the endpoint, as limit=10 or accounts=true.")
@click.pass_obj
def request(session: Session, /, kind: str, expect: int, name: str, options: dict[str, str], **choice: Any) -> None:
    """Print what servers answer about KIND as JSON; stop waiting after EXPECT answers.

    KIND is one of variables, connections, subscriptions, routes, gateways, leafnodes, accounts, jetstream,
    jetstream-health, ipqueue, raft; or as the monitoring port has it: varz, connz and so on.
    """
    body = {key: _value(text) for key, text in options.items()}
    chosen = chosen_servers(choice) | ({"server_name": name} if name else {})
    try:
        answers = ask_servers(session.link(), _WORDS[kind], body | chosen, expected=expect)
    except Failure as error:
        if chosen:
            raise Failure(f"no server answers; are there servers like that? Also, {error.message}") from error
        raise
    print_json([answer for answer, _ in answers])


def _value(text: str) -> object:
    """`10` and `true` are what they look like; everything else is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
