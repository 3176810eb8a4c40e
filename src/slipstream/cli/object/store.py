"""Object stores as all NATS clients agree on them: stream `OBJ_<store>`.

The chunks of an object are messages on `$O.<store>.C.<id>`; what it is called, its size and its digest are one message
on `$O.<store>.M.<name in base64>`, which replaces the one before. Chunks come first, so that an object which is
described is whole; chunks of a replaced object are purged afterwards.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from slipstream.cli.connection import Failure, Session
from slipstream.cli.link import ApiRefusal, Link, Reply, decoded
from slipstream.cli.messages import encode_header
from slipstream.cli.pulling import Feed
from slipstream.client.wire import NoResponders

__all__ = ["PREFIX", "ObjectStore", "store_names"]

PREFIX: Final = "OBJ_"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NO_MESSAGE: Final = 10037
_NO_STREAM: Final = 10059


class ObjectStore:
    """One store."""

    def __init__(self, session: Session, name: str) -> None:
        """Name it; nothing is asked yet.

        Raises:
            Failure: the name cannot be one of a store.
        """
        if not _NAME.fullmatch(name):
            raise Failure(f"{name!r} is no name of an object store: letters, digits, _ and - are allowed")
        self.name = name
        self.stream = f"{PREFIX}{name}"
        self._session = session

    @property
    def link(self) -> Link:
        """The connection."""
        return self._session.link()

    def info(self) -> Reply:
        """The stream's info.

        Raises:
            Failure: there is no such store.
        """
        try:
            return self.link.api(f"STREAM.INFO.{self.stream}")
        except ApiRefusal as error:
            raise self._explained(error) from error

    def chunk_subject(self, identity: str) -> str:
        """Where the chunks of an object are."""
        return f"$O.{self.name}.C.{identity}"

    def find(self, name: str) -> Reply | None:
        """The description of an object, a deleted one included."""
        try:
            wanted = {"last_by_subj": self._meta_subject(name)}
            message = self.link.api(f"STREAM.MSG.GET.{self.stream}", wanted)["message"]
        except ApiRefusal as error:
            if error.err_code == _NO_MESSAGE:
                return None
            raise self._explained(error) from error
        return {**_described(base64.b64decode(message.get("data", ""))), "mtime": message["time"]}

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
        self._request(self._meta_subject(meta["name"]), json.dumps(meta).encode(), rollup=True)

    def add_chunk(self, identity: str, chunk: bytes) -> None:
        """Store a chunk."""
        self._request(self.chunk_subject(identity), chunk)

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
        config = {"filter_subject": self.chunk_subject(meta["nuid"])}
        with Feed(self._session, self.stream, config=config) as feed:
            for _, message in feed if feed.pending else ():
                seen += 1
                yield message.payload
                if not feed.pending:
                    break
        if seen != expected:
            raise Failure(f"{meta['name']!r} is damaged: {seen} of {expected} chunks are there")

    def objects(self, *, watch: bool = False, updates_only: bool = False) -> Iterator[Reply]:
        """The descriptions of all objects; with `watch` also changes, without end."""
        config = {
            "filter_subject": f"$O.{self.name}.M.>",
            "deliver_policy": "new" if updates_only else "last_per_subject",
        }
        feed = Feed(self._session, self.stream, config=config)
        try:
            feed.open()
        except ApiRefusal as error:
            raise self._explained(error) from error
        try:
            if not (watch or feed.pending):
                return
            for _, message in feed:
                yield _described(message.payload)
                if not (watch or feed.pending):
                    return
        finally:
            feed.close()

    def _request(self, subject: str, payload: bytes, *, rollup: bool = False) -> None:
        header = encode_header([("Nats-Rollup", "sub")] if rollup else [])
        try:
            decoded(self.link.request(subject, payload, header=header))
        except NoResponders:
            raise self._missing() from None

    def _meta_subject(self, name: str) -> str:
        if not name:
            raise Failure("an object needs a name")
        return f"$O.{self.name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def _missing(self) -> Failure:
        return Failure(f"there is no object store {self.name!r}")

    def _explained(self, error: ApiRefusal) -> Exception:
        return self._missing() if error.err_code == _NO_STREAM else error


def store_names(link: Link) -> list[str]:
    """The names of all stores."""
    names = link.api_pages("STREAM.NAMES", "streams", {"subject": "$O.>"})
    return sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))


def _described(payload: bytes) -> Reply:
    try:
        meta: Any = json.loads(payload)
    except ValueError as error:
        raise Failure(f"the description of an object cannot be read: {error}") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise Failure("the description of an object has no name")
    return meta
