"""`slipstream server check`: health checks for monitoring systems; see `verdict.py` for what they print."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime
from typing import Final

import click

from slipstream.cli.connection import Command, CommandGroup, Failure, Session
from slipstream.cli.human import format_exactly, format_time, parse_timestamp
from slipstream.cli.link import ApiRefusal, ClientLink, Reply
from slipstream.cli.server.check_content import credential, message, request
from slipstream.cli.server.check_servers import connection, jetstream, meta, server
from slipstream.cli.server.verdict import CHECK_FLAGS, Verdict, judged
from slipstream.cli.types import DURATION
from slipstream.units import SECOND_NS

__all__ = ["check"]

_CONSUMER_FIGURES: Final = (
    ("ack_pending", "num_ack_pending", "Ack Pending"),
    ("pull_waiting", "num_waiting", "Waiting Pulls"),
    ("pending", "num_pending", "Unprocessed Messages"),
    ("redelivered", "num_redelivered", "Redelivered"),
)
_CONSUMER_LIMITS: Final = {
    "ack_pending": "outstanding_ack_critical",
    "pull_waiting": "waiting_critical",
    "pending": "unprocessed_critical",
    "redelivered": "redelivery_critical",
}


@click.group(cls=CommandGroup)
def check() -> None:
    """Check health, for monitoring systems."""


@check.command(cls=Command, short_help="Check a stream, its sources included.")
@click.option("--stream", "name", required=True, help="The stream.")
@click.option("--msgs-warn", type=int, default=0, help="Fewer messages than this.")
@click.option("--msgs-critical", type=int, default=0, help="Fewer messages than this.")
@click.option("--subjects-warn", type=int, default=0, help="More subjects than this.")
@click.option("--subjects-critical", type=int, default=0, help="More subjects than this.")
@click.option("--lag-critical", type=int, default=0, help="A source or mirror this many messages behind.")
@click.option("--seen-critical", type=DURATION, default=0, help="A source or mirror silent for this long.")
@click.option("--min-sources", type=int, default=0, help="Fewer sources than this.")
@click.option("--max-sources", type=int, default=-1, help="More sources than this.")
@click.option("--peer-expect", type=int, default=0, help="Copies that should be there.")
@click.option("--peer-lag-critical", type=int, default=0, help="A copy this many operations behind.")
@click.option("--peer-seen-critical", type=DURATION, default=0, help="A copy silent for this long.")
@click.pass_obj
def stream(session: Session, /, name: str, **limits: int) -> None:
    """Check a stream: its messages, its sources, and whether anything was lost."""

    def examine(link: ClientLink, result: Verdict) -> None:
        info = _info(link, f"STREAM.INFO.{name}")
        state = info["state"]
        messages, subjects = state["messages"], state.get("num_subjects", 0)
        if limits["msgs_warn"] or limits["msgs_critical"]:
            result.below(
                "messages", messages, limits["msgs_warn"], limits["msgs_critical"], says=f"{messages} messages"
            )
        if limits["subjects_warn"] or limits["subjects_critical"]:
            allowed = (limits["subjects_warn"], limits["subjects_critical"])
            inverts = 0 < limits["subjects_critical"] < limits["subjects_warn"]
            result.judge("subjects", subjects, allowed, says=f"{subjects} subjects", inverts=inverts)
        if state.get("lost"):
            result.say(2, f"{len(state['lost'].get('msgs') or [])} messages are lost")
        _check_peers(info, result, limits)
        _check_sources(info, result, limits)

    judged(session, "stream", name, examine)


def _info(link: ClientLink, verb: str) -> Reply:
    try:
        return link.api(verb)
    except ApiRefusal as error:
        raise Failure(f"could not load info: {error.description} ({error.err_code})") from error


def _check_peers(info: Reply, result: Verdict, limits: dict[str, int]) -> None:
    """The copies of a stream, where a cluster keeps it."""
    cluster: Reply = info.get("cluster") or {}
    others: list[Reply] = cluster.get("replicas") or []
    found, expected = len(others) + bool(cluster.get("leader")), limits["peer_expect"]
    if expected and found != expected:
        result.say(2, f"Expected {expected} replicas got {found}")
    elif expected:
        result.say(0, f"{found} peers")
    if cluster and not cluster.get("leader"):
        result.say(2, "No leader")
    if not any(limits[name] for name in ("peer_expect", "peer_lag_critical", "peer_seen_critical")):
        return
    lag, seen_ns = limits["peer_lag_critical"], limits["peer_seen_critical"]
    for words, bad, good in (
        ("offline", [one for one in others if one.get("offline")], ""),
        ("not current", [one for one in others if not one.get("current")], ""),
        ("lagged", [one for one in others if 0 < lag <= one.get("lag", 0)], "current" if lag else ""),
        ("inactive", [one for one in others if 0 < seen_ns <= one.get("active", 0)], "active" if seen_ns else ""),
    ):
        if bad:
            result.say(2, f"{len(bad)} replicas {words}")
        elif good:
            result.say(0, f"replicas are {good}")


def _check_sources(info: Reply, result: Verdict, limits: dict[str, int]) -> None:
    sources = info.get("sources") or []
    least, most = limits["min_sources"], limits["max_sources"]
    result.figure("sources", len(sources), warn=least, critical=max(most, 0))
    result.say(2 if len(sources) < least or len(sources) > most >= 0 else 0, f"{len(sources)} sources")
    for source in [*sources, *([info["mirror"]] if info.get("mirror") else [])]:
        result.above(f"{source['name']}_lag", source["lag"], 0, limits["lag_critical"])
        silent_ns = source["active"]
        if limits["seen_critical"] and not 0 <= silent_ns < limits["seen_critical"]:
            result.say(2, f"{source['name']} was not seen for long")


@check.command(cls=Command)
@click.option("--stream", "stream_name", required=True, help="The stream.")
@click.option("--consumer", "name", required=True, help="The consumer.")
@click.option("--outstanding-ack-critical", type=int, default=-1, help="Messages that wait for an acknowledgement.")
@click.option("--waiting-critical", type=int, default=-1, help="Waiting pull requests.")
@click.option("--unprocessed-critical", type=int, default=-1, help="Messages that were not delivered yet.")
@click.option("--redelivery-critical", type=int, default=-1, help="Messages that were delivered again.")
@click.option("--last-delivery-critical", type=DURATION, default=0, help="No delivery for this long.")
@click.option("--last-ack-critical", type=DURATION, default=0, help="No acknowledgement for this long.")
@click.pass_obj
def consumer(session: Session, /, stream_name: str, name: str, **limits: int) -> None:
    """Check a consumer."""

    def examine(link: ClientLink, result: Verdict) -> None:
        info = _info(link, f"CONSUMER.INFO.{stream_name}.{name}")
        for figure, field, words in _CONSUMER_FIGURES:
            value = info[field]
            result.judge(figure, value, (0, limits[_CONSUMER_LIMITS[figure]]), says=f"{words}: {value}")
        for field, label, many in (("delivered", "delivery", "deliveries"), ("ack_floor", "ack", "acks")):
            limit_ns = limits[f"last_{label}_critical"]
            if not limit_ns:
                continue
            moment = info[field].get("last_active")
            if not moment:
                result.say(2, f"No {many}")
                continue
            age = (datetime.now(UTC) - parse_timestamp(moment)).total_seconds()
            late = age * SECOND_NS >= limit_ns
            words = f"{format_exactly(int(age * SECOND_NS))} ago" if late else format_time(moment)
            result.judge(f"last_{label}", age, (0, limit_ns / SECOND_NS), unit="s", says=f"Last {label} {words}")

    judged(session, "consumer", f"{stream_name}_{name}", examine)


@check.command(cls=Command)
@click.option("--bucket", required=True, help="The bucket.")
@click.option("--values-warn", type=int, default=-1, help="So many values; so few, if the critical limit is smaller.")
@click.option("--values-critical", type=int, default=-1, help="So many values; so few, if it is the smaller limit.")
@click.option("--key", default="", help="This key has to have a value.")
@click.pass_obj
def kv(session: Session, bucket: str, values_warn: int, values_critical: int, key: str) -> None:
    """Check a key-value bucket."""

    def examine(_link: ClientLink, result: Verdict) -> None:
        from slipstream.cli.kv.bucket import Bucket, NoSuchKey

        target = Bucket(session, bucket)
        try:
            found = target.info()
        except Failure:
            raise Failure(f"bucket {bucket} not found") from None
        result.say(0, f"bucket {bucket}")
        values = found["state"]["messages"]
        limits = (values_warn, values_critical)
        result.judge("values", values, limits, says=f"{values} values", inverts=True)
        result.figure("bytes", found["state"]["bytes"], "B")
        result.figure("replicas", found["config"]["num_replicas"])
        if not key:
            return
        try:
            target.get(key)
        except NoSuchKey:
            result.say(2, f"key {key} not found")
        else:
            result.say(0, f"key {key} found")

    judged(session, "kv", bucket, examine)


for each in (connection, jetstream, server, meta, message, request, credential):
    check.add_command(each)
for flagged in (check, *check.commands.values()):
    flagged.params += CHECK_FLAGS
for long, short in (("jetstream", "js"), ("connection", "conn"), ("request", "req")):
    alias = copy(check.commands[long])
    alias.hidden = True
    check.add_command(alias, short)
