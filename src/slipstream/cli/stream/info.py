"""`stream info` and `stream state`: one stream on the screen."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_age, format_bytes, format_duration, format_number, format_time
from slipstream.cli.jetstream import NEVER_NS, api_level, choose_stream, cluster_rows, now_of, user_metadata
from slipstream.cli.link import Reply
from slipstream.cli.render import Columns, print_json
from slipstream.cli.types import json_flag

__all__ = ["RETENTION_NAMES", "info", "print_stream", "state"]

RETENTION_NAMES = {"limits": "Limits", "interest": "Interest", "workqueue": "WorkQueue"}
_STORAGE_NAMES = {"file": "File", "memory": "Memory"}
_ENVELOPE = frozenset(("type", "total", "offset", "limit"))  # of the answer, not of the stream


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@json_flag
@click.option("--state", "state_only", is_flag=True, help="Show only what the stream holds.")
@click.option("--no-select", is_flag=True, hidden=True, expose_value=False)
@click.pass_obj
def info(session: Session, name: str | None, as_json: bool, state_only: bool) -> None:
    """Show the configuration and the state of STREAM."""
    found = session.link().api(f"STREAM.INFO.{choose_stream(session, name, internal=session.show_all)}")
    print_stream(found, as_json=as_json, state_only=state_only)


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@json_flag
@click.option("--no-select", is_flag=True, hidden=True, expose_value=False)
@click.pass_obj
def state(session: Session, name: str | None, as_json: bool) -> None:
    """Show what STREAM holds."""
    found = session.link().api(f"STREAM.INFO.{choose_stream(session, name, internal=session.show_all)}")
    print_stream(found, as_json=as_json, state_only=True)


def print_stream(found: Reply, *, as_json: bool = False, state_only: bool = False) -> None:
    """Print an answer to STREAM.INFO, STREAM.CREATE or STREAM.UPDATE."""
    if as_json:
        print_json({key: value for key, value in found.items() if key not in _ENVELOPE})
        return
    config = found["config"]
    what = "State" if state_only else "Information"
    columns = Columns(f"{what} for Stream {config['name']} created {format_time(found['created'])}")
    if not state_only:
        _config(columns, config)
    cluster_rows(columns, found, "Cluster Group")
    _replication(columns, found)
    columns.section("State")
    _state(columns, found)
    template = found.get("template")
    if template:
        columns.row(
            "Streams Made", f"{format_number(template['streams'])} of maximum {format_number(template['limit'])}"
        )
    columns.print()


def _config(columns: Columns, config: Reply) -> None:
    columns.row("Description", config.get("description"), when=config.get("description"))
    columns.row("Subjects", config.get("subjects") or [], when=config.get("subjects"))
    columns.row("Replicas", config.get("num_replicas", 1))
    columns.row("Sealed", True, when=config.get("sealed"))
    columns.row("Storage", _STORAGE_NAMES.get(config["storage"], config["storage"]))
    columns.row("Compression", "S2 Compression", when=config.get("compression") == "s2")
    columns.row("Persistence Mode", config.get("persist_mode"), when=config.get("persist_mode"))
    columns.row("First Sequence", config.get("first_seq", 0), when=config.get("first_seq"))
    placement = config.get("placement") or {}
    columns.row("Placement Cluster", placement.get("cluster"), when=placement.get("cluster"))
    columns.row("Placement Tags", placement.get("tags"), when=placement.get("tags"))
    columns.section("Options")
    _options(columns, config)
    columns.section("Limits")
    _limits(columns, config)
    metadata = user_metadata(config)
    if metadata:
        columns.section("Metadata")
        for key in sorted(metadata):
            columns.row(key, metadata[key])
    if config.get("mirror") or config.get("sources"):
        columns.section("Replication")
        columns.row("Mirror", source_words(config.get("mirror") or {}), when=config.get("mirror"))
        for number, source in enumerate(sorted(config.get("sources") or [], key=lambda each: str(each["name"]))):
            columns.row("" if number else "Sources", source_words(source))


def _options(columns: Columns, config: Reply) -> None:
    transform = config.get("subject_transform") or {}
    if transform.get("dest"):
        columns.row("Subject Transform", f"{transform.get('src') or '>'} to {transform['dest']}")
    republish = config.get("republish") or {}
    if republish:
        label = "Republishing Headers" if republish.get("headers_only") else "Republishing"
        columns.row(label, f"{republish.get('src') or '>'} to {republish['dest']}")
    columns.row("Retention", RETENTION_NAMES.get(config["retention"], config["retention"]))
    columns.row("Acknowledgments", not config.get("no_ack"))
    discard = str(config.get("discard", "old")).title()
    columns.row("Discard Policy", "New Per Subject" if config.get("discard_new_per_subject") else discard)
    columns.row("Duplicate Window", format_duration(config.get("duplicate_window", 0)))
    columns.row("Direct Get", True, when=config.get("allow_direct"))
    columns.row("Mirror Direct Get", True, when=config.get("mirror_direct"))
    columns.row("Allows Atomic Batch Publish", bool(config.get("allow_atomic")))
    columns.row("Allows Fast Batch Publish", bool(config.get("allow_batched")))
    columns.row("Allows Counters", bool(config.get("allow_msg_counter")))
    columns.row("Allows Msg Delete", not config.get("deny_delete"))
    columns.row("Allows Per-Message TTL", bool(config.get("allow_msg_ttl")))
    columns.row("Allows Purge", not config.get("deny_purge"))
    columns.row("Allows Schedules", bool(config.get("allow_msg_schedules")))
    marker_ns = config.get("subject_delete_marker_ttl", 0)
    columns.row("Subject Delete Markers TTL", format_duration(marker_ns), when=marker_ns)
    columns.row("Allows Rollups", bool(config.get("allow_rollup_hdrs")))


def _limits(columns: Columns, config: Reply) -> None:
    columns.limit("Maximum Messages", config.get("max_msgs", -1))
    columns.limit("Maximum Per Subject", config.get("max_msgs_per_subject", -1))
    most_bytes, most_age_ns = config.get("max_bytes", -1), config.get("max_age", 0)
    columns.limit("Maximum Bytes", most_bytes, format_bytes(most_bytes))
    columns.limit("Maximum Age", most_age_ns, format_duration(most_age_ns))
    most_size = config.get("max_msg_size", -1)
    columns.limit("Maximum Message Size", most_size, format_bytes(most_size))
    columns.limit("Maximum Consumers", config.get("max_consumers", -1))
    consumers = config.get("consumer_limits") or {}
    idle_ns = consumers.get("inactive_threshold", 0)
    columns.row("Consumer Inactive Threshold", format_duration(idle_ns), when=idle_ns)
    columns.row("Consumer Max Ack Pending", consumers.get("max_ack_pending"), when=consumers.get("max_ack_pending"))


def source_words(source: dict[str, Any]) -> str:
    """A mirror or source in a line."""
    words = [str(source.get("name", ""))]
    if source.get("opt_start_seq"):
        words.append(f"Start Seq: {format_number(source['opt_start_seq'])}")
    if source.get("opt_start_time"):
        words.append(f"Start Time: {format_time(source['opt_start_time'])}")
    if source.get("filter_subject"):
        words.append(f"Subject: {source['filter_subject']}")
    transforms = source.get("subject_transforms") or []
    words += [f"Subject: {each.get('src')} to {each.get('dest') or 'same'}" for each in transforms]
    external = source.get("external") or {}
    if external.get("api"):
        words.append(f"API Prefix: {external['api']}")
    return ", ".join(words)


def _replication(columns: Columns, found: Reply) -> None:
    copies = [("Mirror Information", found.get("mirror"))]
    copies += [("Source Information", source) for source in found.get("sources") or []]
    for title, source in copies:
        if not source:
            continue
        columns.section(title)
        columns.row("Stream Name", source["name"])
        columns.row("Subject Filter", source.get("filter_subject"), when=source.get("filter_subject"))
        columns.row("Lag", source.get("lag", 0))
        active_ns = source.get("active", -1)
        columns.row("Last Seen", format_duration(active_ns) if 0 < active_ns < NEVER_NS else "never")
        columns.row("Error", (source.get("error") or {}).get("description"), when=source.get("error"))


def _state(columns: Columns, found: Reply) -> None:
    state, config = found["state"], found["config"]
    columns.row("Required API Level", api_level(config), when=api_level(config) != "0")
    columns.row("Messages", state["messages"])
    columns.row("Bytes", format_bytes(state["bytes"]))
    lost = state.get("lost") or {}
    if lost.get("msgs"):
        columns.row("Lost Messages", f"{format_number(len(lost['msgs']))} ({format_bytes(lost.get('bytes', 0))})")
    for label, seq, stamp in (
        ("First Sequence", state["first_seq"], state.get("first_ts", "")),
        ("Last Sequence", state["last_seq"], state.get("last_ts", "")),
    ):
        age = format_age(stamp, now_of(found))
        columns.row(label, format_number(seq) if age == "never" else f"{format_number(seq)} @ {format_time(stamp)}")
    columns.row("Deleted Messages", state.get("num_deleted", 0), when=state.get("num_deleted"))
    columns.row("Active Consumers", state.get("consumer_count", 0))
    columns.row("Number of Subjects", state.get("num_subjects", 0), when=state.get("num_subjects"))
    for number, other in enumerate(found.get("alternates") or []):
        columns.row("" if number else "Alternates", f"{other['name']}: Cluster: {other.get('cluster', '')}")
