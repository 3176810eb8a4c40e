"""`slipstream server check`: health checks for monitoring systems; see `verdict.py` for what they print."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import click

from slipstream.cli.connection import Command, CommandGroup, Session
from slipstream.cli.human import format_number, parse_timestamp
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.render import counted
from slipstream.cli.server.check_content import credential, message, request
from slipstream.cli.server.verdict import CHECK_FLAGS, Verdict, judged
from slipstream.cli.types import DURATION, SIZE
from slipstream.units import MILLISECOND_NS, SECOND_NS

__all__ = ["check"]


@click.group(cls=CommandGroup)
def check() -> None:
    """Check health, for monitoring systems."""


@check.command(cls=Command)
@click.option("--connect-warn", type=DURATION, default=500 * MILLISECOND_NS, help="Connecting takes long.")
@click.option("--connect-critical", type=DURATION, default=SECOND_NS, help="Connecting takes too long.")
@click.option("--rtt-warn", type=DURATION, default=500 * MILLISECOND_NS, help="A ping takes long.")
@click.option("--rtt-critical", type=DURATION, default=SECOND_NS, help="A ping takes too long.")
@click.option("--req-warn", type=DURATION, default=500 * MILLISECOND_NS, help="A request takes long.")
@click.option("--req-critical", type=DURATION, default=SECOND_NS, help="A request takes too long.")
@click.pass_obj
def connection(session: Session, /, **limits: int) -> None:
    """Check that a server can be reached."""

    def examine(link: ClientLink, result: Verdict) -> None:
        connected_ns = time.monotonic_ns() - started_ns
        began_ns = time.monotonic_ns()
        link.client.flush()
        rtt_ns = time.monotonic_ns() - began_ns
        result.above_ns("connect_time", connected_ns, limits["connect_warn"], limits["connect_critical"])
        result.above_ns("rtt", rtt_ns, limits["rtt_warn"], limits["rtt_critical"])
        result.above_ns("request_time", _request_ns(link), limits["req_warn"], limits["req_critical"])
        result.say(0, f"connected to {link.client.info.server_name or link.client.info.server_id}")

    started_ns = time.monotonic_ns()
    judged(session, "connections", "Connection", examine)


def _request_ns(link: ClientLink) -> int:
    """How long a message takes to the server and back."""
    client = link.client
    inbox = client.new_inbox()
    sid = client.subscribe(inbox)
    began_ns = time.monotonic_ns()
    client.publish(inbox, b"round trip")
    client.next_message(link.settings.timeout_ns)
    client.unsubscribe(sid)
    return time.monotonic_ns() - began_ns


@check.command(cls=Command)
@click.option("--mem-warn", type=int, default=75, help="Percent of the memory limit.")
@click.option("--mem-critical", type=int, default=90, help="Percent of the memory limit.")
@click.option("--store-warn", type=int, default=75, help="Percent of the storage limit.")
@click.option("--store-critical", type=int, default=90, help="Percent of the storage limit.")
@click.option("--streams-warn", type=int, default=-1, help="Percent of the limit of streams.")
@click.option("--streams-critical", type=int, default=-1, help="Percent of the limit of streams.")
@click.option("--consumers-warn", type=int, default=-1, help="Percent of the limit of consumers.")
@click.option("--consumers-critical", type=int, default=-1, help="Percent of the limit of consumers.")
@click.pass_obj
def jetstream(session: Session, /, **limits: int) -> None:
    """Check the account's use of JetStream."""

    def examine(link: ClientLink, result: Verdict) -> None:
        account = link.api("INFO")
        allowed: dict[str, Any] = account["limits"]
        for name, used, field in (
            ("mem", account["memory"], "max_memory"),
            ("store", account["storage"], "max_storage"),
            ("streams", account["streams"], "max_streams"),
            ("consumers", account["consumers"], "max_consumers"),
        ):
            result.figure(name, used)
            if allowed.get(field, -1) > 0:
                percent = round(100 * used / allowed[field])
                result.above(f"{name}_pct", percent, limits[f"{name}_warn"], limits[f"{name}_critical"], "%")
        result.say(0, f"{counted(account['streams'], 'stream')}, {counted(account['consumers'], 'consumer')}")

    judged(session, "jetstream", "JetStream", examine)


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
        info = link.api(f"STREAM.INFO.{name}")
        state = info["state"]
        messages = state["messages"]
        result.below("messages", messages, limits["msgs_warn"], limits["msgs_critical"])
        result.above("subjects", state.get("num_subjects", 0), limits["subjects_warn"], limits["subjects_critical"])
        if state.get("lost"):
            result.say(2, f"{len(state['lost'].get('msgs') or [])} messages are lost")
        _check_peers(info, result, limits)
        _check_sources(info, result, limits)
        result.say(0, counted(messages, "message"))

    judged(session, "stream", name, examine)


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
    for words, bad in (
        ("offline", [one for one in others if one.get("offline")]),
        ("not current", [one for one in others if not one.get("current")]),
        ("lagged", [one for one in others if 0 < limits["peer_lag_critical"] <= one.get("lag", 0)]),
        ("inactive", [one for one in others if 0 < limits["peer_seen_critical"] <= one.get("active", 0)]),
    ):
        if bad:
            result.say(2, f"{len(bad)} replicas {words}")


def _check_sources(info: Reply, result: Verdict, limits: dict[str, int]) -> None:
    sources = info.get("sources") or []
    if len(sources) > limits["max_sources"] >= 0:
        result.say(2, f"{len(sources)} sources of at most {limits['max_sources']}")
    if len(sources) < limits["min_sources"]:
        result.say(2, f"{len(sources)} sources of expected {limits['min_sources']}")
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
        info = link.api(f"CONSUMER.INFO.{stream_name}.{name}")
        result.above("ack_pending", info["num_ack_pending"], 0, limits["outstanding_ack_critical"])
        result.above("pull_waiting", info["num_waiting"], 0, limits["waiting_critical"])
        result.above("pending", info["num_pending"], 0, limits["unprocessed_critical"])
        result.above("redelivered", info["num_redelivered"], 0, limits["redelivery_critical"])
        for field, label in (("delivered", "last_delivery"), ("ack_floor", "last_ack")):
            limit_ns = limits[f"{label}_critical"]
            moment = info[field].get("last_active")
            age = (datetime.now(UTC) - parse_timestamp(moment)).total_seconds() if moment else None
            if limit_ns and (age is None or age * SECOND_NS >= limit_ns):
                result.say(2, f"no {label.removeprefix('last_')} " + ("yet" if age is None else f"for {age:.0f}s"))
        result.say(0, f"{format_number(info['num_pending'])} pending")

    judged(session, "consumer", f"{stream_name}_{name}", examine)


@check.command(cls=Command)
@click.option("--bucket", required=True, help="The bucket.")
@click.option("--values-warn", type=int, default=-1, help="Fewer values than this.")
@click.option("--values-critical", type=int, default=-1, help="Fewer values than this.")
@click.option("--key", default="", help="This key has to have a value.")
@click.pass_obj
def kv(session: Session, bucket: str, values_warn: int, values_critical: int, key: str) -> None:
    """Check a key-value bucket."""

    def examine(_link: ClientLink, result: Verdict) -> None:
        from slipstream.cli.kv.bucket import Bucket

        target = Bucket(session, bucket)
        state = target.info()["state"]
        result.below("values", state["messages"], values_warn, values_critical)
        result.figure("bytes", state["bytes"], "B")
        if key:
            target.get(key)
        result.say(0, counted(state["messages"], "value"))

    judged(session, "kv", bucket, examine)


@check.command(cls=Command)
@click.option("--name", default="", help="The server; by default the connected one.")
@click.option("--cpu-warn", type=int, default=0, help="Percent of a core.")
@click.option("--cpu-critical", type=int, default=0, help="Percent of a core.")
@click.option("--mem-warn", type=SIZE, default=0, help="Bytes of memory.")
@click.option("--mem-critical", type=SIZE, default=0, help="Bytes of memory.")
@click.option("--conn-warn", type=int, default=0, help="Connections.")
@click.option("--conn-critical", type=int, default=0, help="Connections.")
@click.option("--subs-warn", type=int, default=0, help="Subscriptions.")
@click.option("--subs-critical", type=int, default=0, help="Subscriptions.")
@click.option("--auth-required", is_flag=True, help="Users have to be known.")
@click.option("--tls-required", is_flag=True, help="Connections have to be encrypted.")
@click.option("--js-required", is_flag=True, help="JetStream has to be enabled.")
@click.pass_obj
def server(session: Session, /, name: str, **limits: int) -> None:
    """Check a server; needs the system account."""

    def examine(link: ClientLink, result: Verdict) -> None:
        from slipstream.cli.system import one_server

        varz = one_server(link, "VARZ", name)["data"]
        for label, field, unit in (
            ("cpu", "cpu", "%"),
            ("mem", "mem", "B"),
            ("conn", "connections", ""),
            ("subs", "subscriptions", ""),
        ):
            result.above(label, varz[field], limits[f"{label}_warn"], limits[f"{label}_critical"], unit)
        for flag, holds in (
            ("auth", varz.get("auth_required")),
            ("tls", varz.get("tls_required")),
            ("js", (varz.get("jetstream") or {}).get("config")),
        ):
            if limits[f"{flag}_required"] and not holds:
                result.say(2, f"{flag} is not required" if flag != "js" else "JetStream is not enabled")
        result.say(0, f"{varz['server_name']} is up for {varz['uptime']}")

    judged(session, "server", "Server", examine)


@check.command(cls=Command, short_help="Check the servers of a JetStream cluster.")
@click.option("--expect", type=int, required=True, help="Servers that should be there.")
@click.option("--lag-critical", type=int, required=True, help="A server this many operations behind.")
@click.option("--seen-critical", type=DURATION, required=True, help="A server silent for this long.")
@click.pass_obj
def meta(session: Session, expect: int, lag_critical: int, seen_critical: int) -> None:
    """Check the servers of a JetStream cluster; needs the system account."""

    def examine(link: ClientLink, result: Verdict) -> None:
        from slipstream.cli.server.cluster import meta_of

        found = meta_of(link)
        peers = found.get("replicas") or []
        result.figure("peers", len(peers) + 1, warn=expect, critical=expect)
        if len(peers) + 1 != expect:
            result.say(2, f"{len(peers) + 1} peers of expected {expect}")
        for name, words, judge in (
            ("peer_offline", "offline", lambda peer: bool(peer.get("offline"))),
            ("peer_not_current", "not current", lambda peer: not peer.get("current")),
            ("peer_inactive", "inactive", lambda peer: peer.get("active", 0) > seen_critical),
            ("peer_lagged", "lagged", lambda peer: peer.get("lag", 0) > lag_critical),
        ):
            bad = sum(map(judge, peers))
            result.figure(name, bad)
            if bad:
                result.say(2, f"{bad} {words}")
        result.say(0, f"{len(peers) + 1} peers led by {found['leader']}")

    judged(session, "meta", "JetStream Meta Cluster", examine)


for each in (message, request, credential):
    check.add_command(each)
for flagged in (check, *check.commands.values()):
    flagged.params += CHECK_FLAGS
