"""The flags of `consumer add`, `copy` and `edit`, and the configuration they say.

Only flags that were given change anything.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.human import parse_duration, parse_timestamp, to_rfc3339
from slipstream.cli.link import Reply
from slipstream.cli.pulling import filter_fields
from slipstream.cli.types import DURATION, SIZE, list_option, pairs_option
from slipstream.units import MICROSECOND_NS, MINUTE_NS

__all__ = ["backoff_steps", "config_flags", "moment", "start_fields", "with_filter", "with_flags"]

_F = TypeVar("_F", bound=Callable[..., Any])
_STEPS_MAX: Final = 1000

# Flags whose value is a field of the configuration as it is: name, field, type, help, only for a new consumer.
_PLAIN: Final = (
    ("description", "description", str, "A line about the consumer.", False),
    (
        "ack",
        "ack_policy",
        click.Choice(["none", "all", "explicit", "flow_control"]),
        "Which messages are acknowledged.",
        True,
    ),
    ("bps", "rate_limit_bps", int, "Most bits a second; push only.", True),
    ("deliver-group", "deliver_group", str, "Queue group that push consumers deliver to.", True),
    ("heartbeat", "idle_heartbeat", DURATION, "Heartbeats while idle; push only.", True),
    ("max-deliver", "max_deliver", int, "Most deliveries of a message.", False),
    ("max-pending", "max_ack_pending", int, "Most unacknowledged messages.", False),
    ("max-waiting", "max_waiting", int, "Most waiting pull requests.", True),
    ("max-pull-batch", "max_batch", int, "Most messages a pull request may ask for.", False),
    ("max-pull-expire", "max_expires", DURATION, "Longest time a pull request may wait.", False),
    ("max-pull-bytes", "max_bytes", SIZE, "Most bytes a pull request may ask for.", False),
    ("replay", "replay_policy", click.Choice(["instant", "original"]), "At once, or at the speed of storing.", True),
    ("target", "deliver_subject", str, "Subject to push messages to.", False),
    ("wait", "ack_wait", DURATION, "How long to wait for an acknowledgement.", False),
    ("inactive-threshold", "inactive_threshold", DURATION, "Delete the consumer when idle for this long.", False),
    ("replicas", "num_replicas", int, "Copies in a cluster.", False),
)
_GROUPS: Final = (
    ("pinned-groups", "pinned_client", "One client at a time, by groups."),
    ("overflow-groups", "overflow", "Clients that help when others are behind, by groups."),
    ("prioritized-groups", "prioritized", "Clients by priority, by groups."),
)


def config_flags(*, edit: bool) -> Callable[[_F], _F]:
    """The flags about a configuration; the command takes them as `**given`."""
    options: list[Callable[[Any], Any]] = [
        list_option("--filter", "filters", metavar="SUBJECTS", help="Only messages of these subjects."),
        click.option("--max-outstanding", type=int, hidden=True),
        click.option("--sample", type=click.IntRange(0, 100), help="Percent of acknowledgements to sample."),
        click.option("--headers-only/--no-headers-only", default=None, help="Deliver headers without bodies."),
        click.option("--backoff", type=click.Choice(["linear", "none"]), help="Grow the wait from try to try."),
        click.option("--backoff-steps", type=click.IntRange(1, _STEPS_MAX), default=10, help="Number of tries."),
        click.option("--backoff-min", type=DURATION, default=MINUTE_NS, help="First wait."),
        click.option("--backoff-max", type=DURATION, default=20 * MINUTE_NS, help="Last wait."),
        pairs_option("--metadata", metavar="KEY=VALUE", help="Add metadata."),
    ]
    for name, field, kind, text, only_new in _PLAIN:
        if not (edit and only_new):
            options.append(click.option(f"--{name}", field, type=kind, help=text))
    if not edit:
        options += [
            click.option("--deliver", metavar="POLICY", help="Begin with: all, new, last, subject, 1h, a sequence."),
            click.option("--ephemeral", is_flag=True, help="Let the consumer go when nobody uses it."),
            click.option("--pull", is_flag=True, help="Deliver on request."),
            click.option("--flow-control", is_flag=True, default=None, help="Let push receivers slow it down."),
            click.option("--memory", is_flag=True, default=None, help="Keep the state in memory."),
            click.option("--pause", metavar="TIME", help="Pause it: for a duration, or until a time."),
            click.option("--pinned-ttl", type=DURATION, help="How long a pinned client may be silent."),
        ]
        for name, _, text in _GROUPS:
            options.append(list_option(f"--{name}", metavar="GROUPS", help=text))

    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def with_flags(config: Reply, given: dict[str, Any]) -> Reply:
    """A configuration changed by the flags that were given."""
    changed = dict(config)
    for _, field, _, _, _ in _PLAIN:
        if given.get(field) is not None:
            changed[field] = given[field]
    if changed.get("idle_heartbeat", 0) < 0:
        changed.pop("idle_heartbeat")
    if given.get("max_outstanding") is not None:
        changed["max_ack_pending"] = given["max_outstanding"]
    if given.get("sample"):
        changed["sample_freq"] = str(given["sample"])
    for flag, field in (("headers_only", "headers_only"), ("flow_control", "flow_control"), ("memory", "mem_storage")):
        if given.get(flag) is not None:
            changed[field] = given[flag]
    if given.get("filters"):
        changed = with_filter(changed, given["filters"])
    if given.get("deliver"):
        changed |= start_fields(given["deliver"])
    if given.get("pause"):
        changed["pause_until"] = to_rfc3339(moment(given["pause"]))
    if given.get("metadata"):
        changed["metadata"] = {**(changed.get("metadata") or {}), **given["metadata"]}
    _groups(changed, given)
    _backoff(changed, given)
    return changed


def with_filter(config: Reply, subjects: list[str]) -> Reply:
    """A configuration with other subjects."""
    kept = {key: value for key, value in config.items() if key not in ("filter_subject", "filter_subjects")}
    return {**kept, **filter_fields(subjects)}


def start_fields(policy: str) -> Reply:
    """The fields of `all`, `new`, `last`, `subject`, a sequence, or a duration back from now.

    Raises:
        ValueError: it is none of these.
    """
    words = {
        "all": "all",
        "new": "new",
        "next": "new",
        "last": "last",
        "subject": "last_per_subject",
        "last_per_subject": "last_per_subject",
    }
    if policy in words:
        return {"deliver_policy": words[policy]}
    if policy.isdecimal():
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(policy)}
    try:
        back_ns = parse_duration(policy)
    except ValueError:
        raise ValueError(f"{policy!r} is none of all, new, last, subject, a duration, a sequence") from None
    begin = datetime.now().astimezone() - timedelta(microseconds=back_ns / MICROSECOND_NS)
    return {"deliver_policy": "by_start_time", "opt_start_time": to_rfc3339(begin)}


def moment(text: str) -> datetime:
    """A time, or a duration from now on.

    Raises:
        ValueError: it is neither.
    """
    try:
        return parse_timestamp(text)
    except ValueError:
        return datetime.now().astimezone() + timedelta(microseconds=parse_duration(text) / MICROSECOND_NS)


def backoff_steps(steps: int, least_ns: int, most_ns: int) -> list[int]:
    """Waits that grow evenly.

    Raises:
        ValueError: the first is longer than the last.
    """
    if not 0 < least_ns <= most_ns:
        raise ValueError("the shortest wait of a backoff is longer than the longest")
    if steps == 1:
        return [most_ns]
    return [least_ns + (most_ns - least_ns) * step // (steps - 1) for step in range(steps)]


def _groups(config: Reply, given: dict[str, Any]) -> None:
    asked = [
        (policy, given[name.replace("-", "_")]) for name, policy, _ in _GROUPS if given.get(name.replace("-", "_"))
    ]
    if len(asked) > 1:
        raise click.UsageError("Only one of --pinned-groups, --overflow-groups, --prioritized-groups.")
    for policy, groups in asked:
        config |= {"priority_policy": policy, "priority_groups": groups}
    if given.get("pinned_ttl"):
        config["priority_timeout"] = given["pinned_ttl"]


def _backoff(config: Reply, given: dict[str, Any]) -> None:
    if given.get("backoff") == "none":
        config.pop("backoff", None)
    elif given.get("backoff") == "linear":
        try:
            config["backoff"] = backoff_steps(given["backoff_steps"], given["backoff_min"], given["backoff_max"])
        except ValueError as error:
            raise Failure(str(error)) from error
        # A server wants more deliveries than waits.
        if config.get("max_deliver", -1) == -1:
            config["max_deliver"] = len(config["backoff"]) + 1
