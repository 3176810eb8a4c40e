"""`consumer info` and `consumer state`: one consumer on the screen."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_age, format_bytes, format_duration, format_number, format_time
from slipstream.cli.jetstream import api_level, choose_consumer, choose_stream, cluster_rows, now_of, user_metadata
from slipstream.cli.link import Reply
from slipstream.cli.render import Columns, print_json, tied
from slipstream.cli.types import json_flag

__all__ = ["ACK_NAMES", "info", "print_consumer", "state"]

ACK_NAMES = {"none": "None", "all": "All", "explicit": "Explicit", "flow_control": "Flow Control"}
_DELIVER_NAMES = {"all": "All", "last": "Last", "new": "New", "last_per_subject": "Last Per Subject"}
_PINNED = "pinned_client"

_stream_argument = click.argument("stream", metavar="[STREAM]", required=False)
_consumer_argument = click.argument("name", metavar="[CONSUMER]", required=False)
_no_select = click.option("--no-select", is_flag=True, hidden=True, expose_value=False)


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@json_flag
@_no_select
@click.pass_obj
def info(session: Session, stream: str | None, name: str | None, as_json: bool) -> None:
    """Show the configuration and the state of CONSUMER."""
    print_consumer(_found(session, stream, name), as_json=as_json)


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@json_flag
@_no_select
@click.pass_obj
def state(session: Session, stream: str | None, name: str | None, as_json: bool) -> None:
    """Show how far CONSUMER is."""
    print_consumer(_found(session, stream, name), as_json=as_json, state_only=True)


def _found(session: Session, stream: str | None, name: str | None) -> Reply:
    stream = choose_stream(session, stream, internal=session.show_all)
    return session.link().api(f"CONSUMER.INFO.{stream}.{choose_consumer(session, stream, name)}")


def print_consumer(found: Reply, *, as_json: bool = False, state_only: bool = False) -> None:
    """Print an answer to CONSUMER.INFO or CONSUMER.CREATE."""
    if as_json:
        print_json({key: value for key, value in found.items() if key != "type"})
        return
    what = "State" if state_only else "Information"
    created = format_time(found["created"])
    columns = Columns(f"{what} for Consumer {found['stream_name']} > {found['name']} created {created}")
    if not state_only:
        columns.section("Configuration")
        _config(columns, found["config"], found)
        metadata = user_metadata(found["config"])
        if metadata:
            columns.section("Metadata")
            for key in sorted(metadata):
                columns.row(key, metadata[key])
    cluster_rows(columns, found, "Raft Group")
    columns.section("State")
    _state(columns, found)
    columns.print()


def _config(columns: Columns, config: Reply, found: Reply) -> None:
    durable, push = config.get("durable_name"), config.get("deliver_subject")
    columns.row("Name", config.get("name") or found["name"])
    columns.row("Durable Name", durable, when=durable and durable != config.get("name", durable))
    columns.row("Description", config.get("description"), when=config.get("description"))
    columns.row("Delivery Subject", push, when=push)
    columns.row("Pull Mode", True, when=not push)
    columns.row("Filter Subject", config.get("filter_subject"), when=config.get("filter_subject"))
    columns.row("Filter Subjects", config.get("filter_subjects"), when=config.get("filter_subjects"))
    columns.row("Deliver Policy", _deliver(config))
    columns.row("Deliver Queue Group", config.get("deliver_group"), when=push and config.get("deliver_group"))
    columns.row("Ack Policy", ACK_NAMES.get(config["ack_policy"], config["ack_policy"]))
    acks = config["ack_policy"] != "none"
    columns.row("Ack Wait", format_duration(config.get("ack_wait", 0)), when=acks)
    columns.row("Replay Policy", str(config["replay_policy"]).title())
    columns.row("Maximum Deliveries", config.get("max_deliver", -1), when=config.get("max_deliver", -1) != -1)
    columns.row("Sampling Rate", config.get("sample_freq"), when=config.get("sample_freq"))
    rate = config.get("rate_limit_bps", 0)
    columns.row("Rate Limit", f"{format_bytes(rate // 8)} / second", when=rate)
    columns.row("Max Ack Pending", config.get("max_ack_pending", 0), when=config.get("max_ack_pending", 0) > 0)
    columns.row("Max Waiting Pulls", config.get("max_waiting", 0), when=config.get("max_waiting"))
    _times(columns, config)
    columns.row("Flow Control", bool(config.get("flow_control")), when=push)
    columns.row("Headers Only", True, when=config.get("headers_only"))
    columns.row("Max Pull Batch", config.get("max_batch", 0), when=config.get("max_batch"))
    columns.row("Max Pull MaxBytes", config.get("max_bytes", 0), when=config.get("max_bytes"))
    columns.row("Backoff", [format_duration(step) for step in config.get("backoff") or []], when=config.get("backoff"))
    columns.row("Replicas", config.get("num_replicas", 0), when=config.get("num_replicas"))
    columns.row("Memory Storage", True, when=config.get("mem_storage"))
    if config.get("pause_until"):
        left = f"{format_duration(found.get('pause_remaining', 0))} remaining" if found.get("paused") else "passed"
        columns.row("Paused Until Deadline", f"{format_time(config['pause_until'])} ({left})")
    if config.get("priority_policy", "none") != "none":
        columns.row("Priority Policy", config["priority_policy"])
        columns.row("Priority Groups", config.get("priority_groups") or [])
        pinned = config["priority_policy"] == _PINNED
        columns.row("Pinned TTL", format_duration(config.get("priority_timeout", 0)), when=pinned)


def _times(columns: Columns, config: Reply) -> None:
    for label, field in (
        ("Idle Heartbeat", "idle_heartbeat"),
        ("Inactive Threshold", "inactive_threshold"),
        ("Max Pull Expire", "max_expires"),
    ):
        duration_ns = config.get(field, 0)
        columns.row(label, format_duration(duration_ns), when=duration_ns)


def _deliver(config: Reply) -> str:
    policy = str(config["deliver_policy"])
    if policy == "by_start_sequence":
        return f"From Sequence {format_number(config.get('opt_start_seq', 0))}"
    if policy == "by_start_time":
        return f"Since {format_time(config.get('opt_start_time', ''))}"
    return _DELIVER_NAMES.get(policy, policy)


def _state(columns: Columns, found: Reply) -> None:
    config = found["config"]
    columns.row("Required API Level", api_level(config), when=api_level(config) != "0")
    columns.row("Last Delivered Message", _position(found, "delivered", "Last delivery"))
    if config["ack_policy"] != "none":
        columns.row("Acknowledgment Floor", _position(found, "ack_floor", "Last Ack"))
        outstanding, most = found.get("num_ack_pending", 0), config.get("max_ack_pending", 0)
        bounded = f"{format_number(outstanding)} out of maximum {format_number(most)}"
        columns.row("Outstanding Acks", bounded if most > 0 else outstanding)
        columns.row("Redelivered Messages", found.get("num_redelivered", 0))
    columns.row("Unprocessed Messages", found.get("num_pending", 0))
    if not config.get("deliver_subject"):
        most = config.get("max_waiting", 0)
        limit = f"maximum {format_number(most)}" if most > 0 else "unlimited"
        columns.row("Waiting Pulls", f"{format_number(found.get('num_waiting', 0))} of {limit}")
    elif found.get("push_bound"):
        group = config.get("deliver_group")
        columns.row("Active Interest", f"Active using Queue Group {group}" if group else "Active")
    else:
        columns.row("Active Interest", "No interest")
    columns.row("Paused", f"{format_duration(found.get('pause_remaining', 0))} remaining", when=found.get("paused"))
    if config.get("priority_policy") == _PINNED:
        for number, group in enumerate(found.get("priority_groups") or []):
            client = group.get("pinned_client_id")
            words = f"pinned {client} at {format_time(group.get('pinned_ts', ''))}" if client else "No client"
            columns.row("" if number else "Priority Groups", f"{group['group']}: {words}")


def _position(found: Reply, field: str, when: str) -> str:
    place = found.get(field) or {}
    words = f"Consumer sequence: {format_number(place.get('consumer_seq', 0))}"
    words += f" Stream sequence: {format_number(place.get('stream_seq', 0))}"
    last = place.get("last_active")
    return f"{words} {tied(f'{when}: {format_age(last, now_of(found))} ago')}" if last else words
