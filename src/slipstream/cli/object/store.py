"""Object stores as all NATS clients agree on them: stream `OBJ_<store>`.

The chunks of an object are messages on `$O.<store>.C.<id>`; what it is called, its size and its digest are one message
on `$O.<store>.M.<name in base64>`, which replaces the one before. Chunks come first, so that an object which is
described is whole; chunks of a replaced object are purged afterwards.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from slipstream.cli.connection import Failure
from slipstream.cli.link import Reply
from slipstream.cli.stream_backed import StreamBacked

__all__ = ["ObjectStore"]


class ObjectStore(StreamBacked):
    """One store."""

    PREFIX = "OBJ_"
    SUBJECTS = "$O"
    KIND = "object store"
    TITLE = "Object Store"

    def chunk_subject(self, identity: str) -> str:
        """Where the chunks of an object are."""
        return f"$O.{self.name}.C.{identity}"

    def find(self, name: str) -> Reply | None:
        """The description of an object, a deleted one included."""
        message = self._message({"last_by_subj": self._meta_subject(name)})
        return None if message is None else {**_described(message["data"]), "mtime": message["time"]}

    def get(self, name: str) -> Reply:
        """The description of an object.

        Raises:
            Failure: there is none.
        """
        found = self.find(name)
        if found is None or found.get("deleted"):
            raise Failure(f"there is no object {name!r} in {self.name}")
        return found

    def describe(self, meta: Reply) -> None:
        """Store the description of an object; this makes it visible."""
        self._store(self._meta_subject(meta["name"]), json.dumps(meta).encode(), [("Nats-Rollup", "sub")])

    def add_chunk(self, identity: str, chunk: bytes) -> None:
        """Store a chunk."""
        self._store(self.chunk_subject(identity), chunk, [])

    def drop_chunks(self, identity: str) -> None:
        """Remove the chunks of an object."""
        self.link.api(f"STREAM.PURGE.{self.stream}", {"filter": self.chunk_subject(identity)})

    def delete(self, meta: Reply) -> None:
        """Delete an object."""
        self.describe({**meta, "deleted": True, "size": 0, "chunks": 0, "digest": ""})
        self.drop_chunks(meta["nuid"])

    def chunks(self, meta: Reply) -> Iterator[bytes]:
        """The bytes of an object, chunk by chunk.

        Raises:
            Failure: some are missing.
        """
        expected, seen = meta.get("chunks", 0), 0
        if not expected:
            return
        with self._feed(self.chunk_subject(meta["nuid"]), {}) as feed:
            for _, message in feed if feed.pending else ():
                seen += 1
                yield message.payload
                if not feed.pending:
                    break
        if seen != expected:
            raise Failure(f"{meta['name']!r} is damaged: {seen} of {expected} chunks are there")

    def objects(self, *, watch: bool = False, updates_only: bool = False) -> Iterator[Reply]:
        """The descriptions of all objects; with `watch` also changes, without end."""
        policy = "new" if updates_only else "last_per_subject"
        with self._feed(f"$O.{self.name}.M.>", {"deliver_policy": policy}) as feed:
            if not (watch or feed.pending):
                return
            for _, message in feed:
                yield _described(message.payload)
                if not (watch or feed.pending):
                    return

    def _meta_subject(self, name: str) -> str:
        if not name:
            raise Failure("an object needs a name")
        return f"$O.{self.name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _described(payload: bytes) -> Reply:
    try:
        meta: Any = json.loads(payload)
    except ValueError as error:
        raise Failure(f"the description of an object cannot be read: {error}") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise Failure("the description of an object has no name")
    return meta
