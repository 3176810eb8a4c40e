"""Objects of any size, as all NATS clients agree on them: stream `OBJ_<store>`.

The chunks of an object are messages on `$O.<store>.C.<id>`; its name, size and digest are one message on
`$O.<store>.M.<name in base64>`, which replaces the one before. Chunks come first, so that an object which is described
is whole; those of a replaced object are removed afterwards.
"""

from __future__ import annotations

import base64
import hashlib
import io
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

import msgspec

from slipstream.client.options import ClientError
from slipstream.errors import UNREADABLE
from slipstream.sync.errors import NoSuchItem
from slipstream.sync.streams import StreamHandle

if TYPE_CHECKING:
    from slipstream.sync.jetstream import JetStream

__all__ = ["ObjectBucket", "ObjectFacts"]

_CHUNK_BYTES: Final = 128 * 1024  # what all clients use


class _Options(msgspec.Struct, omit_defaults=True):
    max_chunk_size: int = 0
    link: dict[str, str] | None = None


class ObjectFacts(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """What is known of an object; the fields are those of its description."""

    name: str
    bucket: str = ""
    nuid: str = ""
    description: str = ""
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}
    options: _Options | None = None


class ObjectBucket:
    """An object store; `JetStream.objects` makes it."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        """Nothing is asked yet."""
        self.bucket = bucket
        self._jetstream = jetstream
        self.stream = StreamHandle(jetstream, f"OBJ_{bucket}")

    def put(self, name: str, data: bytes | IO[bytes], *, description: str = "") -> ObjectFacts:
        """Store an object, from bytes or from an open file; one of the same name is replaced when it is whole."""
        old = self._find(name)
        nuid, digest, size, chunks = secrets.token_hex(11), hashlib.sha256(), 0, 0
        source = io.BytesIO(data) if isinstance(data, bytes | bytearray | memoryview) else data
        try:
            while chunk := source.read(_CHUNK_BYTES):
                self._jetstream.publish(f"$O.{self.bucket}.C.{nuid}", chunk)
                digest.update(chunk)
                size += len(chunk)
                chunks += 1
            facts = ObjectFacts(
                name=name,
                bucket=self.bucket,
                nuid=nuid,
                description=description,
                size=size,
                chunks=chunks,
                digest=_digest_text(digest.digest()),
                options=_Options(_CHUNK_BYTES),
            )
            self._describe(facts)
        except BaseException:
            with suppress(ClientError):
                self._drop(nuid)  # nobody would ever find them
            raise
        if old is not None:
            self._drop(old.nuid)
        return facts

    def get(self, name: str) -> bytes:
        """An object as bytes; its digest is checked.

        Raises:
            NoSuchItem: there is none.
            ClientError: it is damaged.
        """
        return b"".join(self.chunks(name))

    def read_into(self, name: str, sink: IO[bytes]) -> ObjectFacts:
        """Write an object to an open file. If it is damaged that is known only at its end."""
        for chunk in self.chunks(name):
            sink.write(chunk)
        return self.info(name)

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece; at the end its digest is checked."""
        facts = self.info(name)
        if facts.options is not None and facts.options.link:
            raise ClientError(f"{name!r} is a link to another object")
        digest, seen = hashlib.sha256(), 0
        for message in self.stream.read(subjects=f"$O.{self.bucket}.C.{facts.nuid}") if facts.chunks else ():
            digest.update(message.data)
            seen += 1
            yield message.data
        if seen != facts.chunks:
            raise ClientError(f"{name!r} is damaged: {seen} of {facts.chunks} chunks are there")
        if facts.digest and facts.digest.rstrip("=") != _digest_text(digest.digest()).rstrip("="):
            raise ClientError(f"{name!r} is damaged: its digest is another one")

    def info(self, name: str) -> ObjectFacts:
        """What is known of an object.

        Raises:
            NoSuchItem: there is none.
        """
        facts = self._find(name)
        if facts is None or facts.deleted:
            raise NoSuchItem(f"there is no object {name!r} in {self.bucket}", code=404)
        return facts

    def list(self) -> list[ObjectFacts]:
        """All objects."""
        messages = self.stream.read(subjects=f"$O.{self.bucket}.M.>", deliver_policy="last_per_subject")
        found = [_facts(message.data) for message in messages]
        return [facts for facts in found if not facts.deleted]

    def delete(self, name: str) -> None:
        """Delete an object.

        Raises:
            NoSuchItem: there is none.
        """
        facts = self.info(name)
        gone = msgspec.structs.replace(facts, deleted=True, size=0, chunks=0, digest="")
        self._describe(gone)
        self._drop(facts.nuid)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bucket}>"

    def _repr_html_(self) -> str:
        from slipstream.sync.displays import objects_html

        return objects_html(self)

    def _find(self, name: str) -> ObjectFacts | None:
        try:
            return _facts(self.stream.last(self._meta_subject(name)).data)
        except NoSuchItem as error:
            if error.err_code == 10037:  # no message, in a store that is there
                return None
            raise

    def _describe(self, facts: ObjectFacts) -> None:
        subject = self._meta_subject(facts.name)
        self._jetstream.publish(subject, msgspec.json.encode(facts), headers={"Nats-Rollup": "sub"})

    def _drop(self, nuid: str) -> None:
        self.stream.purge(subject=f"$O.{self.bucket}.C.{nuid}")

    def _meta_subject(self, name: str) -> str:
        if not name:
            raise ClientError("an object needs a name")
        return f"$O.{self.bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _facts(payload: bytes) -> ObjectFacts:
    try:
        return msgspec.json.decode(payload, type=ObjectFacts)
    except UNREADABLE as error:
        raise ClientError(f"the description of an object cannot be read: {error}") from error


def _digest_text(digest: bytes) -> str:
    return f"SHA-256={base64.urlsafe_b64encode(digest).decode()}"
