"""Streams and consumers as commands ask for them: by name, by a question, all of them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Final

from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_duration, format_number, parse_timestamp
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.prompts import ask_choice
from slipstream.cli.render import Columns
from slipstream.cli.system import shown_names
from slipstream.declared.differences import differences, user_metadata

__all__ = [
    "NEVER_NS",
    "all_consumers",
    "all_streams",
    "api_level",
    "choose_consumer",
    "choose_stream",
    "cluster_rows",
    "differences",
    "is_internal",
    "now_of",
    "read_config_file",
    "replicas_of",
    "user_metadata",
]

NEVER_NS: Final = 2**63 - 1
"""How servers say "never" where they say how long ago."""
_INTERNAL: Final = ("KV_", "OBJ_", "MQTT_", "$MQTT_")
_CONFIG_BYTES_MAX: Final = 8 * 1024 * 1024


def is_internal(name: str) -> bool:
    """A stream that something else manages: a bucket, an object store, MQTT."""
    return name.startswith(_INTERNAL)


def all_streams(link: ClientLink, *, subject: str = "", internal: bool = True) -> list[Reply]:
    """The infos of all streams, by name."""
    body = {"subject": subject} if subject else None
    found = link.api_pages("STREAM.LIST", "streams", body)
    return sorted(
        (info for info in found if internal or not is_internal(info["config"]["name"])),
        key=lambda info: str(info["config"]["name"]),
    )


def all_consumers(link: ClientLink, stream: str) -> list[Reply]:
    """The infos of a stream's consumers, by name."""
    return sorted(link.api_pages(f"CONSUMER.LIST.{stream}", "consumers"), key=lambda info: str(info["name"]))


def choose_stream(session: Session, name: str | None, *, internal: bool = False) -> str:
    """The stream that was named, or one the user picks.

    Raises:
        Failure: there is none to pick, or nobody to ask.
    """
    if name:
        return _checked(name, "stream")
    names = [each for each in session.link().api_pages("STREAM.NAMES", "streams") if internal or not is_internal(each)]
    if not names:
        raise Failure("no streams are defined")
    return ask_choice("Select a Stream", sorted(names), flag="STREAM")


def choose_consumer(session: Session, stream: str, name: str | None) -> str:
    """The consumer that was named, or one the user picks.

    Raises:
        Failure: there is none to pick, or nobody to ask.
    """
    if name:
        return _checked(name, "consumer")
    names = sorted(session.link().api_pages(f"CONSUMER.NAMES.{stream}", "consumers"))
    if not names:
        raise Failure(f"stream {stream} has no consumers")
    return ask_choice("Select a Consumer", names, flag="CONSUMER")


def _checked(name: str, kind: str) -> str:
    """A name that can be part of a subject: a wildcard in it would ask about something else."""
    if any(letter in name for letter in " \t\r\n.*>/\\"):
        raise Failure(f"{name!r} cannot be the name of a {kind}")
    return name


def now_of(info: Reply) -> datetime:
    """The server's clock when it answered, so that ages do not depend on this machine's."""
    return parse_timestamp(info["ts"]) if info.get("ts") else datetime.now().astimezone()


def api_level(config: Reply) -> str:
    """The API level that a stream or consumer needs."""
    return str((config.get("metadata") or {}).get("_nats.req.level", "0"))


def cluster_rows(columns: Columns, info: Reply, group: str) -> None:
    """Who leads a stream or consumer, and how far the others are; `group` is what its group is called."""
    cluster = info.get("cluster") or {}
    if not cluster.get("name"):
        return
    columns.section("Cluster Information")
    columns.row("Name", cluster["name"])
    columns.row(group, cluster.get("raft_group"), when=cluster.get("raft_group"))
    columns.row("Leader", cluster.get("leader", ""))
    for peer in cluster.get("replicas") or []:
        words = [peer["name"], "current" if peer.get("current") else "outdated"]
        words += ["OFFLINE"] if peer.get("offline") else []
        active_ns = peer.get("active", 0)
        words.append(f"seen {format_duration(active_ns)} ago" if 0 < active_ns < NEVER_NS else "not seen")
        words += [f"{format_number(peer['lag'])} operations behind"] if peer.get("lag") else []
        columns.row("Replica", words)


def replicas_of(info: Reply) -> str:
    """Servers that hold a stream or consumer; the leader has a star, those behind an exclamation mark."""
    cluster = info.get("cluster") or {}
    if not cluster.get("name"):
        return ""
    names = [(str(cluster.get("leader", "")), "*")] if cluster.get("leader") else []
    names += [(str(peer["name"]), "" if peer.get("current") else "!") for peer in cluster.get("replicas") or []]
    shown = shown_names([name for name, _ in names], compact=True)
    return ", ".join(f"{shown[name]}{mark}" for name, mark in sorted(names))


def read_config_file(place: str) -> Reply:
    """A configuration from a JSON file; `-` is standard input. The output of `info --json` will do as well.

    Raises:
        Failure: it is no JSON object.
    """
    import sys

    if place == "-":
        text = sys.stdin.read(_CONFIG_BYTES_MAX)
    else:
        with Path(place).open() as file:
            text = file.read(_CONFIG_BYTES_MAX)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Failure(f"{place} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Failure(f"{place} is not a JSON object")
    config = found["config"] if isinstance(found.get("config"), dict) else found
    if "metadata" in config:
        config["metadata"] = user_metadata(config)
    return config
