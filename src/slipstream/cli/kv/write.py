"""Changing keys."""

from __future__ import annotations

import sys

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_duration
from slipstream.cli.kv.bucket import Bucket
from slipstream.cli.link import ApiRefusal
from slipstream.cli.messages import Headers
from slipstream.cli.prompts import can_ask, confirm_or_stop
from slipstream.cli.render import say
from slipstream.cli.types import DURATION, force_flag
from slipstream.units import SECOND_NS

__all__ = ["create", "delete", "purge", "put", "revert", "update"]

_WRONG_SEQUENCE = 10071
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@click.argument("value", required=False)
@click.pass_obj
def put(session: Session, bucket: str, key: str, value: str | None) -> None:
    """Set KEY of BUCKET to VALUE; without VALUE standard input is read."""
    content = _content(value)
    Bucket(session, bucket).publish(key, content)
    click.echo(content.decode(errors="replace"))


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@click.argument("value", required=False)
@click.option("--ttl", type=DURATION, default=0, help="Forget it after this long; needs a bucket with --marker-ttl.")
@click.pass_obj
def create(session: Session, bucket: str, key: str, value: str | None, ttl: int) -> None:
    """Set KEY of BUCKET to VALUE if it has no value."""
    target = Bucket(session, bucket)
    content = _content(value)
    headers = _time_to_live(ttl)
    try:
        target.publish(key, content, [(_EXPECTED, "0"), *headers])
    except ApiRefusal as error:
        last = target.last(key) if error.err_code == _WRONG_SEQUENCE else None
        if last is None or last.operation == "PUT":
            raise _changed(error, f"{bucket} > {key} has a value already") from error
        target.publish(key, content, [(_EXPECTED, str(last.revision)), *headers])  # it was deleted
    click.echo(content.decode(errors="replace"))


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@click.argument("value")
@click.argument("revision", type=click.IntRange(min=0), default=0)
@click.pass_obj
def update(session: Session, bucket: str, key: str, value: str, revision: int) -> None:
    """Set KEY of BUCKET to VALUE if its last revision is REVISION."""
    try:
        Bucket(session, bucket).publish(key, value.encode(), [(_EXPECTED, str(revision))])
    except ApiRefusal as error:
        there = error.description.removeprefix("wrong last sequence: ")
        raise _changed(error, f"{bucket} > {key} is at revision {there}, not {revision}") from error
    click.echo(value)


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@click.argument("revision", type=click.IntRange(min=1))
@force_flag
@click.pass_obj
def revert(session: Session, bucket: str, key: str, revision: int, force: bool) -> None:
    """Set KEY of BUCKET to the value that it had at REVISION."""
    target = Bucket(session, bucket)
    old, last = target.get(key, revision), target.last(key)
    assert last is not None
    if old.operation != "PUT":
        raise Failure(f"{bucket} > {key} was deleted by revision {revision}")
    confirm_or_stop(f"Set {bucket} > {key} to {old.value.decode(errors='replace')!r}", force=force)
    try:
        target.publish(key, old.value, [(_EXPECTED, str(last.revision))])
    except ApiRefusal as error:
        raise _changed(error, f"{bucket} > {key} was changed meanwhile") from error
    click.echo(old.value.decode(errors="replace"))


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key", required=False)
@force_flag
@click.pass_obj
def delete(session: Session, bucket: str, key: str | None, force: bool) -> None:
    """Delete KEY of BUCKET, its history stays; without KEY delete the bucket."""
    target = Bucket(session, bucket)
    if key is not None:
        confirm_or_stop(f"Delete key {bucket} > {key}", force=force)
        target.publish(key, b"", [("KV-Operation", "DEL")])
        say(f"Key {bucket} > {key} was deleted")
        return
    target.info()
    confirm_or_stop(f"Delete bucket {bucket} with all its values", force=force)
    target.link.api(f"STREAM.DELETE.{target.stream}")
    say(f"Bucket {bucket} was deleted")


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("key")
@click.option(
    "--ttl", type=DURATION, default=0, help="Forget the marker after this long; needs a bucket with --marker-ttl."
)
@force_flag
@click.pass_obj
def purge(session: Session, bucket: str, key: str, ttl: int, force: bool) -> None:
    """Delete KEY of BUCKET and its history."""
    target = Bucket(session, bucket)
    headers: Headers = [("KV-Operation", "PURGE"), ("Nats-Rollup", "sub"), *_time_to_live(ttl)]
    confirm_or_stop(f"Purge key {bucket} > {key}", force=force)
    target.publish(key, b"", headers)
    say(f"Key {bucket} > {key} was purged")


def _time_to_live(ttl_ns: int) -> Headers:
    if ttl_ns % SECOND_NS:
        raise Failure(f"a time to live has whole seconds: {format_duration(ttl_ns)}")
    return [("Nats-TTL", f"{ttl_ns // SECOND_NS}s")] if ttl_ns else []


def _content(value: str | None) -> bytes:
    if value is not None:
        return value.encode()
    if can_ask():
        raise Failure("VALUE is needed, or standard input with it")
    return sys.stdin.buffer.read()


def _changed(error: ApiRefusal, text: str) -> Exception:
    return Failure(text) if error.err_code == _WRONG_SEQUENCE else error
