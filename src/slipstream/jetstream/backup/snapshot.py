"""A backup of one stream in the making: read in slices, encoded and compressed in a thread, sent as it is confirmed.

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
from slipstream.jetstream.backup.limits import (
    BACKUP_CHUNK_BYTES,
    BACKUP_CHUNK_BYTES_MAX,
    BACKUP_CHUNK_BYTES_MIN,
    BACKUP_CONFIRM_NS,
    BACKUP_INTEREST_NS,
    BACKUP_WINDOW_BYTES,
    BACKUP_WINDOW_BYTES_MAX,
)
from slipstream.jetstream.backup.s2 import S2Writer
from slipstream.jetstream.ports import Cancel, LiveSubscription, Ports

__all__ = ["Piece", "Snapshot"]

Piece = Callable[[], bytes]
"""Makes a part of the backup, perhaps an empty one, in a thread. Raises `UnreadableMessage` if that cannot be done."""

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
        content: Iterator[Piece],
        chunk_bytes: int,
        window_bytes: int,
        on_finished: Finished,
    ) -> None:
        """Nothing is sent before `start`.

        Args:
            stream: its name.
            ports: the way out.
            target: where chunks go.
            content: what it holds, read a slice at a time; raises `UnreadableMessage` if that is not to be had.
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
        self._content = content
        self._writer = S2Writer()  # used by one thread at a time
        self._making: _Making | None = None  # in a thread
        self._ready = bytearray()  # compressed and not sent
        self._index = 0  # of the last chunk sent
        self._read_all = False
        self._reply = f"$JS.SNAPSHOT.ACK.{stream}.{ports.new_nuid()}"
        self._confirmations: LiveSubscription | None = None
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
        """Send what is full, and let the next slice be made."""
        self._scheduled = False
        if self._done:
            return
        while self._slots and len(self._ready) >= self._chunk_bytes:
            with memoryview(self._ready) as ready:
                chunk = bytes(ready[: self._chunk_bytes])
            del self._ready[: self._chunk_bytes]
            self._send(chunk)
        if not self._slots or self._making is not None:
            return
        if self._read_all:
            if self._ready:
                self._ports.publish(self._target, None, None, bytes(self._ready))
            self._finish(b"NATS/1.0 204\r\n\r\n" if self._index else None, "")
            return
        try:
            piece = next(self._content, None)
        except UnreadableMessage as problem:
            self._fail(str(problem))
            return
        self._read_all = piece is None
        self._making = _Making(piece, self._writer)
        self._ports.run_blocking(self._making.run, self._made)

    def _made(self) -> None:
        making, self._making = self._making, None
        assert making is not None
        if isinstance(making.outcome, UnreadableMessage):
            self._fail(str(making.outcome))
        elif isinstance(making.outcome, Exception):
            self._ports.report("A piece of a backup", making.outcome)
            self._fail(f"{type(making.outcome).__name__}: {making.outcome}")
        else:
            self._ready += making.outcome
            self._schedule()

    def _fail(self, problem: str) -> None:
        self._finish(f"NATS/1.0 500 {problem}\r\n\r\n".encode(), problem)

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


class _Making:
    """A piece that is encoded and compressed in a thread; without one, the end of the compressed stream."""

    __slots__ = ("_piece", "_writer", "outcome")

    def __init__(self, piece: Piece | None, writer: S2Writer) -> None:
        self._piece = piece
        self._writer = writer
        self.outcome: bytes | Exception = b""

    def run(self) -> None:
        try:
            self.outcome = self._writer.write(self._piece()) if self._piece is not None else self._writer.close()
        except Exception as error:  # told on the loop
            self.outcome = error
