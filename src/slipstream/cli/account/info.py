"""`slipstream account info`: who is connected, and what the account may and does."""

from __future__ import annotations

import json

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_bytes, format_duration
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.render import Columns, print_json
from slipstream.cli.types import json_flag
from slipstream.client.wire import ClientError

__all__ = ["info"]


@click.command(cls=Command)
@json_flag
@click.pass_obj
def info(session: Session, as_json: bool) -> None:
    """Show who is connected, and the account's JetStream."""
    link = session.link()
    who, jetstream = _user(link), _jetstream(link)
    if as_json:
        print_json({"user": who, "jetstream": jetstream})
        return
    greeting = link.client.info
    columns = Columns("Account Information")
    columns.row("User", who.get("user", ""), when=who.get("user"))
    columns.row("Account", who.get("account", ""), when=who.get("account"))
    columns.row("Expires", format_duration(who["expires"]) if who.get("expires") else "never", when=who)
    columns.row("Client ID", str(greeting.client_id), when=greeting.client_id)
    columns.row("Server", greeting.server_name or greeting.server_id)
    columns.row("Server Version", greeting.version)
    columns.row("Maximum Payload", format_bytes(greeting.max_payload))
    for direction, rules in (who.get("permissions") or {}).items():
        columns.section(f"Permissions to {direction}")
        columns.row("Allowed", rules.get("allow") or ["all"])
        columns.row("Denied", rules.get("deny") or [], when=rules.get("deny"))
    _add_jetstream(columns, jetstream)
    columns.print()


def _add_jetstream(columns: Columns, jetstream: Reply | None) -> None:
    columns.section("JetStream Account Information")
    if jetstream is None:
        columns.row("JetStream", "not available to this account")
        return
    limits = jetstream["limits"]
    columns.row("Memory", f"{format_bytes(jetstream['memory'])} of {format_bytes(limits['max_memory'])}")
    columns.row("Storage", f"{format_bytes(jetstream['storage'])} of {format_bytes(limits['max_storage'])}")
    columns.row("Streams", f"{jetstream['streams']:,} of {_count(limits['max_streams'])}")
    columns.row("Consumers", f"{jetstream['consumers']:,} of {_count(limits['max_consumers'])}")
    columns.row("API Requests", jetstream["api"]["total"])
    columns.row("API Errors", jetstream["api"]["errors"])
    columns.row("Max Bytes Required", limits.get("max_bytes_required", False))


def _user(link: ClientLink) -> Reply:
    """What the server says of the user; nothing from servers that do not."""
    try:
        answer: Reply = json.loads(link.request("$SYS.REQ.USER.INFO").payload)
    except (ClientError, ValueError):
        return {}
    data: Reply = answer.get("data") or {}
    return data


def _jetstream(link: ClientLink) -> Reply | None:
    try:
        return link.api("INFO")
    except ClientError:
        return None


def _count(limit: int) -> str:
    return "unlimited" if limit < 0 else f"{limit:,}"
