"""A small synchronous NATS client over the decoder kernel: one socket, no thread, no reconnect.

For benchmarks, tools and bulk readers that want few instructions between the socket and the payload. It is not the
client for applications: a lost connection is an error and stays one, and nothing happens between two calls, so a
server's PING is answered by the next call that reads.

Invariants: every wait has a deadline; bytes are read while a send is blocked, so the two ends cannot wait for each
other; a message is handed out once, in the order of arrival, whatever call received it.
"""

from __future__ import annotations

import secrets
import select
import socket
from collections import deque
from collections.abc import Iterable
from time import monotonic_ns
from types import TracebackType
from typing import Self

import msgspec

from slipstream.client.frames import joined_words, message_frame
from slipstream.client.limits import CLIENT_QUEUED_BYTES_MAX
from slipstream.client.options import (
    ClientError,
    ClientTimeout,
    ConnectionLost,
    NoResponders,
    ReceivedInfo,
    ServerAddress,
    ServerRefused,
    WireOptions,
    read_url,
)
from slipstream.errors import UNREADABLE
from slipstream.kernels.client.serverdecode import Decoder, Message
from slipstream.units import KIB

__all__ = [
    "ClientError",
    "ClientTimeout",
    "ConnectionLost",
    "Message",
    "NoResponders",
    "ReceivedInfo",
    "ServerRefused",
    "WireClient",
    "WireOptions",
    "message_frame",
]

_RECEIVE_BYTES = 256 * KIB
_BEHIND_BYTES = 4 * KIB  # taken in behind a large payload: its end, and the head of the next message


class WireClient:
    """One connection to a server."""

    def __init__(self, url: str, options: WireOptions | None = None) -> None:
        """Connect and wait until the server has accepted the credentials.

        Args:
            url: `nats://[user:password@ | token@]host[:port]`, or `tls://` to insist on TLS.
            options: credentials here win over those in the URL.

        Raises:
            ClientError: the URL is not usable, the server cannot be reached, says no, or takes too long.
        """
        endpoint = read_url(url, options or WireOptions())
        self.options = endpoint.options
        self.info = ReceivedInfo()
        self._decoder = Decoder()
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._behind = memoryview(self._buffer)[:_BEHIND_BYTES]
        self._not_now: tuple[type[OSError], ...] = (BlockingIOError,)  # what a socket says that is not ready
        self._scatters = False  # whether one call can receive into two places: not with TLS
        self._queue: deque[Message] = deque()  # received and not yet handed out
        self._queued_bytes = 0  # payload and header bytes in the queue
        self._pings_sent = 0
        self._pings_answered = 0
        self._errors_raised = 0
        self._next_sid = 1
        self._inbox = ""  # prefix of this client's reply subjects; empty before the first request
        self._inbox_sid = 0
        self._requests = 0
        self._awaited = ""  # reply subject of the request being made
        self._reply: Message | None = None
        deadline = monotonic_ns() + self.options.timeout_ns
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), self.options.timeout_ns / 1e9)
        except OSError as error:
            reason = error.strerror or error  # without its number
            raise ConnectionLost(f"cannot connect to {endpoint.host}:{endpoint.port}: {reason}") from error
        try:
            self._greet(endpoint, deadline)
        except BaseException:
            self.close()
            raise

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", header: bytes = b"") -> None:
        """Send one message; `header` is a whole block as `NATS/1.0\\r\\n...\\r\\n\\r\\n`, or empty.

        Raises:
            ValueError: for a subject that no PUB line can carry.
            ClientError: when it cannot be sent.
        """
        self.send(message_frame(subject, payload, reply=reply, header=header))

    def send(self, frames: bytes | bytearray | memoryview, timeout_ns: int = 0) -> None:
        """Send bytes that are whole protocol lines, such as a batch of `encode_pubs`.

        Raises:
            ClientTimeout: the server did not take them in time (by default the connection's timeout). The connection
                is of no use afterwards, because part of a frame may have gone.
            ConnectionLost: the connection is gone.
        """
        deadline = self._deadline(timeout_ns)
        with memoryview(frames) as view, view.cast("B") as left_to_send:
            at = 0
            while at < len(left_to_send):
                at += self._send_some(left_to_send[at:], deadline)
        self._answer_pings()

    def subscribe(self, subject: str, *, queue: str = "") -> int:
        """Subscribe, and return the sid that messages will carry. `flush` makes sure that the server knows.

        Raises:
            ValueError: for a subject or queue that no SUB line can carry.
        """
        sid = self._next_sid
        self._next_sid += 1
        words = joined_words(subject, queue) if queue else joined_words(subject)
        self.send(f"SUB {words} {sid}\r\n".encode())
        return sid

    def subscribe_many(self, subjects: Iterable[str]) -> range:
        """Subscribe to many subjects in one send; return their sids in order."""
        first = self._next_sid
        lines = [f"SUB {joined_words(subject)} {sid}\r\n" for sid, subject in enumerate(subjects, first)]
        self._next_sid += len(lines)
        self.send("".join(lines).encode())
        return range(first, self._next_sid)

    def unsubscribe(self, sid: int, *, after: int = 0) -> None:
        """End a subscription, at once or after it got `after` messages in all."""
        self.send(f"UNSUB {sid} {after}\r\n".encode() if after else f"UNSUB {sid}\r\n".encode())

    def flush(self, timeout_ns: int = 0) -> None:
        """Wait until the server has processed everything sent so far.

        Raises:
            ServerRefused: it objected to something.
            ClientTimeout: it did not answer in time.
        """
        deadline = self._deadline(timeout_ns)
        self._pings_sent += 1
        self.send(b"PING\r\n", max(deadline - monotonic_ns(), 1))
        while self._decoder.pongs < self._pings_sent:
            self._receive(deadline)
        self._raise_refusal()

    def next_message(self, timeout_ns: int = 0) -> Message:
        """Return the next message of any subscription.

        Raises:
            ClientTimeout: none came in time.
            ServerRefused: the server said -ERR, and no message is left from before.
        """
        if not self._queue:
            self._wait_for_message(self._deadline(timeout_ns))
        message = self._queue.popleft()
        self._queued_bytes -= len(message.payload) + len(message.header)
        return message

    def next_messages(self, timeout_ns: int = 0) -> list[Message]:
        """Return every message that is there, at least one. The fast way to read a stream of messages.

        Raises:
            ClientTimeout: none came in time.
            ServerRefused: the server said -ERR, and no message is left from before.
        """
        if not self._queue:
            self._wait_for_message(self._deadline(timeout_ns))
        messages = list(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        return messages

    def request(self, subject: str, payload: bytes = b"", *, header: bytes = b"", timeout_ns: int = 0) -> Message:
        """Publish with a reply subject of its own and return the first reply.

        Other messages that arrive meanwhile stay in order for `next_message`. Replies to earlier requests are dropped.

        Raises:
            NoResponders: nobody subscribes to the subject.
            ClientTimeout: no reply came in time.
        """
        deadline = self._deadline(timeout_ns)
        if not self._inbox:
            self._inbox = self.new_inbox()
            self._inbox_sid = self.subscribe(f"{self._inbox}.*")
        self._requests += 1
        self._awaited, self._reply = f"{self._inbox}.{self._requests}", None
        self.publish(subject, payload, reply=self._awaited, header=header)
        while self._reply is None:
            self._raise_refusal()
            self._receive(deadline)
        if self._reply.header.startswith(b"NATS/1.0 503") and not self._reply.payload:
            raise NoResponders(f"no responders on {subject!r}")
        return self._reply

    def new_inbox(self) -> str:
        """A reply subject that nobody else has."""
        return f"{self.options.inbox_prefix}.{secrets.token_hex(11)}"

    @property
    def is_local(self) -> bool:
        """Whether the server has the address of this machine; it can still be in another container."""
        try:
            return bool(self._socket.getpeername()[0] == self._socket.getsockname()[0])
        except OSError:
            return False  # the connection is gone, which the next call will say

    def detach(self) -> tuple[socket.socket, bytes]:
        """Give the connected socket to the caller, who reads and writes it from now on; this client is then closed.

        Returns:
            The socket, not blocking, and the bytes of a frame that was received in part: they come before what the
            socket will yield.

        Raises:
            ClientError: when messages were received that the caller would miss.
        """
        if self._queue:
            raise ClientError("messages are waiting; they would be lost")
        detached = self._socket
        self._socket = socket.socket()  # unconnected, so that any further call fails clearly
        self._socket.close()
        return detached, self._decoder.unfinished()

    def close(self) -> None:
        """Close the connection; no call may follow. What was sent but not flushed may be lost."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _greet(self, endpoint: ServerAddress, deadline: int) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.options.tls_first:
            self._start_tls(endpoint.host)
        self._socket.setblocking(False)
        while self._decoder.info is None:
            self._receive(deadline)
        self._read_info(self._decoder.info)
        tls = self.options.tls_first or endpoint.tls or self.info.tls_required
        if tls and not self.options.tls_first:
            self._start_tls(endpoint.host)
            self._socket.setblocking(False)
        self._scatters = not tls
        self.send(self.options.connect_line(tls=tls, nonce=self.info.nonce))
        self.flush(max(deadline - monotonic_ns(), 1))

    def _start_tls(self, host: str) -> None:
        import ssl

        context = self.options.tls or ssl.create_default_context()
        self._not_now = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._socket.settimeout(self.options.timeout_ns / 1e9)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:  # ssl.SSLError is one
            raise ConnectionLost(f"TLS handshake with {host} failed: {error}") from error

    def _read_info(self, text: bytes) -> None:
        try:
            self.info = msgspec.json.decode(text, type=ReceivedInfo)
        except UNREADABLE as error:
            raise ConnectionLost(f"the server's INFO is not usable: {error}") from error

    def _deadline(self, timeout_ns: int) -> int:
        return monotonic_ns() + (timeout_ns or self.options.timeout_ns)

    def _send_some(self, view: memoryview, deadline: int) -> int:
        while True:
            try:
                sent = self._socket.send(view)
            except self._not_now:
                # A full queue is not read further: the server then holds the messages back, or drops this client.
                if self._queued_bytes >= CLIENT_QUEUED_BYTES_MAX:
                    self._wait(select.POLLOUT, deadline)
                elif not self._receive_ready():
                    self._wait(select.POLLOUT | select.POLLIN, deadline)
            except OSError as error:
                raise self._lost(error) from error
            else:
                return sent

    def _wait_for_message(self, deadline: int) -> None:
        while not self._queue:
            self._raise_refusal()
            self._receive(deadline)

    def _receive(self, deadline: int) -> None:
        """Take in some bytes, waiting for them."""
        if self._queued_bytes > CLIENT_QUEUED_BYTES_MAX:
            raise ClientError(
                f"{self._queued_bytes} bytes of messages are waiting to be asked for; the limit is reached"
            )
        while not self._receive_ready():
            self._wait(select.POLLIN, deadline)
        self._answer_pings()

    def _receive_ready(self) -> bool:
        """Take in what is there; False when there is nothing."""
        room = self._decoder.room
        try:
            if room is None:
                size = self._socket.recv_into(self._buffer)
            elif self._scatters:
                size = self._socket.recvmsg_into([room, self._behind])[0]
            else:
                size = self._socket.recv_into(room)
        except self._not_now:
            return False
        except OSError as error:
            raise self._lost(error) from error
        if size == 0:
            raise self._lost(None)
        if room is not None:
            self._decoder.filled(min(size, len(room)))
            size -= min(size, len(room))
        try:
            messages = self._decoder.feed(self._buffer, size)
        except ValueError as error:
            raise ConnectionLost(str(error)) from error
        if self._inbox_sid:
            messages = [message for message in messages if not self._took_reply(message)]
        self._queue.extend(messages)
        self._queued_bytes += sum(len(message.payload) + len(message.header) for message in messages)
        return True

    def _took_reply(self, message: Message) -> bool:
        if message.sid != self._inbox_sid:
            return False
        if message.subject == self._awaited and self._reply is None:
            self._reply = message
        return True  # a reply to a request that was given up is dropped

    def _answer_pings(self) -> None:
        """Owed PONGs; never called between the parts of a frame."""
        owed = self._decoder.pings - self._pings_answered
        if owed:
            self._pings_answered = self._decoder.pings
            self.send(b"PONG\r\n" * owed)

    def _wait(self, events: int, deadline: int) -> None:
        left_ns = deadline - monotonic_ns()
        if left_ns <= 0:
            raise ClientTimeout("the server did not answer in time")
        poller = select.poll()
        poller.register(self._socket, events)
        poller.poll(left_ns / 1e6)

    def _lost(self, error: OSError | None) -> ClientError:
        """The clearest reason for a lost connection: the server's own words, if it said any."""
        if len(self._decoder.errors) > self._errors_raised:
            self._errors_raised = len(self._decoder.errors)
            return ServerRefused(self._decoder.errors[-1])
        return ConnectionLost("the server closed the connection" if error is None else f"connection lost: {error}")

    def _raise_refusal(self) -> None:
        if len(self._decoder.errors) > self._errors_raised:
            self._errors_raised += 1
            raise ServerRefused(self._decoder.errors[self._errors_raised - 1])
