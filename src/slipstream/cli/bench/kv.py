"""`bench kv put` and `get`: keys that are numbers."""

from __future__ import annotations

from typing import Final

import click

from slipstream.cli.bench.flags import BenchPlan, flags
from slipstream.cli.bench.groups import BenchGroup
from slipstream.cli.bench.report import announce, shown_duration
from slipstream.cli.bench.run import measure, pace_of
from slipstream.cli.bench.target import BUCKET, bucket_info, create_bucket, remove_bucket
from slipstream.cli.connection import Command, Session
from slipstream.cli.lazy import Verb
from slipstream.cli.types import SIZE
from slipstream.client.bench.course import Body, Subjects
from slipstream.client.bench.get import GetKeys
from slipstream.client.bench.publish import Put

__all__ = ["get", "kv", "put"]

_HERE = "slipstream.cli.bench.kv"
_bucket: Final = click.option("--bucket", default=BUCKET, show_default=True, help="Bucket to use.")
_randomize: Final = click.option(
    "--randomize", default=0, type=click.IntRange(min=0), help="Keys at random below this number; 0: in order."
)


@click.group(
    cls=BenchGroup,
    entries={
        "put": Verb(f"{_HERE}:put", "Set keys, one after the other."),
        "get": Verb(f"{_HERE}:get", "Get keys, one after the other."),
    },
)
def kv() -> None:
    """Put and get keys."""


@click.command(cls=Command)
@flags(pace=True)
@_bucket
@_randomize
@click.option("--purge", "purges", is_flag=True, help="Begin with a new bucket.")
@click.option("--storage", type=click.Choice(["file", "memory"]), default="file", show_default=True, help="If created.")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True, help="If created.")
@click.option("--maxbytes", "max_bytes", type=SIZE, default="1GB", show_default=True, help="If created.")
@click.option("--history", type=click.IntRange(1, 64), default=1, show_default=True, help="If created.")
def put(
    session: Session,
    plan: BenchPlan,
    /,
    bucket: str,
    randomize: int,
    purges: bool,
    storage: str,
    replicas: int,
    max_bytes: int,
    history: int,
) -> None:
    """Set keys 0, 1, 2 and so on; the default bucket is created if it is not there."""
    label = "JetStream KV putter"
    plan = plan.fewer_clients()
    announce(label, plan, {"bucket": bucket, "sleep": shown_duration(plan.sleep_ns), "purge": purges})
    link = session.link()
    if purges:
        remove_bucket(link, bucket)
    if purges or bucket == BUCKET:
        create_bucket(link, bucket, history=history, storage=storage, replicas=replicas, max_bytes=max_bytes)
    bucket_info(link, bucket)
    shares = plan.shares()
    courses = [
        Put(
            subjects=Subjects(subject=f"$KV.{bucket}", offset=sum(shares[:number])),
            body=Body(payload=bytes(plan.size)),
            messages=share,
            pace=pace_of(plan, number),
            randomize=randomize,
        )
        for number, share in enumerate(shares)
    ]
    measure(session, label, plan, courses, shares, "publishing", "P")


@click.command(cls=Command)
@flags()
@_bucket
@_randomize
def get(session: Session, plan: BenchPlan, /, bucket: str, randomize: int) -> None:
    """Get keys 0, 1, 2 and so on."""
    label = "JetStream KV getter"
    plan = plan.fewer_clients()
    announce(label, plan, {"bucket": bucket, "sleep": shown_duration(plan.sleep_ns), "randomize": randomize})
    info = bucket_info(session.link(), bucket)
    shares = plan.shares()
    courses = [
        GetKeys(
            api=session.settings.api_prefix,
            stream=f"KV_{bucket}",
            messages=share,
            pace=pace_of(plan, number),
            first_seq=sum(shares[:number]),
            direct=bool(info["config"].get("allow_direct")),
            subject=f"$KV.{bucket}",
            randomize=randomize,
        )
        for number, share in enumerate(shares)
    ]
    measure(session, label, plan, courses, shares, "trying to get", "S")
