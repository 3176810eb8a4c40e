"""Streams and consumers as commands ask for them: by name, by a question, all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_bytes, format_duration, parse_timestamp
from slipstream.cli.link import Link, Reply
from slipstream.cli.prompts import ask_choice

__all__ = [
    "all_consumers",
    "all_streams",
    "api_level",
    "choose_consumer",
    "choose_stream",
    "differences",
    "is_internal",
    "now_of",
    "read_config_file",
    "replicas_of",
    "user_metadata",
]

_INTERNAL: Final = ("KV_", "OBJ_", "MQTT_", "$MQTT_")
_RESERVED_METADATA: Final = "_nats."
_CONFIG_BYTES_MAX: Final = 8 * 1024 * 1024


def is_internal(name: str) -> bool:
    """A stream that something else manages: a bucket, an object store, MQTT."""
    return name.startswith(_INTERNAL)


def all_streams(link: Link, *, subject: str = "", internal: bool = True) -> list[Reply]:
    """The infos of all streams, by name."""
    body = {"subject": subject} if subject else None
    found = link.api_pages("STREAM.LIST", "streams", body)
    return sorted(
        (info for info in found if internal or not is_internal(info["config"]["name"])),
        key=lambda info: str(info["config"]["name"]),
    )


def all_consumers(link: Link, stream: str) -> list[Reply]:
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


def user_metadata(config: Reply) -> dict[str, str]:
    """Metadata without what the server adds."""
    metadata = config.get("metadata") or {}
    return {key: str(value) for key, value in metadata.items() if not key.startswith(_RESERVED_METADATA)}


def replicas_of(info: Reply) -> str:
    """Servers that hold a stream or consumer; the leader has a star, those behind an exclamation mark."""
    cluster = info.get("cluster") or {}
    if not cluster.get("name"):
        return ""
    names = [(str(cluster.get("leader", "")), "*")] if cluster.get("leader") else []
    names += [(str(peer["name"]), "" if peer.get("current") else "!") for peer in cluster.get("replicas") or []]
    return ", ".join(f"{name}{mark}" for name, mark in sorted(names))


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


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Lines `- field: value` and `+ field: value` for what differs."""
    for field in sorted({*old, *new}):
        before, after = old.get(field), new.get(field)
        if before == after or (not before and not after):
            continue
        if before not in (None, [], {}):
            yield f"- {field}: {_written(field, before)}"
        if after not in (None, [], {}):
            yield f"+ {field}: {_written(field, after)}"


# Fields of streams and consumers that are durations or sizes: people do not read nanoseconds.
_DURATIONS: Final = frozenset(
    (
        "ack_wait",
        "duplicate_window",
        "idle_heartbeat",
        "inactive_threshold",
        "max_age",
        "max_expires",
        "priority_timeout",
        "subject_delete_marker_ttl",
    )
)
_SIZES: Final = frozenset(("max_bytes", "max_msg_size"))


def _written(field: str, value: Any) -> str:
    """A value of a configuration, as the flags take it."""
    if isinstance(value, int) and value > 0 and field in _DURATIONS:
        return format_duration(value)
    if isinstance(value, int) and value > 0 and field in _SIZES:
        return format_bytes(value)
    if field == "backoff" and isinstance(value, list):
        return ", ".join(format_duration(step) for step in value)
    return json.dumps(value)
