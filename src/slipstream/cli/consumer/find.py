"""`consumer find`: consumers by what they are."""

from __future__ import annotations

from collections.abc import Callable

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.consumer.listing import print_consumers
from slipstream.cli.expressions import Expression
from slipstream.cli.jetstream import all_consumers, api_level, choose_stream, now_of
from slipstream.cli.link import Reply
from slipstream.cli.render import print_names
from slipstream.cli.stream.find import older_than
from slipstream.cli.types import DURATION, json_flag, names_flag

__all__ = ["find"]


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.option("--pull", is_flag=True, help="That deliver on request.")
@click.option("--push", is_flag=True, help="That deliver to a subject.")
@click.option("--bound", is_flag=True, help="That somebody listens to.")
@click.option("--waiting", type=int, help="With fewer waiting pulls.")
@click.option("--ack-pending", type=int, help="With fewer unacknowledged messages.")
@click.option("--pending", type=int, help="With fewer unprocessed messages.")
@click.option("--idle", type=DURATION, help="Without deliveries for this long.")
@click.option("--created", type=DURATION, help="Created longer ago.")
@click.option("--replicas", type=int, help="With this many replicas or fewer.")
@click.option("--leader", metavar="SERVER", default="", help="With a leader.")
@click.option("--pinned", is_flag=True, help="Whose priority groups all have a pinned client.")
@click.option("--api-level", "level", type=int, help="That need this API level or a higher one.")
@click.option("--expression", metavar="EXPRESSION", default="", help="For which an expression is true.")
@click.option("--invert", is_flag=True, help="Those that do not match.")
@names_flag
@json_flag
@click.pass_obj
def find(
    session: Session,
    stream: str | None,
    pull: bool,
    push: bool,
    bound: bool,
    waiting: int | None,
    ack_pending: int | None,
    pending: int | None,
    idle: int | None,
    created: int | None,
    replicas: int | None,
    leader: str,
    pinned: bool,
    level: int | None,
    expression: str,
    invert: bool,
    names: bool,
    as_json: bool,
) -> None:
    """Find consumers of STREAM for which everything that is asked for is true.

    Expressions know `config`, `state` and `info`, as `consumer info --json` shows them.
    """
    tests: list[Callable[[Reply], bool]] = []
    if pull:
        tests.append(lambda info: not info["config"].get("deliver_subject"))
    if push:
        tests.append(lambda info: bool(info["config"].get("deliver_subject")))
    if bound:
        tests.append(lambda info: bool(info.get("push_bound") or info.get("num_waiting")))
    for most, field in ((waiting, "num_waiting"), (ack_pending, "num_ack_pending"), (pending, "num_pending")):
        if most is not None:
            tests.append(_fewer(most, field))
    if idle is not None:
        tests.append(lambda info: older_than((info.get("delivered") or {}).get("last_active", ""), idle, now_of(info)))
    if created is not None:
        tests.append(lambda info: older_than(info["created"], created, now_of(info)))
    if replicas is not None:
        tests.append(lambda info: int(info["config"].get("num_replicas", 0)) <= replicas)
    if leader:
        tests.append(lambda info: (info.get("cluster") or {}).get("leader") == leader)
    if pinned:
        tests.append(_is_pinned)
    if level is not None:
        tests.append(lambda info: int(api_level(info["config"])) >= level)
    if expression:
        asked = Expression(expression)
        tests.append(lambda info: asked.holds({"config": info["config"], "state": info, "info": info}))
    stream = choose_stream(session, stream, internal=session.show_all)
    found = [info for info in all_consumers(session.link(), stream) if all(test(info) != invert for test in tests)]
    if names:
        print_names(info["name"] for info in found)
    else:
        print_consumers(found, "Matching Consumers", as_json=as_json)


def _fewer(most: int, field: str) -> Callable[[Reply], bool]:
    return lambda info: int(info.get(field, 0)) < most


def _is_pinned(info: Reply) -> bool:
    groups = info.get("priority_groups") or []
    return bool(groups) and all(group.get("pinned_client_id") for group in groups)
