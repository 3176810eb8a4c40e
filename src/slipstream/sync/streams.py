"""One stream: its messages from any place, its consumers, and what its owner does with it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipstream.client.ephemeral import ephemeral_config
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.protocol.headers import parse_headers
from slipstream.sync.client import Listener
from slipstream.sync.messages import Delivered, delivered, duration_ns, status_of
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.sync.consumers import PullConsumer
    from slipstream.sync.jetstream import JetStream

__all__ = ["StreamHandle", "checked_name"]

_BATCH: Final = 200  # messages of one request of a reader
_EXPIRES_NS: Final = 30 * SECOND_NS  # of one request of a reader that waits for news
_IDLE_NS: Final = 60 * SECOND_NS  # a reader's consumer outlives short pauses; after long ones it is made again
_NOTHING_HERE: Final = (404, 408)  # what ends a request without messages
_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f\0.*>\\/")  # a name is a word of a subject, and may be one of a path


def checked_name(name: str, what: str) -> str:
    """The name of a stream or a consumer.

    Raises:
        ClientError: it cannot be one; asked for, it would be another subject, which nobody may answer on.
    """
    if not name or _NOT_IN_NAMES.intersection(name):
        raise ClientError(f"{name!r} is no name of a {what}: blanks and any of . * > / \\ are not allowed")
    return name


class StreamHandle:
    """A stream by its name; `JetStream.stream` makes it."""

    def __init__(self, jetstream: JetStream, name: str, info: dict[str, Any] | None = None) -> None:
        """Nothing is asked yet."""
        self.jetstream = jetstream
        self.name = name
        self._info = info

    def info(self) -> dict[str, Any]:
        """Configuration and state now, as the API has them.

        Raises:
            NoSuchItem: there is no such stream.
        """
        self._info = self.jetstream.api(f"STREAM.INFO.{self.name}")
        return self._info

    def __len__(self) -> int:
        """Messages in it now."""
        return int(self.info()["state"]["messages"])

    def __bool__(self) -> bool:
        """A handle is something, also of an empty stream."""
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _repr_html_(self) -> str:
        from slipstream.sync.displays import stream_html

        return stream_html(self)

    def latest(self) -> dict[str, Any]:
        """The info that was got last, by a listing or by asking; asked for if there is none."""
        return self._info or self.info()

    def get(self, seq: int) -> Delivered:
        """The message with this sequence.

        Raises:
            NoSuchItem: there is none.
        """
        return self._stored({"seq": seq})

    def last(self, subject: str = ">") -> Delivered:
        """The newest message, of a subject or of all.

        Raises:
            NoSuchItem: there is none.
        """
        return self._stored({"last_by_subj": subject})

    def read(
        self,
        *,
        seq: int = 0,
        time: datetime | None = None,
        last: int = 0,
        subjects: str | Sequence[str] = (),
        follow: bool = False,
        timeout: timedelta | float | None = None,
        **consumer: Any,
    ) -> Iterator[Delivered]:
        """Messages in order, from the first one if nothing else is said. Nothing is acknowledged or remembered.

        Args:
            seq: from this sequence.
            time: from this time; without a zone it is local.
            last: the newest so many, counted by sequence.
            subjects: only these; patterns are allowed.
            follow: go on with what is stored later, without end; otherwise what is there now ends it.
            timeout: with `follow`, end when nothing comes for so many seconds.
            consumer: further fields of the consumer that reads, such as `headers_only=True`.

        Raises:
            NoSuchItem: there is no such stream; also while it is read, if it is deleted.
        """
        if sum((seq > 0, time is not None, last > 0)) > 1:
            raise ClientError("a place to begin is one of seq, time and last")
        if seq < 0 or last < 0:
            raise ClientError("sequences and counts are not negative")
        config: dict[str, Any] = dict(consumer)
        if last:
            seq = max(int(self.info()["state"]["last_seq"]) - last + 1, 1)
        if seq:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": seq}
        elif time is not None:
            moment = time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            config |= {"deliver_policy": "by_start_time", "opt_start_time": moment}
        wanted = [subjects] if isinstance(subjects, str) else list(subjects)
        if len(wanted) == 1:
            config["filter_subject"] = wanted[0]
        elif wanted:
            config["filter_subjects"] = wanted
        return _Reading(self, config, follow=follow, timeout=timeout).messages()

    def consumer(self, name: str) -> PullConsumer:
        """A consumer by its name; nothing is asked yet.

        Raises:
            ClientError: no consumer can have this name.
        """
        from slipstream.sync.consumers import PullConsumer

        return PullConsumer(self, checked_name(name, "consumer"))

    def create_consumer(self, name: str, **config: Any) -> PullConsumer:
        """Create a durable pull consumer, or change it; fields as in the API (`filter_subject`, `ack_wait`, ...).

        Durations are nanoseconds or `timedelta`; acks are explicit unless something else is said.
        """
        fields = {key: duration_ns(value) if isinstance(value, timedelta) else value for key, value in config.items()}
        body = {"stream_name": self.name, "config": {"durable_name": name, "ack_policy": "explicit", **fields}}
        made = self.consumer(name)
        self.jetstream.api(f"CONSUMER.CREATE.{self.name}.{name}", body)
        return made

    def consumers(self) -> Iterator[PullConsumer]:
        """All consumers."""
        for name in self.jetstream.pages(f"CONSUMER.NAMES.{self.name}", "consumers"):
            yield self.consumer(name)

    def purge(self, *, subject: str = "", keep: int = 0, before: int = 0) -> int:
        """Remove messages: all, those of a subject, all but the newest `keep`, or those before a sequence.

        Returns:
            How many there were.
        """
        wanted = {"filter": subject, "keep": keep, "seq": before}
        body = {key: value for key, value in wanted.items() if value}
        return int(self.jetstream.api(f"STREAM.PURGE.{self.name}", body or None)["purged"])

    def delete_message(self, seq: int) -> None:
        """Remove one message."""
        self.jetstream.api(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq})

    def delete(self) -> None:
        """Delete the stream with its messages."""
        self.jetstream.delete_stream(self.name)

    def _stored(self, wanted: dict[str, Any]) -> Delivered:
        message = self.jetstream.api(f"STREAM.MSG.GET.{self.name}", wanted)["message"]
        return Delivered(
            message["subject"],
            b64decode(message.get("data", "")),
            parse_headers(b64decode(message.get("hdrs", ""))),
            stream=self.name,
            seq=message["seq"],
            time_ns=_nanoseconds(message["time"]),
        )


class _Reading:
    """One walk through a stream, by an ephemeral consumer; one that is gone is made again behind the last message."""

    def __init__(
        self, stream: StreamHandle, config: dict[str, Any], *, follow: bool, timeout: timedelta | float | None
    ) -> None:
        self._stream = stream
        self._jetstream = stream.jetstream
        self._config = config
        self._follow = follow
        self._timeout_ns = None if timeout is None else duration_ns(timeout)
        self._name = ""
        self._pending = 0
        self._last_seq = 0

    def messages(self) -> Iterator[Delivered]:
        self._make()
        if not (self._follow or self._pending):
            self._end(None)
            return
        client = self._jetstream.client
        listener = Listener(client, client.new_inbox())
        try:
            while True:
                got = 0
                for message in self._batch(listener):
                    got += 1
                    self._last_seq = message.seq
                    yield message
                    if not self._follow and not message.pending:
                        return
                if not got and self._follow and self._timeout_ns is not None:
                    return
        finally:
            self._end(listener)

    def _batch(self, listener: Listener) -> Iterator[Delivered]:
        """The messages of one request; less than asked for at the end of the stream or when the consumer is gone."""
        client = self._jetstream.client
        expires_ns = min(self._timeout_ns or _EXPIRES_NS, _EXPIRES_NS) if self._follow else client.timeout_ns
        body = msgspec.json.encode({"batch": _BATCH, "expires": expires_ns})
        client.publish(
            f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{self._stream.name}.{self._name}", body, reply=listener.subject
        )
        for _ in range(_BATCH):
            try:
                message = listener.next_raw(expires_ns + client.timeout_ns)
            except ClientTimeout:
                self._make()  # whoever had the request is gone
                return
            status = status_of(message)
            if status == 100:
                continue
            if status:
                if status not in _NOTHING_HERE:
                    self._make()
                return
            yield delivered(client, message)

    def _make(self) -> None:
        config = ephemeral_config(self._config, self._last_seq, _IDLE_NS)
        name = self._stream.name
        info = self._jetstream.api(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
        self._name, self._pending = info["name"], info["num_pending"]

    def _end(self, listener: Listener | None) -> None:
        with suppress(ClientError):  # it goes by itself after a while
            if listener is not None:
                listener.close()
            self._jetstream.api(f"CONSUMER.DELETE.{self._stream.name}.{self._name}")


def _nanoseconds(text: str) -> int:
    """A time of the API as nanoseconds since 1970."""
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    return int(seconds) * SECOND_NS + int((rest or "0").ljust(9, "0")[:9])
