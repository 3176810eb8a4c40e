"""Keys and values, as all NATS clients agree on them: stream `KV_<bucket>`, subjects `$KV.<bucket>.<key>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from slipstream.client.options import ClientError
from slipstream.sync.errors import KeyExists, NoSuchItem, WrongRevision
from slipstream.sync.messages import Delivered
from slipstream.sync.streams import StreamHandle

if TYPE_CHECKING:
    from slipstream.sync.jetstream import JetStream

__all__ = ["KeyValue", "KvEntry", "Operation"]

Operation = Literal["PUT", "DEL", "PURGE"]
_KEY: Final = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")
_PATTERN: Final = re.compile(r"[-/_=.a-zA-Z0-9*]*>?")
_MARKERS: Final[dict[str, Operation]] = {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}


@dataclass(frozen=True, slots=True)
class KvEntry:
    """A value that a key has, or had."""

    key: str
    value: bytes
    revision: int
    time: datetime
    operation: Operation = "PUT"

    @property
    def text(self) -> str:
        """The value as text."""
        return self.value.decode()


class KeyValue:
    """A bucket; `JetStream.kv` makes it. Also usable as a mapping of keys to bytes."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        """Nothing is asked yet."""
        self.bucket = bucket
        self._jetstream = jetstream
        self.stream = StreamHandle(jetstream, f"KV_{bucket}")

    def get(self, key: str, *, revision: int = 0) -> KvEntry:
        """The value of a key, or the one that it had at a revision.

        Raises:
            NoSuchItem: it has none.
        """
        entry = self._last(key, revision)
        if entry is None or entry.operation != "PUT":
            raise NoSuchItem(f"{self.bucket} > {key} has no value", code=404)
        return entry

    def put(self, key: str, value: bytes, *, ttl: timedelta | int = 0) -> int:
        """Set a key; its new revision."""
        return self._jetstream.publish(self._subject(key), value, ttl=ttl).seq

    def create(self, key: str, value: bytes, *, ttl: timedelta | int = 0) -> int:
        """Set a key that has no value.

        Raises:
            KeyExists: it has one.
        """
        subject = self._subject(key)
        try:
            return self._jetstream.publish(subject, value, expect_last_subject_seq=0, ttl=ttl).seq
        except WrongRevision as error:
            last = self._last(key)
            if last is not None and last.operation != "PUT":  # it was deleted
                try:
                    return self._jetstream.publish(subject, value, expect_last_subject_seq=last.revision, ttl=ttl).seq
                except WrongRevision:
                    pass  # and somebody was faster
            raise KeyExists(
                f"{self.bucket} > {key} has a value already", code=error.code, err_code=error.err_code
            ) from None

    def update(self, key: str, value: bytes, revision: int, *, ttl: timedelta | int = 0) -> int:
        """Set a key whose last revision is this one.

        Raises:
            WrongRevision: it was changed meanwhile.
        """
        return self._jetstream.publish(self._subject(key), value, expect_last_subject_seq=revision, ttl=ttl).seq

    def delete(self, key: str, *, revision: int | None = None) -> None:
        """Delete a key; its history stays. With `revision`, if that is its last one."""
        headers = {"KV-Operation": "DEL"}
        self._jetstream.publish(self._subject(key), headers=headers, expect_last_subject_seq=revision)

    def purge(self, key: str, *, revision: int | None = None) -> None:
        """Delete a key and its history."""
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        self._jetstream.publish(self._subject(key), headers=headers, expect_last_subject_seq=revision)

    def keys(self, pattern: str = ">") -> list[str]:
        """The keys that have a value and match."""
        found = self._read(pattern, deliver_policy="last_per_subject", headers_only=True)
        return [entry.key for entry in found if entry.operation == "PUT"]

    def newest(self, pattern: str = ">") -> Iterator[KvEntry]:
        """The keys that have a value and match, with it; read as they are used."""
        found = self._read(pattern, deliver_policy="last_per_subject")
        return (entry for entry in found if entry.operation == "PUT")

    def history(self, key: str) -> list[KvEntry]:
        """What is kept of a key, oldest first, deletions included.

        Raises:
            NoSuchItem: nothing.
        """
        self._subject(key)
        entries = list(self._read(key))
        if not entries:
            raise NoSuchItem(f"{self.bucket} > {key} has no value", code=404)
        return entries

    def watch(
        self,
        pattern: str = ">",
        *,
        history: bool = False,
        updates_only: bool = False,
        timeout: timedelta | float | None = None,
    ) -> Iterator[KvEntry]:
        """The values that match, and then their changes as they happen, deletions included.

        Without end, or until nothing happens for `timeout` seconds. `history` begins with everything that is kept,
        `updates_only` with the next change.
        """
        if history and updates_only:
            raise ClientError("a watch begins with the history or with updates, not with both")
        policy = "all" if history else "new" if updates_only else "last_per_subject"
        return self._read(pattern, deliver_policy=policy, follow=True, timeout=timeout)

    def status(self) -> dict[str, Any]:
        """The stream of the bucket, as the API has it.

        Raises:
            NoSuchItem: there is no such bucket.
        """
        return self.stream.info()

    def __getitem__(self, key: str) -> bytes:
        return self.get(key).value

    def __setitem__(self, key: str, value: bytes) -> None:
        self.put(key, value)

    def __delitem__(self, key: str) -> None:
        self.get(key)  # as of a dict: what is not there cannot be deleted
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        entry = self._last(key) if isinstance(key, str) else None
        return entry is not None and entry.operation == "PUT"

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bucket}>"

    def _repr_html_(self) -> str:
        from slipstream.sync.displays import bucket_html

        return bucket_html(self)

    def _last(self, key: str, revision: int = 0) -> KvEntry | None:
        subject = self._subject(key)
        try:
            message = self.stream.get(revision) if revision else self.stream.last(subject)
        except NoSuchItem as error:
            if error.err_code == 10037:  # no message, in a bucket that is there
                return None
            raise
        return self._entry(message) if message.subject == subject else None

    def _read(self, pattern: str, **how: Any) -> Iterator[KvEntry]:
        if not _PATTERN.fullmatch(pattern) or not pattern:
            raise ClientError(f"{pattern!r} selects no keys")
        for message in self.stream.read(subjects=f"$KV.{self.bucket}.{pattern}", **how):
            yield self._entry(message)

    def _entry(self, message: Delivered) -> KvEntry:
        key = message.subject.removeprefix(f"$KV.{self.bucket}.")
        marker = _MARKERS.get(message.header("Nats-Marker-Reason") or "", "PUT")
        operation = cast(Operation, message.header("KV-Operation") or marker)
        return KvEntry(key, message.data, message.seq, message.time, operation)

    def _subject(self, key: str) -> str:
        if not _KEY.fullmatch(key):
            raise ClientError(f"{key!r} is no key: letters, digits and - / _ = . are allowed, no dot first or last")
        return f"$KV.{self.bucket}.{key}"
