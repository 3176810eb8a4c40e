"""A connection for scripts: publish, ask, listen.

Nothing happens between two calls, so a server may have given up a connection that was idle for minutes, as in a
notebook. A call after a long pause therefore looks first and connects again if it has to; subscriptions go on, without
what was sent meanwhile. A connection that is lost during a call is an error: what was under way may or may not have
happened, and only the caller knows whether to repeat it.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Self

from slipstream.client.credentials import read_credentials, read_seed
from slipstream.client.options import ClientError, ClientTimeout, ConnectionLost, ServerRefused, WireOptions
from slipstream.client.wire import WireClient
from slipstream.sync.messages import Headers, Msg, duration_ns, header_block, received
from slipstream.units import MIB, SECOND_NS

if TYPE_CHECKING:
    from slipstream.kernels.client.serverdecode import Message
    from slipstream.sync.jetstream import JetStream

__all__ = ["Client", "Listener", "connect"]

_PAUSE_NS: Final = 20 * SECOND_NS  # after it a server may have given the connection up: it asks every 2 minutes or so
_HELD_BYTES_MAX: Final = 64 * MIB  # of one subscription, received while something else was waited for


def connect(
    url: str = "nats://127.0.0.1:4222",
    *,
    user: str = "",
    password: str = "",
    token: str = "",
    creds: str | os.PathLike[str] = "",
    nkey: str | os.PathLike[str] = "",
    tls: ssl.SSLContext | None = None,
    tls_ca: str | os.PathLike[str] = "",
    tls_cert: str | os.PathLike[str] = "",
    tls_key: str | os.PathLike[str] = "",
    tls_first: bool = False,
    name: str = "",
    inbox_prefix: str = "_INBOX",
    timeout: timedelta | float = 5.0,
) -> Client:
    """Connect to a server.

    Args:
        url: `nats://[user:password@ | token@]host[:port]`, or `tls://` to insist on TLS; several with commas between
            them are tried in order.
        user: user name; credentials given here win over those in the URL.
        password: of the user.
        token: instead of user and password.
        creds: a credentials file, with a user JWT and its seed.
        nkey: a file with the seed of an nkey.
        tls: how to check the server; by default the system's authorities are trusted.
        tls_ca: a file with the authorities to trust instead.
        tls_cert: the certificate of this client.
        tls_key: its key.
        tls_first: TLS before the server's greeting.
        name: what the server calls this connection in its lists.
        inbox_prefix: what reply subjects begin with.
        timeout: to connect, and for each answer; seconds.

    Raises:
        ClientError: no server lets us in; the text says why.
    """
    if creds and nkey:
        raise ClientError("a credentials file and a seed file are both named; use one")
    key = read_credentials(_text(creds)) if creds else read_seed(_text(nkey)) if nkey else None
    options = WireOptions(
        user=user,
        password=password,
        token=token,
        nkey=key.public if key else "",
        jwt=key.jwt if key else "",
        sign=key.sign if key else None,
        name=name,
        inbox_prefix=inbox_prefix,
        tls=tls or _tls(tls_ca, tls_cert, tls_key),
        tls_first=tls_first,
        timeout_ns=duration_ns(timeout),
    )
    urls = [one.strip() for one in url.split(",") if one.strip()]
    if not urls:
        raise ClientError("no server is named")
    return Client(urls, options)


class Client:
    """One connection. A context manager; `slipstream.connect` makes it."""

    def __init__(self, urls: list[str], options: WireOptions) -> None:
        """Connect to the first server that lets us in."""
        self._urls = urls
        self._options = options
        self._listeners: dict[int, Listener] = {}  # by sid
        self._closed = False
        self._used_ns = 0
        self._wire = self._open()

    @property
    def server(self) -> str:
        """The name of the server."""
        return self._wire.info.server_name

    @property
    def max_payload(self) -> int:
        """Bytes that a message may have."""
        return self._wire.info.max_payload

    def publish(self, subject: str, data: bytes = b"", *, headers: Headers | None = None, reply: str = "") -> None:
        """Send a message to whoever listens now. `JetStream.publish` waits until it is stored."""
        block = self._fits(data, headers)
        with _words():
            self._live().publish(subject, data, reply=reply, header=block)

    def request(
        self, subject: str, data: bytes = b"", *, headers: Headers | None = None, timeout: timedelta | float = 0
    ) -> Msg:
        """Ask, and return the first answer.

        Raises:
            NoResponders: nobody listens.
            ClientTimeout: nobody answered in time.
        """
        block = self._fits(data, headers)
        with _words():
            return received(self._live().request(subject, data, header=block, timeout_ns=duration_ns(timeout)))

    def subscribe(self, subject: str, *, queue: str = "") -> Listener:
        """Listen to a subject; when this returns the server knows."""
        with _words():
            listener = Listener(self, subject, queue)
        self.flush()
        return listener

    def flush(self) -> None:
        """Wait until the server has everything that was sent.

        Raises:
            ServerRefused: it objected to something.
        """
        self._live().flush()

    def jetstream(self, *, domain: str = "", api_prefix: str = "") -> JetStream:
        """Streams, consumers, keys and objects of this account, or of a domain."""
        from slipstream.sync.jetstream import JetStream

        return JetStream(self, api_prefix.rstrip(".") or (f"$JS.{domain}.API" if domain else "$JS.API"))

    def close(self) -> None:
        """Send what is under way and close. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self._wire.flush()
        except ClientError:
            pass  # the server is gone, or has objected to something nobody waited for
        finally:
            self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"connected to {self.server}"
        return f"<{type(self).__name__} {state}>"

    # --- for the other modules of this package -----------------------------------------------------------------------

    def attach(self, listener: Listener) -> int:
        """Subscribe for a listener; its sid."""
        sid = self._live().subscribe(listener.subject, queue=listener.queue)
        self._listeners[sid] = listener
        return sid

    def detach(self, sid: int) -> None:
        """End a subscription."""
        if self._listeners.pop(sid, None) is not None and not self._closed:
            self._live().unsubscribe(sid)

    def new_inbox(self) -> str:
        """A reply subject that nobody else has."""
        return self._wire.new_inbox()

    def receive(self, timeout_ns: int) -> None:
        """Wait for messages and hand them to their listeners.

        Raises:
            ClientTimeout: none came in time.
        """
        for message in self._live().next_messages(max(timeout_ns, 1)):
            listener = self._listeners.get(message.sid)
            if listener is not None:
                listener.take(message)
        self._used_ns = monotonic_ns()

    @property
    def timeout_ns(self) -> int:
        """How long answers may take unless somebody says otherwise."""
        return self._options.timeout_ns

    # --- the connection ----------------------------------------------------------------------------------------------

    def _open(self) -> WireClient:
        last: ClientError | None = None
        for url in self._urls:
            try:
                wire = WireClient(url, self._options)
            except ConnectionLost as error:
                last = error
            else:
                self._used_ns = monotonic_ns()
                return wire
        assert last is not None
        raise last

    def _live(self) -> WireClient:
        """The connection, made anew if the server has given it up during a pause."""
        if self._closed:
            raise ClientError("this client is closed")
        now_ns = monotonic_ns()
        if now_ns - self._used_ns > _PAUSE_NS:
            try:
                self._wire.flush()
            except (ConnectionLost, ServerRefused, ClientTimeout):
                self._reopen()
        self._used_ns = now_ns
        return self._wire

    def _reopen(self) -> None:
        self._wire.close()
        self._wire = self._open()
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.sid = self._wire.subscribe(listener.subject, queue=listener.queue)
            self._listeners[listener.sid] = listener

    def _fits(self, data: bytes, headers: Headers | None) -> bytes:
        """The header block of a message that the server will take: one that is too long costs the connection."""
        block = header_block(headers)
        if len(block) + len(data) > self._wire.info.max_payload:
            raise ClientError(f"{len(block) + len(data)} bytes are more than the server takes: {self.max_payload}")
        return block


class Listener:
    """The messages of one subscription: an iterator and a context manager."""

    def __init__(self, client: Client, subject: str, queue: str = "") -> None:
        """Subscribe."""
        self.subject, self.queue = subject, queue
        self.dropped = 0  # messages that came while too many were waiting
        self._client = client
        self._held: deque[Message] = deque()
        self._held_bytes = 0
        self._told = 0
        self.sid = client.attach(self)

    def next(self, timeout: timedelta | float = 0) -> Msg:
        """The next message; `timeout` in seconds, the client's if it is 0.

        Raises:
            ClientTimeout: none came in time.
            ClientError: messages were dropped before this one, because nobody read them.
        """
        return received(self.next_raw(duration_ns(timeout) or self._client.timeout_ns))

    def __iter__(self) -> Iterator[Msg]:
        """Messages without end, however long they take."""
        while True:
            try:
                yield self.next(3600)
            except ClientTimeout:
                continue

    def close(self) -> None:
        """Listen no more."""
        self._client.detach(self.sid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def next_raw(self, timeout_ns: int) -> Message:
        """The next message as it came."""
        deadline = monotonic_ns() + timeout_ns
        while not self._held:
            left_ns = deadline - monotonic_ns()
            if left_ns <= 0:
                raise ClientTimeout(f"no message on {self.subject!r} in time")
            self._client.receive(left_ns)
        if self.dropped > self._told:
            lost, self._told = self.dropped - self._told, self.dropped
            raise ClientError(f"{lost} messages on {self.subject!r} were dropped: they were not read in time")
        message = self._held.popleft()
        self._held_bytes -= len(message.payload) + len(message.header)
        return message

    def take(self, message: Message) -> None:
        """Keep a message until it is asked for."""
        size = len(message.payload) + len(message.header)
        if self._held_bytes + size > _HELD_BYTES_MAX:
            self.dropped += 1
            return
        self._held.append(message)
        self._held_bytes += size


@contextmanager
def _words() -> Iterator[None]:
    """A subject or queue that no protocol line can carry is the caller's mistake."""
    try:
        yield
    except ValueError as error:
        raise ClientError(str(error).replace(": b'", ": '")) from error


def _text(path: str | os.PathLike[str]) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"cannot read {os.fspath(path)}: {error}") from error


def _tls(
    ca: str | os.PathLike[str], cert: str | os.PathLike[str], key: str | os.PathLike[str]
) -> ssl.SSLContext | None:
    if key and not cert:
        raise ClientError("tls_key needs tls_cert")
    if not (ca or cert):
        return None
    try:
        context = ssl.create_default_context(cafile=os.fspath(ca) or None)
        if cert:
            context.load_cert_chain(os.fspath(cert), os.fspath(key) or None)
    except OSError as error:  # ssl.SSLError is one
        raise ClientError(f"TLS files cannot be used: {error}") from error
    return context


def merged(headers: Headers | None, more: Mapping[str, str]) -> Headers | None:
    """Headers with further ones."""
    return {**(headers or {}), **more} if more else headers
