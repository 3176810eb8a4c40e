"""JetStream of one account: publish with an ack, and the way to streams, consumers, keys and objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipstream.buckets import bucket_config, is_bucket_name, object_config
from slipstream.client.options import ClientError, ClientTimeout, NoResponders
from slipstream.errors import UNREADABLE
from slipstream.sync.client import merged
from slipstream.sync.errors import JetStreamRefusal, refusal
from slipstream.sync.messages import Headers, Msg, duration_ns
from slipstream.sync.streams import StreamHandle, checked_name

if TYPE_CHECKING:
    from slipstream.sync.client import Client
    from slipstream.sync.kv import KeyValue
    from slipstream.sync.objects import ObjectBucket

__all__ = ["JetStream", "PubAck", "checked_bucket"]

_PAGES_MAX: Final = 100_000  # of one listing; more means that a server counts wrongly


@dataclass(frozen=True, slots=True)
class PubAck:
    """A message is stored."""

    stream: str
    seq: int
    duplicate: bool = False


class JetStream:
    """JetStream as one client sees it; `Client.jetstream` makes it."""

    def __init__(self, client: Client, prefix: str) -> None:
        """Nothing is asked yet."""
        self.client = client
        self.prefix = prefix

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Headers | None = None,
        msg_id: str = "",
        expect_stream: str = "",
        expect_last_seq: int | None = None,
        expect_last_subject_seq: int | None = None,
        ttl: timedelta | int = 0,
        timeout: timedelta | float = 0,
    ) -> PubAck:
        """Store a message; when this returns it is stored as the stream promises.

        Args:
            subject: one that a stream listens to.
            data: the payload.
            headers: further headers.
            msg_id: a message with an id that the stream knows is not stored again.
            expect_stream: refuse it if another stream would take it.
            expect_last_seq: refuse it if the stream's last sequence is another.
            expect_last_subject_seq: refuse it if the last sequence of this subject is another; 0 for none.
            ttl: forget it after this time, if the stream allows it; seconds.
            timeout: for the ack; seconds.

        Raises:
            WrongRevision: an expected sequence is not the last.
            JetStreamRefusal: the stream does not take it, or no stream does.
            ClientTimeout: no ack came in time; it may or may not be stored.
        """
        more = {"Nats-Msg-Id": msg_id, "Nats-Expected-Stream": expect_stream}
        if expect_last_seq is not None:
            more["Nats-Expected-Last-Sequence"] = str(expect_last_seq)
        if expect_last_subject_seq is not None:
            more["Nats-Expected-Last-Subject-Sequence"] = str(expect_last_subject_seq)
        if ttl:
            more["Nats-TTL"] = f"{duration_ns(ttl) // 1_000_000_000}s"
        headers = merged(headers, {name: value for name, value in more.items() if value})
        try:
            answer = self.client.request(subject, data, headers=headers, timeout=timeout)
        except NoResponders:
            raise JetStreamRefusal(f"no stream listens to {subject!r}", code=503) from None
        ack = _decoded(answer)
        return PubAck(str(ack.get("stream", "")), int(ack.get("seq", 0)), bool(ack.get("duplicate")))

    def create_stream(self, name: str, **config: Any) -> StreamHandle:
        """Create a stream; the fields are those of the JetStream API (`subjects`, `max_age`, `storage`, ...).

        Durations are nanoseconds or `timedelta`. Creating a stream that is there with the same configuration is fine.
        """
        made = self.stream(name)
        self.api(f"STREAM.CREATE.{name}", {"name": name, **_fields(config)})
        return made

    def update_stream(self, name: str, **config: Any) -> StreamHandle:
        """Change fields of a stream; what is not named stays."""
        changed = self.stream(name)
        found = self.api(f"STREAM.INFO.{name}")["config"]
        self.api(f"STREAM.UPDATE.{name}", {**found, **_fields(config)})
        return changed

    def delete_stream(self, name: str) -> None:
        """Delete a stream with its messages."""
        self.api(f"STREAM.DELETE.{checked_name(name, 'stream')}")

    def stream(self, name: str) -> StreamHandle:
        """A stream by its name; nothing is asked yet.

        Raises:
            ClientError: no stream can have this name.
        """
        return StreamHandle(self, checked_name(name, "stream"))

    def streams(self, subject: str = "") -> Iterator[StreamHandle]:
        """All streams, or those that listen to a subject."""
        for info in self.pages("STREAM.LIST", "streams", {"subject": subject} if subject else None):
            yield StreamHandle(self, info["config"]["name"], info)

    def account(self) -> dict[str, Any]:
        """What the account uses, and may use."""
        return self.api("INFO")

    def kv(self, bucket: str) -> KeyValue:
        """A bucket of keys and values; nothing is asked yet."""
        from slipstream.sync.kv import KeyValue

        return KeyValue(self, checked_bucket(bucket))

    def create_kv(self, bucket: str, **config: Any) -> KeyValue:
        """Create a bucket.

        `history` values are kept of each key (1 to 64), for `ttl` (seconds or `timedelta`); `limit_marker_ttl` allows
        keys with a time to live of their own. `max_value_size` and `max_bucket_size` are bytes. `description`,
        `storage`, `num_replicas` and others are fields of the stream.
        """
        self.api(f"STREAM.CREATE.KV_{checked_bucket(bucket)}", bucket_config(bucket, _fields(config)))
        return self.kv(bucket)

    def objects(self, bucket: str) -> ObjectBucket:
        """An object store; nothing is asked yet."""
        from slipstream.sync.objects import ObjectBucket

        return ObjectBucket(self, checked_bucket(bucket))

    def create_objects(self, bucket: str, **config: Any) -> ObjectBucket:
        """Create an object store; `ttl`, `max_bucket_size`, and fields of the stream as for `create_kv`."""
        self.api(f"STREAM.CREATE.OBJ_{checked_bucket(bucket)}", object_config(bucket, _fields(config)))
        return self.objects(bucket)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.prefix}>"

    def _repr_html_(self) -> str:
        from slipstream.sync.displays import streams_html

        return streams_html(self)

    # --- the API -----------------------------------------------------------------------------------------------------

    def api(self, verb: str, body: object = None, *, timeout: timedelta | float = 0) -> dict[str, Any]:
        """Ask the API itself: `api("STREAM.INFO.ORDERS")`.

        Raises:
            NoSuchItem: what was named is not there.
            JetStreamRefusal: it says no.
        """
        payload = b"" if body is None else msgspec.json.encode(body)
        try:
            return _decoded(self.client.request(f"{self.prefix}.{verb}", payload, timeout=timeout))
        except NoResponders:
            raise JetStreamRefusal("JetStream is not enabled for this account, or nowhere", code=503) from None
        except ClientTimeout:
            raise ClientTimeout(f"JetStream did not answer {verb} in time") from None

    def pages(self, verb: str, key: str, body: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The entries of a listing that the server hands out page by page."""
        offset = 0
        for _ in range(_PAGES_MAX):
            page = self.api(verb, {**(body or {}), "offset": offset})
            entries = page.get(key) or []
            yield from entries
            offset += len(entries)
            if not entries or offset >= page.get("total", 0):
                return


def checked_bucket(name: str) -> str:
    """The name of a bucket.

    Raises:
        ClientError: it cannot be one.
    """
    if not is_bucket_name(name):
        raise ClientError(f"{name!r} is no name of a bucket: letters, digits, _ and - are allowed")
    return name


def _fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields for the API; durations of Python become nanoseconds."""
    fields = {name: duration_ns(value) if isinstance(value, timedelta) else value for name, value in config.items()}
    for name in ("ttl", "limit_marker_ttl"):
        if isinstance(config.get(name), int | float):
            fields[name] = duration_ns(config[name])  # words of buckets, where everybody says seconds
    return fields


def _decoded(answer: Msg) -> dict[str, Any]:
    try:
        reply = answer.json()
    except UNREADABLE as error:
        raise ClientError(f"the server's answer is not JSON: {error}") from error
    if not isinstance(reply, dict):
        raise ClientError("the server's answer is not a JSON object")
    if reply.get("error"):
        raise refusal(reply["error"])
    return reply
