"""`stream find`: streams by what they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.expressions import Expression
from slipstream.cli.human import parse_timestamp
from slipstream.cli.jetstream import all_streams, api_level, now_of
from slipstream.cli.link import Reply
from slipstream.cli.render import print_names
from slipstream.cli.stream.listing import print_streams
from slipstream.cli.types import DURATION, json_flag, names_flag
from slipstream.units import SECOND_NS

__all__ = ["find", "older_than", "regex"]

Test = Callable[[Reply], bool]


@click.command(cls=Command)
@click.option("--empty", is_flag=True, help="Without messages.")
@click.option("--idle", type=DURATION, help="Without new messages for this long.")
@click.option("--created", type=DURATION, help="Created longer ago.")
@click.option("--consumers", type=int, help="With fewer consumers.")
@click.option("--subject", metavar="SUBJECT", default="", help="That store a subject.")
@click.option("--replicas", type=int, help="With this many replicas or fewer.")
@click.option("--sourced", is_flag=True, help="That have sources.")
@click.option("--mirrored", is_flag=True, help="That are mirrors.")
@click.option("--cluster", metavar="REGEX", default="", help="In a cluster.")
@click.option("--server-name", metavar="REGEX", default="", help="On a server.")
@click.option("--leader", metavar="SERVER", default="", help="With a leader.")
@click.option("--api-level", "level", type=int, help="That need this API level or a higher one.")
@click.option("--expression", metavar="EXPRESSION", default="", help="For which an expression is true.")
@click.option("--invert", is_flag=True, help="Those that do not match.")
@names_flag
@json_flag
@click.pass_obj
def find(
    session: Session,
    empty: bool,
    idle: int | None,
    created: int | None,
    consumers: int | None,
    subject: str,
    replicas: int | None,
    sourced: bool,
    mirrored: bool,
    cluster: str,
    server_name: str,
    leader: str,
    level: int | None,
    expression: str,
    invert: bool,
    names: bool,
    as_json: bool,
) -> None:
    """Find streams for which everything that is asked for is true.

    Expressions know `config`, `state` and `info`, as `stream info --json` shows them:

    \b
        slipstream stream find --expression 'state.messages > 10'
        slipstream stream find --expression '"orders.*" in config.subjects'
    """
    tests: list[Test] = []
    if empty:
        tests.append(lambda info: info["state"]["messages"] == 0)
    if idle is not None:
        tests.append(lambda info: older_than(info["state"].get("last_ts", ""), idle, now_of(info)))
    if created is not None:
        tests.append(lambda info: older_than(info["created"], created, now_of(info)))
    if consumers is not None:
        tests.append(lambda info: int(info["state"]["consumer_count"]) < consumers)
    if replicas is not None:
        tests.append(lambda info: int(info["config"].get("num_replicas", 1)) <= replicas)
    if sourced:
        tests.append(lambda info: bool(info["config"].get("sources")))
    if mirrored:
        tests.append(lambda info: bool(info["config"].get("mirror")))
    if level is not None:
        tests.append(lambda info: int(api_level(info["config"])) >= level)
    tests += _place_tests(cluster, server_name, leader)
    if expression:
        asked = Expression(expression)
        tests.append(lambda info: asked.holds({"config": info["config"], "state": info["state"], "info": info}))
    found = [
        info for info in all_streams(session.link(), subject=subject) if all(test(info) != invert for test in tests)
    ]
    if names:
        print_names(info["config"]["name"] for info in found)
    else:
        print_streams(found, "Matching Streams", as_json=as_json)


def _place_tests(cluster: str, server_name: str, leader: str) -> list[Test]:
    tests: list[Test] = []
    if cluster:
        in_cluster = regex(cluster)
        tests.append(lambda info: bool(in_cluster.search((info.get("cluster") or {}).get("name", ""))))
    if server_name:
        on_server = regex(server_name)
        tests.append(lambda info: any(on_server.search(name) for name in _servers(info)))
    if leader:
        tests.append(lambda info: (info.get("cluster") or {}).get("leader") == leader)
    return tests


def _servers(info: Reply) -> list[str]:
    cluster = info.get("cluster") or {}
    return [cluster.get("leader", ""), *(peer["name"] for peer in cluster.get("replicas") or [])]


def regex(text: str) -> re.Pattern[str]:
    """A regular expression of the user.

    Raises:
        Failure: it is none.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise Failure(f"{text!r} is not a regular expression: {error}") from error


def older_than(stamp: str, age_ns: int, now: datetime) -> bool:
    """Whether a time is longer ago; the zero time always is."""
    moment = parse_timestamp(stamp) if stamp else None
    return moment is None or moment.year == 1 or (now - moment).total_seconds() * SECOND_NS >= age_ns
