"""Pull consumers: take messages, acknowledge them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipstream.client.options import ClientError, ClientTimeout
from slipstream.sync.client import Listener
from slipstream.sync.errors import JetStreamRefusal, NoSuchItem
from slipstream.sync.messages import Delivered, delivered, duration_ns, status_of
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.sync.streams import StreamHandle

__all__ = ["PullConsumer"]

_BATCH: Final = 100
_EXPIRES_MAX_NS: Final = 30 * SECOND_NS  # of one request; longer waits are several
_NOTHING_HERE: Final = (404, 408)
_NO_RESPONDERS: Final = 503


class PullConsumer:
    """A consumer by its name; `StreamHandle.consumer` makes it."""

    def __init__(self, stream: StreamHandle, name: str) -> None:
        """Nothing is asked yet."""
        self.stream = stream
        self.name = name
        self._jetstream = stream.jetstream

    def info(self) -> dict[str, Any]:
        """Configuration and state now, as the API has them.

        Raises:
            NoSuchItem: there is no such consumer.
        """
        return self._jetstream.api(f"CONSUMER.INFO.{self.stream.name}.{self.name}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.stream.name} > {self.name}>"

    def fetch(self, count: int = 1, *, timeout: timedelta | float = 5.0) -> list[Delivered]:
        """Up to `count` messages: what is there; if there is nothing, wait for the first one.

        Returns:
            None at all if nothing came in time.

        Raises:
            NoSuchItem: the consumer is gone.
            JetStreamRefusal: it cannot be used so, as when it pushes, or too much is not acknowledged.
        """
        if count < 1:
            raise ClientError("at least one message is fetched")
        client = self._jetstream.client
        with Listener(client, client.new_inbox()) as listener:
            found = self._take(listener, count, 0)
            deadline = monotonic_ns() + duration_ns(timeout)
            while not found and (left_ns := deadline - monotonic_ns()) > 0:
                # One only: what would come for a longer request after the first one would lie in an inbox that is gone.
                found = self._take(listener, 1, min(left_ns, _EXPIRES_MAX_NS))
                if found and count > 1:
                    found += self._take(listener, count - 1, 0)
        return found

    def messages(self, *, batch: int = _BATCH, timeout: timedelta | float | None = None) -> Iterator[Delivered]:
        """Messages one after the other, without end, or until nothing comes for so many seconds.

        Messages that were fetched and not handed out when the caller stops are given back.
        """
        waiting: list[Delivered] = []
        try:
            while True:
                waiting = self.fetch(batch, timeout=3600 if timeout is None else timeout)
                if not waiting and timeout is not None:
                    return
                while waiting:
                    yield waiting.pop(0)
        finally:
            for message in waiting:
                message.nak()

    def __iter__(self) -> Iterator[Delivered]:
        """Messages without end."""
        return self.messages()

    def delete(self) -> None:
        """Delete the consumer."""
        self._jetstream.api(f"CONSUMER.DELETE.{self.stream.name}.{self.name}")

    def _take(self, listener: Listener, count: int, wait_ns: int) -> list[Delivered]:
        """The messages of one request."""
        client = self._jetstream.client
        wanted: dict[str, object] = {"batch": count}
        wanted |= {"expires": wait_ns} if wait_ns else {"no_wait": True}
        client.publish(
            f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{self.stream.name}.{self.name}",
            msgspec.json.encode(wanted),
            reply=listener.subject,
        )
        found: list[Delivered] = []
        while len(found) < count:
            try:
                message = listener.next_raw(wait_ns + client.timeout_ns)
            except ClientTimeout:
                if found:
                    break
                raise
            status = status_of(message)
            if status in _NOTHING_HERE:
                break
            if status:
                self._refused(status, message.header)
                continue
            found.append(delivered(client, message))
        return found

    def _refused(self, status: int, header: bytes) -> None:
        """What a status says about the consumer; a heartbeat says nothing."""
        if status == 100:
            return
        text = header.split(b"\r\n")[0].removeprefix(b"NATS/1.0 ").decode(errors="replace")
        if status == _NO_RESPONDERS or "Consumer Deleted" in text:
            raise NoSuchItem(f"consumer {self.stream.name} > {self.name} is not there", code=404)
        raise JetStreamRefusal(f"messages of {self.stream.name} > {self.name} cannot be fetched: {text}", code=status)
