"""A backup of one stream in the making: read in slices, compressed, cut into chunks, sent as they are confirmed.

States::

    waiting for a listener ──► sending ──all confirmed or on their way──► done
            │                     └──nobody listens, no confirmation, damage──► failed
            └──2 s──► sending anyway, as nats-server does

The backup holds what was committed when it began. Messages that go meanwhile are missing from it, as gaps; what comes
is not in it. Nothing is read before there is a free slot for it, so a slow receiver costs a window of memory at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slipstream.jetstream.backup.errors import UnreadableMessage
from slipstream.jetstream.backup.s2 import S2Writer
from slipstream.jetstream.ports import Cancel, Ports, Subscription
from slipstream.limits import (
    BACKUP_CHUNK_BYTES,
    BACKUP_CHUNK_BYTES_MAX,
    BACKUP_CHUNK_BYTES_MIN,
    BACKUP_CONFIRM_NS,
    BACKUP_INTEREST_NS,
    BACKUP_WINDOW_BYTES,
    BACKUP_WINDOW_BYTES_MAX,
)

__all__ = ["Snapshot"]

Finished = Callable[[str], None]
"""Called with why it failed, or an empty text."""


class Snapshot:
    """One backup on its way to a subject."""

    def __init__(
        self,
        stream: str,
        ports: Ports,
        *,
        target: bytes,
        content: Iterator[bytes],
        chunk_bytes: int,
        window_bytes: int,
        on_finished: Finished,
    ) -> None:
        """Nothing is sent before `start`.

        Args:
            stream: its name.
            ports: the way out.
            target: where chunks go.
            content: what it holds, a slice at a time; raises `UnreadableMessage` if that is not to be had.
            chunk_bytes: size of a chunk, 0 for the default.
            window_bytes: how much may be unconfirmed, 0 for the default.
            on_finished: told once.
        """
        self._ports = ports
        self._target = target
        self._on_finished = on_finished
        self._chunk_bytes = min(max(chunk_bytes or BACKUP_CHUNK_BYTES, BACKUP_CHUNK_BYTES_MIN), BACKUP_CHUNK_BYTES_MAX)
        window_bytes = min(max(window_bytes or BACKUP_WINDOW_BYTES, BACKUP_CHUNK_BYTES_MIN), BACKUP_WINDOW_BYTES_MAX)
        self._slots = max(window_bytes, self._chunk_bytes) // self._chunk_bytes  # chunks that may be sent now
        self._pieces = self._compressed(content)
        self._ready = bytearray()  # compressed and not sent
        self._index = 0  # of the last chunk sent
        self._read_all = False
        self._reply = f"$JS.SNAPSHOT.ACK.{stream}.{ports.new_nuid()}"
        self._confirmations: Subscription | None = None
        self._watch: Cancel | None = None
        self._timer: Cancel | None = None
        self._sending = False
        self._scheduled = False
        self._done = False

    def start(self) -> None:
        """Send as soon as somebody listens to just this: who listens to much may not be ready yet."""
        self._confirmations = self._ports.subscribe(f"{self._reply}.>".encode(), self._on_confirmed)
        self._watch = self._ports.watch_interest(self._target, None, self._on_interest)
        if self._ports.is_bound(self._target, None):
            self._begin()
        else:
            self._timer = self._ports.call_later(BACKUP_INTEREST_NS, self._begin)

    def stop(self) -> None:
        """The stream is going."""
        self._finish(b"NATS/1.0 500 stream closed\r\n\r\n", "stream closed")

    def _begin(self) -> None:
        if not self._sending and not self._done:
            self._sending = True
            self._arm()
            self._schedule()

    def _on_interest(self, listening: bool) -> None:
        if listening:
            self._begin()
        elif self._sending:
            self._finish(b"NATS/1.0 408 No Interest\r\n\r\n", "no interest")

    def _on_confirmed(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        self._slots += 1
        self._schedule()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer()
        self._timer = self._ports.call_later(BACKUP_CONFIRM_NS, self._no_confirmation)

    def _no_confirmation(self) -> None:
        self._timer = None
        self._finish(b"NATS/1.0 408 No Flow Response\r\n\r\n", "no flow response")

    def _schedule(self) -> None:
        if self._sending and not self._scheduled and not self._done:
            self._scheduled = True
            self._ports.call_soon(self._step)

    def _step(self) -> None:
        """Read one slice and send what is full."""
        self._scheduled = False
        if self._done:
            return
        while self._slots and len(self._ready) >= self._chunk_bytes:
            self._send(bytes(self._ready[: self._chunk_bytes]))
            del self._ready[: self._chunk_bytes]
        if not self._slots:
            return
        if self._read_all:
            if self._ready:
                self._ports.publish(self._target, None, None, bytes(self._ready))
            self._finish(b"NATS/1.0 204\r\n\r\n" if self._index else None, "")
            return
        try:
            piece = next(self._pieces, None)
        except UnreadableMessage as problem:
            self._finish(f"NATS/1.0 500 {problem}\r\n\r\n".encode(), str(problem))
            return
        if piece is None:
            self._read_all = True
        else:
            self._ready += piece
        self._schedule()

    def _send(self, chunk: bytes) -> None:
        self._slots -= 1
        self._index += 1
        reply = f"{self._reply}.{len(chunk)}.{self._index}".encode()
        self._ports.publish(self._target, reply, None, chunk)
        self._arm()

    def _finish(self, header: bytes | None, problem: str) -> None:
        if self._done:
            return
        self._done = True
        for cancel in (self._timer, self._watch):
            if cancel is not None:
                cancel()
        if self._confirmations is not None:
            self._confirmations.close()
        self._ports.publish(self._target, None, header, b"")
        self._on_finished(problem)

    def _compressed(self, content: Iterator[bytes]) -> Iterator[bytes]:
        """The backup as it is sent, a slice at a time."""
        writer = S2Writer()
        for piece in content:
            yield writer.write(piece)
        yield writer.close()
