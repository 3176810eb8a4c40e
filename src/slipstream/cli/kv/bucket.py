"""Buckets as all NATS clients agree on them: stream `KV_<bucket>`, subjects `$KV.<bucket>.<key>`.

A deletion is a message with the header `KV-Operation: DEL`; `PURGE` removes the history as well. A time to live ends
in a marker that the server writes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_time
from slipstream.cli.link import ApiRefusal, Link, Reply, decoded
from slipstream.cli.messages import Headers, decode_header, encode_header, read_delivery
from slipstream.cli.pulling import Feed
from slipstream.client.wire import NoResponders

__all__ = ["PREFIX", "Bucket", "Entry", "NoSuchKey", "bucket_names", "checked_name"]

PREFIX: Final = "KV_"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_KEY: Final = re.compile(r"[-/_=.a-zA-Z0-9]+")
_PATTERN: Final = re.compile(r"[-/_=.a-zA-Z0-9*]*>?")
_NO_MESSAGE: Final = 10037
_NO_STREAM: Final = 10059


class NoSuchKey(Failure):
    """The key has no value."""


class Entry(NamedTuple):
    """A value that a key has, or had."""

    key: str
    value: bytes
    revision: int
    time: str
    operation: str  # PUT, DEL or PURGE

    def as_json(self, bucket: str) -> dict[str, Any]:
        """For programs; the value as text where it is text."""
        return {
            "bucket": bucket,
            "key": self.key,
            "value": self.value.decode(errors="replace"),
            "revision": self.revision,
            "created": self.time,
            "operation": self.operation,
        }


class Bucket:
    """One bucket."""

    def __init__(self, session: Session, name: str) -> None:
        """Name it; nothing is asked yet.

        Raises:
            Failure: the name cannot be one of a bucket.
        """
        self.name = checked_name(name)
        self.stream = f"{PREFIX}{name}"
        self._session = session

    @property
    def link(self) -> Link:
        """The connection."""
        return self._session.link()

    def info(self) -> Reply:
        """The stream's info.

        Raises:
            Failure: there is no such bucket.
        """
        try:
            return self.link.api(f"STREAM.INFO.{self.stream}")
        except ApiRefusal as error:
            raise self._explained(error) from error

    def get(self, key: str, revision: int = 0) -> Entry:
        """The newest value of a key, or the one of a revision.

        Raises:
            NoSuchKey: there is none, or it was deleted.
        """
        entry = self.last(key, revision)
        if entry is None or (entry.operation != "PUT" and not revision):
            raise NoSuchKey(f"{self.name} > {key} has no value")
        return entry

    def last(self, key: str, revision: int = 0) -> Entry | None:
        """What is kept of a key last, deletions included."""
        wanted = {"seq": revision} if revision else {"last_by_subj": self._subject(key)}
        try:
            message = self.link.api(f"STREAM.MSG.GET.{self.stream}", wanted)["message"]
        except ApiRefusal as error:
            if error.err_code == _NO_MESSAGE:
                return None
            raise self._explained(error) from error
        if message["subject"] != self._subject(key):
            return None
        headers = decode_header(base64.b64decode(message.get("hdrs", "")))
        value = base64.b64decode(message.get("data", ""))
        return Entry(key, value, message["seq"], format_time(message["time"]), _operation(headers))

    def publish(self, key: str, value: bytes, headers: Headers | None = None) -> int:
        """Store a value or a deletion and return its revision.

        Raises:
            ApiRefusal: the server refuses it, as when a condition does not hold.
        """
        try:
            answer = self.link.request(self._subject(key), value, header=encode_header(headers or []))
        except NoResponders:
            raise self._missing() from None
        revision: int = decoded(answer)["seq"]
        return revision

    def read(self, pattern: str = ">", *, policy: str, values: bool = True) -> Iterator[Entry]:
        """What is kept now, oldest first.

        Args:
            pattern: a key, or several by wildcards.
            policy: `all` for everything, `last_per_subject` for the newest of each key.
            values: False leaves the values out.
        """
        with self._feed(pattern, {"deliver_policy": policy, "headers_only": not values}) as feed:
            if not feed.pending:
                return
            for _, message in feed:
                yield self._entry(message)
                if not feed.pending:
                    return

    def watch(self, pattern: str, start: Reply) -> Iterator[Entry]:
        """What is kept, from where the fields of a consumer say, and then what changes, without end."""
        with self._feed(pattern, start) as feed:
            for _, message in feed:
                yield self._entry(message)

    @contextmanager
    def _feed(self, pattern: str, fields: Reply) -> Iterator[Feed]:
        if not _PATTERN.fullmatch(pattern):
            raise Failure(f"{pattern!r} selects no keys")
        feed = Feed(self._session, self.stream, config={"filter_subject": f"$KV.{self.name}.{pattern}", **fields})
        try:
            feed.open()
        except ApiRefusal as error:
            raise self._explained(error) from error
        try:
            yield feed
        finally:
            feed.close()

    def _entry(self, message: Any) -> Entry:
        delivery = read_delivery(message.reply)
        assert delivery is not None
        key = message.subject.removeprefix(f"$KV.{self.name}.")
        operation = _operation(decode_header(message.header))
        return Entry(key, message.payload, delivery.stream_seq, delivery.time, operation)

    def _subject(self, key: str) -> str:
        if not _KEY.fullmatch(key) or key.startswith(".") or key.endswith(".") or ".." in key:
            raise Failure(f"{key!r} is no key: letters, digits and - / _ = . are allowed, no dot first or last")
        return f"$KV.{self.name}.{key}"

    def _missing(self) -> Failure:
        return Failure(f"there is no bucket {self.name!r}")

    def _explained(self, error: ApiRefusal) -> Exception:
        return self._missing() if error.err_code == _NO_STREAM else error


def checked_name(name: str) -> str:
    """The name of a bucket.

    Raises:
        Failure: it cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise Failure(f"{name!r} is no name of a bucket: letters, digits, _ and - are allowed")
    return name


def bucket_names(link: Link) -> list[str]:
    """The names of all buckets."""
    names = link.api_pages("STREAM.NAMES", "streams", {"subject": "$KV.>"})
    return sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))


def _operation(headers: Headers) -> str:
    fields = dict(headers)
    if "KV-Operation" in fields:
        return fields["KV-Operation"]
    reason = fields.get("Nats-Marker-Reason", "")
    return {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}.get(reason, "PUT")
