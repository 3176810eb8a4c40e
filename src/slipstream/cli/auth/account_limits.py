"""Limits of accounts on the command line: the flags of `nats auth account add`, and what they do to a token."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.auth.tree import Fields
from slipstream.cli.human import parse_bytes
from slipstream.cli.prompts import ask
from slipstream.cli.types import DURATION, SIZE
from slipstream.units import SECOND_NS

__all__ = ["UNLIMITED", "apply_limits", "ends_after", "limit_flags"]

_F = TypeVar("_F", bound=Callable[..., Any])

NO_LIMITS: Final = {
    **dict.fromkeys(("subs", "data", "payload", "imports", "exports"), -1),
    "wildcards": True,
    "conn": -1,
    "leaf": -1,
}
# An account without limits, as the official library makes it.
UNLIMITED: Final[Fields] = {
    "limits": NO_LIMITS,
    "default_permissions": {"pub": {}, "sub": {}},
    "authorization": {},
}
_JETSTREAM_DEFAULT: Final = "1GB"

_PLAIN: Final = (
    ("connections", "conn", "Connections."),
    ("exports", "exports", "Exports."),
    ("imports", "imports", "Imports."),
    ("leafnodes", "leaf", "Leafnode connections."),
    ("subscriptions", "subs", "Subscriptions."),
)
_SIZES: Final = (("payload", "payload", "Bytes of a message."),)
_JETSTREAM: Final = (
    ("js_disk", "disk_storage", SIZE, "Storage on disk."),
    ("js_disk_stream", "disk_max_stream_bytes", SIZE, "Size of one stream on disk."),
    ("js_memory", "mem_storage", SIZE, "Storage in memory."),
    ("js_memory_stream", "mem_max_stream_bytes", SIZE, "Size of one stream in memory."),
    ("js_streams", "streams", click.INT, "Streams."),
    ("js_consumers", "consumer", click.INT, "Consumers of one stream."),
    ("js_max_pending", "max_ack_pending", click.INT, "Unacknowledged messages of a consumer."),
)


def limit_flags(command: _F) -> _F:
    """The flags; what is not given is None."""
    options: list[Callable[[_F], _F]] = [
        click.option("--bearer/--no-bearer", default=None, help="Users may have bearer tokens."),
        click.option("--expiry", type=DURATION, metavar="DURATION", help="How long the account is valid."),
        click.option("--jetstream/--no-jetstream", default=None, help="Whether it has JetStream."),
        click.option(
            "--js-stream-size-required/--no-js-stream-size-required", default=None, help="Streams need a size."
        ),
        click.option(
            "--js-cluster-traffic", type=click.Choice(["system", "owner"]), help="Account that replication counts for."
        ),
    ]
    options += [
        click.option(f"--{flag}", type=click.INT, metavar="N", help=f"{text} -1: no limit.") for flag, _, text in _PLAIN
    ]
    options += [click.option(f"--{flag}", type=SIZE, metavar="BYTES", help=text) for flag, _, text in _SIZES]
    options += [
        click.option(f"--{flag.replace('_', '-')}", type=kind, metavar="N" if kind is click.INT else "BYTES", help=text)
        for flag, _, kind, text in _JETSTREAM
    ]
    for option in reversed(options):
        command = option(command)
    return command


def ends_after(duration_ns: int | None) -> int:
    """The second at which something ends that is valid for a while from now on; 0: never."""
    return int(time.time()) + max(duration_ns // SECOND_NS, 1) if duration_ns and duration_ns > 0 else 0


def apply_limits(part: Fields, given: dict[str, Any]) -> None:
    """Put the limits that were given into the claims of an account; others stay."""
    limits: Fields = part.setdefault("limits", {})
    for flag, field, _text in (*_PLAIN, *_SIZES):
        if given[flag] is not None:
            limits[field] = given[flag]
    if given["bearer"] is not None:
        _set(limits, "disallow_bearer", not given["bearer"])
    if given["js_cluster_traffic"] is not None:
        _set(part, "cluster_traffic", given["js_cluster_traffic"])
    _apply_jetstream(limits, given)


def _apply_jetstream(limits: Fields, given: dict[str, Any]) -> None:
    fields = {flag: field for flag, field, _kind, _text in _JETSTREAM}
    if given["jetstream"] is False:
        for field in (*fields.values(), "max_bytes_required", "tiered_limits"):
            limits.pop(field, None)
        return
    named = {flag: given[flag] for flag in fields if given[flag] is not None}
    if limits.get("tiered_limits") and (named or given["jetstream"]):
        raise click.UsageError("The account has limits by tier, which are not changed here.")
    has = bool(limits.get("mem_storage") or limits.get("disk_storage"))
    if given["jetstream"] and not has:
        for flag, question in (
            ("js_disk", "Maximum JetStream Disk Storage"),
            ("js_memory", "Maximum JetStream Memory Storage"),
        ):
            if flag not in named:
                named[flag] = ask(
                    question, default=_JETSTREAM_DEFAULT, read=parse_bytes, flag=f"--{flag.replace('_', '-')}"
                )
        limits.setdefault("streams", -1)
        limits.setdefault("consumer", -1)
    elif not has and (named or given["js_stream_size_required"] is not None):
        raise click.UsageError("The account has no JetStream: give --jetstream.")
    for flag, value in named.items():
        limits[fields[flag]] = value
    if given["js_stream_size_required"] is not None:
        _set(limits, "max_bytes_required", given["js_stream_size_required"])


def _set(fields: Fields, name: str, value: object) -> None:
    """Set a field; what is false is not written."""
    if value:
        fields[name] = value
    else:
        fields.pop(name, None)
