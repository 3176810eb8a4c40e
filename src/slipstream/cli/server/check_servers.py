"""Health checks of servers: a connection, one server, an account's JetStream, the servers of a JetStream cluster."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_duration, format_exactly
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.server.verdict import Verdict, judged
from slipstream.cli.types import DURATION, SIZE
from slipstream.errors import SlipstreamError
from slipstream.quantities import parse_timestamp
from slipstream.units import MILLISECOND_NS, SECOND_NS

__all__ = ["connection", "jetstream", "meta", "server"]

_USED: Final = (
    ("memory", "memory", "max_memory", "mem", "B"),
    ("storage", "storage", "max_storage", "store", "B"),
    ("streams", "streams", "max_streams", "streams", ""),
    ("consumers", "consumers", "max_consumers", "consumers", ""),
)
_LOAD: Final = (
    ("cpu", "CPU", "cpu", "cpu", "%"),
    ("mem", "Memory", "mem", "mem", ""),
    ("connections", "Connections", "connections", "conn", ""),
    ("subscriptions", "Subscriptions", "subscriptions", "subs", ""),
)


@click.command(cls=Command)
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
        request_ns = _request_ns(link)
        took = f"{request_ns / SECOND_NS:.6f}"
        for name, flag, value_ns, good, bad in (
            (
                "connect_time",
                "connect",
                connected_ns,
                f"connected to {link.url} in {format_exactly(connected_ns)}",
                f"connected to {link.url}, connect time exceeded {{}}",
            ),
            ("rtt", "rtt", rtt_ns, f"rtt time {format_exactly(rtt_ns)}", "rtt time exceeded {}"),
            ("request_time", "req", request_ns, f"round trip took {took}s", f"round trip request took {took}"),
        ):
            warn, critical = limits[f"{flag}_warn"], limits[f"{flag}_critical"]
            result.figure(name, value_ns / SECOND_NS, "s", warn=warn / SECOND_NS, critical=critical / SECOND_NS)
            status = 2 if value_ns >= critical else 1 if value_ns >= warn else 0
            limit = critical if status == 2 else warn
            result.say(status, bad.format(f"{limit / SECOND_NS:g}") if status else good)

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


@click.command(cls=Command)
@click.option("--mem-warn", type=int, default=75, help="Percent of the memory limit.")
@click.option("--mem-critical", type=int, default=90, help="Percent of the memory limit.")
@click.option("--store-warn", type=int, default=75, help="Percent of the storage limit.")
@click.option("--store-critical", type=int, default=90, help="Percent of the storage limit.")
@click.option("--streams-warn", type=int, default=-1, help="Percent of the limit of streams.")
@click.option("--streams-critical", type=int, default=-1, help="Percent of the limit of streams.")
@click.option("--consumers-warn", type=int, default=-1, help="Percent of the limit of consumers.")
@click.option("--consumers-critical", type=int, default=-1, help="Percent of the limit of consumers.")
@click.option("--replicas/--no-replicas", default=True, help="Look at the copies of streams.")
@click.option("--replica-seen-critical", type=DURATION, default=5 * SECOND_NS, help="A copy silent for this long.")
@click.option("--replica-lag-critical", type=int, default=200, help="A copy this many operations behind.")
@click.pass_obj
def jetstream(
    session: Session, /, replicas: bool, replica_seen_critical: int, replica_lag_critical: int, **limits: int
) -> None:
    """Check the account's use of JetStream."""

    def examine(link: ClientLink, result: Verdict) -> None:
        try:
            account = link.api("INFO")
        except SlipstreamError as error:
            raise Failure(f"JetStream not available: {error}") from error
        allowed: dict[str, Any] = account["limits"]
        for name, field, limit, flag, unit in _USED:
            used, most = account[field], allowed.get(limit, -1)
            percent = round(100 * used / most) if most > 0 else 0
            warn, critical = limits[f"{flag}_warn"], limits[f"{flag}_critical"]
            result.figure(name, used, unit)
            result.figure(f"{name}_pct", percent, "%", warn=max(warn, 0), critical=max(critical, 0))
            if 0 <= critical < warn:
                result.say(2, f"{name}: invalid thresholds")
            elif 0 <= critical <= percent or 0 <= warn <= percent:
                result.say(2 if 0 <= critical <= percent else 1, f"{percent}% {name}")
        if replicas:
            _check_replicas(link, result, replica_seen_critical, replica_lag_critical)

    judged(session, "jetstream", "JetStream", examine)


def _check_replicas(link: ClientLink, result: Verdict, seen_ns: int, lag: int) -> None:
    """The copies of all streams; a stream is counted for each thing that is wrong with it."""
    wrong = {"no_leader": 0, "missing_replicas": 0, "lagged": 0, "not_seen": 0, "fail": 0}
    good = bad = 0
    for info in link.api_pages("STREAM.LIST", "streams"):
        found = _wrong_with(info, seen_ns, lag)
        for word in found:
            wrong[word] += 1
        good += not found
        bad += bool(found)
    result.figure("replicas_ok", good)
    for word, count in wrong.items():
        limit = {"lagged": lag, "not_seen": seen_ns / SECOND_NS}.get(word, 0)
        result.figure(f"replicas_{word}", count, "s" if word == "not_seen" else "", critical=limit)
    if bad:
        result.say(2, f"{bad} unhealthy streams")


def _wrong_with(info: Reply, seen_ns: int, lag: int) -> set[str]:
    cluster: Reply | None = info.get("cluster")
    if not cluster:
        return set()
    others: list[Reply] = cluster.get("replicas") or []
    found = {
        "no_leader": not cluster.get("leader"),
        "missing_replicas": len(others) + 1 < info["config"]["num_replicas"],
        "lagged": any(one.get("lag", 0) > lag for one in others),
        "not_seen": any(one.get("active", 0) > seen_ns for one in others),
        "fail": any(one.get("offline") for one in others),
    }
    return {word for word, holds in found.items() if holds}


@click.command(cls=Command)
@click.option("--name", default="", help="The server; by default the connected one.")
@click.option("--cpu-warn", type=int, default=0, help="Percent of a core.")
@click.option("--cpu-critical", type=int, default=0, help="Percent of a core.")
@click.option("--mem-warn", type=SIZE, default=0, help="Bytes of memory.")
@click.option("--mem-critical", type=SIZE, default=0, help="Bytes of memory.")
@click.option("--conn-warn", type=int, default=0, help="Connections; too few, if the critical limit is smaller.")
@click.option("--conn-critical", type=int, default=0, help="Connections; too few, if it is the smaller limit.")
@click.option("--subs-warn", type=int, default=0, help="Subscriptions; too few, if the critical limit is smaller.")
@click.option("--subs-critical", type=int, default=0, help="Subscriptions; too few, if it is the smaller limit.")
@click.option("--uptime-warn", type=DURATION, default=0, help="It runs for less than this.")
@click.option("--uptime-critical", type=DURATION, default=0, help="It runs for less than this.")
@click.option("--auth-required", is_flag=True, help="Users have to be known.")
@click.option("--tls-required", is_flag=True, help="Connections have to be encrypted.")
@click.option("--js-required", is_flag=True, help="JetStream has to be enabled.")
@click.pass_obj
def server(session: Session, /, name: str, **limits: int) -> None:
    """Check a server; needs the system account."""

    def examine(link: ClientLink, result: Verdict) -> None:
        from slipstream.cli.system import one_server

        try:
            varz = one_server(link, "VARZ", name)["data"]
        except Failure as error:
            raise Failure(f"varz failed: {error.message}") from error
        result.name = varz["server_name"]
        for flag, holds, good, bad in (
            ("js", (varz.get("jetstream") or {}).get("config"), "JetStream enabled", "JetStream not enabled"),
            ("tls", varz.get("tls_required"), "TLS required", "TLS not required"),
            ("auth", varz.get("auth_required"), "Authentication required", "Authentication not required"),
        ):
            if limits[f"{flag}_required"]:
                result.say(0 if holds else 2, good if holds else bad)
        _check_uptime(varz, result, limits["uptime_warn"], limits["uptime_critical"])
        for figure, words, field, flag, unit in _LOAD:
            value = varz[field]
            allowed = (limits[f"{flag}_warn"], limits[f"{flag}_critical"])
            inverts = flag in ("conn", "subs")
            if not inverts and 0 < allowed[1] < allowed[0]:
                result.figure(figure, value, unit, warn=allowed[0], critical=allowed[1])
                result.say(2, f"{words} invalid thresholds")
            else:
                result.judge(figure, value, allowed, unit=unit, says=f"{words} {value:.2f}", inverts=inverts)

    judged(session, "server", name or "Server", examine)


def _check_uptime(varz: Reply, result: Verdict, warn_ns: int, critical_ns: int) -> None:
    """Complain about a server that was started again just now."""
    if 0 < warn_ns < critical_ns:
        raise Failure("Up invalid thresholds")
    up_ns = int((parse_timestamp(varz["now"]) - parse_timestamp(varz["start"])).total_seconds() * SECOND_NS)
    result.figure("uptime", up_ns / SECOND_NS, "s", warn=warn_ns / SECOND_NS, critical=critical_ns / SECOND_NS)
    if warn_ns or critical_ns:
        status = 2 if up_ns <= critical_ns else 1 if up_ns <= warn_ns else 0
        result.say(status, f"Up {format_duration(up_ns)}")


@click.command(cls=Command, short_help="Check the servers of a JetStream cluster.")
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
        inactive = f"inactive more than {format_exactly(seen_critical)}"
        for name, words, judge in (
            ("peer_offline", "offline", lambda peer: bool(peer.get("offline"))),
            ("peer_not_current", "not current", lambda peer: not peer.get("current")),
            ("peer_inactive", inactive, lambda peer: peer.get("active", 0) > seen_critical),
            ("peer_lagged", "lagged", lambda peer: peer.get("lag", 0) > lag_critical),
        ):
            bad = sum(map(judge, peers))
            result.figure(name, bad)
            if bad:
                result.say(2, f"{bad} {words}")
        if not result.status:
            result.say(0, f"{len(peers) + 1} peers led by {found['leader']}")

    judged(session, "meta", "JetStream Meta Cluster", examine)
