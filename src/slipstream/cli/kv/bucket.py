"""Buckets as all NATS clients agree on them: stream `KV_<bucket>`, subjects `$KV.<bucket>.<key>`.

A deletion is a message with the header `KV-Operation: DEL`; `PURGE` removes the history as well. A time to live ends
in a marker that the server writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from slipstream.cli.connection import Failure
from slipstream.cli.human import format_time
from slipstream.cli.link import Reply
from slipstream.cli.messages import Headers, decode_header, read_delivery
from slipstream.cli.stream_backed import StreamBacked

__all__ = ["Bucket", "KeyEntry", "NoSuchKey"]

_KEY: Final = re.compile(r"[-/_=.a-zA-Z0-9]+")
_PATTERN: Final = re.compile(r"[-/_=.a-zA-Z0-9*]*>?")


class NoSuchKey(Failure):
    """The key has no value."""


class KeyEntry(NamedTuple):
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


class Bucket(StreamBacked):
    """One bucket."""

    PREFIX = "KV_"
    SUBJECTS = "$KV"
    KIND = "bucket"
    TITLE = "Key-Value"

    def get(self, key: str, revision: int = 0) -> KeyEntry:
        """The newest value of a key, or the one of a revision.

        Raises:
            NoSuchKey: there is none, or it was deleted.
        """
        entry = self.last(key, revision)
        if entry is None or (entry.operation != "PUT" and not revision):
            raise NoSuchKey(f"{self.name} > {key} has no value")
        return entry

    def last(self, key: str, revision: int = 0) -> KeyEntry | None:
        """What is kept of a key last, deletions included."""
        wanted = {"seq": revision} if revision else {"last_by_subj": self._subject(key)}
        message = self._message(wanted)
        if message is None or message["subject"] != self._subject(key):
            return None
        operation = _operation(decode_header(message["hdrs"]))
        return KeyEntry(key, message["data"], message["seq"], format_time(message["time"]), operation)

    def publish(self, key: str, value: bytes, headers: Headers | None = None) -> int:
        """Store a value or a deletion and return its revision.

        Raises:
            ApiRefusal: the server refuses it, as when a condition does not hold.
        """
        return self._store(self._subject(key), value, headers or [])

    def read(self, pattern: str = ">", *, policy: str, values: bool = True) -> Iterator[KeyEntry]:
        """What is kept now, oldest first.

        Args:
            pattern: a key, or several by wildcards.
            policy: `all` for everything, `last_per_subject` for the newest of each key.
            values: False leaves the values out.
        """
        with self._feed(self._pattern(pattern), {"deliver_policy": policy, "headers_only": not values}) as feed:
            if not feed.pending:
                return
            for _, message in feed:
                yield self._entry(message)
                if not feed.pending:
                    return

    def watch(self, pattern: str, start: Reply) -> Iterator[KeyEntry]:
        """What is kept, from where the fields of a consumer say, and then what changes, without end."""
        with self._feed(self._pattern(pattern), start) as feed:
            for _, message in feed:
                yield self._entry(message)

    def _entry(self, message: Any) -> KeyEntry:
        delivery = read_delivery(message.reply)
        assert delivery is not None
        key = message.subject.removeprefix(f"$KV.{self.name}.")
        operation = _operation(decode_header(message.header))
        return KeyEntry(key, message.payload, delivery.stream_seq, delivery.time, operation)

    def _subject(self, key: str) -> str:
        if not _KEY.fullmatch(key) or key.startswith(".") or key.endswith(".") or ".." in key:
            raise Failure(f"{key!r} is no key: letters, digits and - / _ = . are allowed, no dot first or last")
        return f"$KV.{self.name}.{key}"

    def _pattern(self, keys: str) -> str:
        if not _PATTERN.fullmatch(keys):
            raise Failure(f"{keys!r} selects no keys")
        return f"$KV.{self.name}.{keys}"


def _operation(headers: Headers) -> str:
    fields = dict(headers)
    if "KV-Operation" in fields:
        return fields["KV-Operation"]
    reason = fields.get("Nats-Marker-Reason", "")
    return {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}.get(reason, "PUT")
