"""The streams, buckets and consumers of a bench run: created, purged, looked at and removed as `nats bench` does it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from slipstream.cli.connection import Failure
from slipstream.cli.link import ApiRefusal, ClientLink, Reply
from slipstream.cli.render import note
from slipstream.client.options import ClientError
from slipstream.units import MINUTE_NS, SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BUCKET",
    "CONSUMER",
    "STREAM",
    "bucket_info",
    "create_bucket",
    "create_stream",
    "durable_consumer",
    "ordered_name",
    "purge",
    "remove_bucket",
    "stream_info",
    "wait_hint",
]

STREAM: Final = "benchstream"
BUCKET: Final = "benchbucket"
CONSUMER: Final = "nats-bench"
_INACTIVE_NS: Final = 10 * SECOND_NS
_LOOKS: Final = 10
_LOOK_S: Final = 0.05


def stream_info(link: ClientLink, stream: str) -> Reply:
    """A stream that must be there.

    Raises:
        Failure: it is not.
    """
    try:
        return link.api(f"STREAM.INFO.{checked(stream)}")
    except ApiRefusal as error:
        hint = "; --create on `bench js pub` creates it" if error.code == 404 else ""
        raise Failure(f"could not access stream {stream}: {error}{hint}") from error


def create_stream(link: ClientLink, config: Reply) -> None:
    """Create the stream; one with the same settings will do.

    Raises:
        Failure: there is one with other settings, or the server does not want it.
    """
    name = checked(config["name"])
    try:
        link.api(f"STREAM.CREATE.{name}", config)
    except ApiRefusal as error:
        hint = f"; `slipstream stream rm {name}` makes room for another one"
        raise Failure(f"could not create the stream: {error}{hint if error.err_code == 10058 else ''}") from error


def purge(link: ClientLink, stream: str) -> None:
    """Remove all messages of a stream."""
    stream_info(link, stream)
    note("Purging the stream")
    link.api(f"STREAM.PURGE.{stream}")


def wait_hint(info: Reply, wanted: int) -> None:
    """Say that there are too few messages: somebody may be about to publish more."""
    there = int(info["state"]["messages"])
    if there < wanted:
        note(f"Stream {info['config']['name']} holds {there:,} of {wanted:,} messages: waiting for more")


@contextmanager
def durable_consumer(
    link: ClientLink, stream: str, consumer: str, *, acks: str, pending: int, filters: Sequence[str]
) -> Iterator[None]:
    """The consumer of a run. The one of the default name is created, and removed if nobody else uses it.

    Raises:
        Failure: it cannot be created, or the one that was named is not there.
    """
    if consumer != CONSUMER:
        link.api(f"CONSUMER.INFO.{stream}.{checked(consumer)}")
        yield
        return
    config: Reply = {
        "durable_name": consumer,
        "name": consumer,
        "deliver_policy": "all",
        "ack_policy": acks,
        "replay_policy": "instant",
        "max_ack_pending": pending,
        "inactive_threshold": _INACTIVE_NS,
    }
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        config["filter_subjects"] = list(filters)
    try:
        link.api(f"CONSUMER.CREATE.{stream}.{consumer}", {"stream_name": stream, "config": config})
    except ApiRefusal as error:
        raise Failure(f"creating the durable consumer '{consumer}': {error}") from error
    try:
        yield
    finally:
        _remove_unused(link, stream, consumer)


def _remove_unused(link: ClientLink, stream: str, consumer: str) -> None:
    """Without this the next run would find it used up, for as long as it may be idle.

    A pull of ours may be waiting still, until the server has noticed that we are gone.
    """
    try:
        for _ in range(_LOOKS):
            if not link.api(f"CONSUMER.INFO.{stream}.{consumer}").get("num_waiting"):
                link.api(f"CONSUMER.DELETE.{stream}.{consumer}")
                return
            link.idle(_LOOK_S)
    except ClientError:
        pass  # it is gone already, or the server is


def ordered_name() -> str:
    """A name for a consumer that nobody else has."""
    return f"bench-{secrets.token_hex(8)}"


def bucket_info(link: ClientLink, bucket: str) -> Reply:
    """The stream of a bucket that must be there.

    Raises:
        Failure: it is not.
    """
    try:
        return link.api(f"STREAM.INFO.KV_{checked(bucket)}")
    except ApiRefusal as error:
        if error.code != 404:
            raise
        raise Failure(f"there is no bucket {bucket!r}; `slipstream bench kv put` creates {BUCKET}") from error


def remove_bucket(link: ClientLink, bucket: str) -> None:
    """Remove a bucket if it is there."""
    try:
        link.api(f"STREAM.DELETE.KV_{checked(bucket)}")
    except ApiRefusal as error:
        if error.code != 404:
            raise


def create_bucket(link: ClientLink, bucket: str, *, history: int, storage: str, replicas: int, max_bytes: int) -> None:
    """Create a bucket; one with the same settings will do."""
    create_stream(
        link,
        {
            "name": f"KV_{checked(bucket)}",
            "description": "slipstream bench bucket",
            "subjects": [f"$KV.{bucket}.>"],
            "retention": "limits",
            "discard": "new",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": max_bytes,
            "max_msg_size": -1,
            "max_msgs_per_subject": history,
            "storage": storage,
            "num_replicas": replicas,
            "duplicate_window": 2 * MINUTE_NS,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
        },
    )


def checked(name: str) -> str:
    """A name that can be part of a subject."""
    if not name or any(letter in name for letter in " \t\r\n.*>/\\"):
        raise Failure(f"{name!r} cannot be the name of a stream, bucket or consumer")
    return name
