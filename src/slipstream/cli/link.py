"""The connection of a command: a `WireClient`, the JetStream API over it, and what `--trace` shows.

Requests wait for the time that `--timeout` says. A lost connection is an error here; commands that listen for long
use `slipstream.cli.listening`, which connects again.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from slipstream.cli.settings import Settings
from slipstream.client.credentials import UserKey, read_credentials, read_seed
from slipstream.client.wire import (
    ClientError,
    ClientTimeout,
    ConnectionLost,
    Message,
    NoResponders,
    WireClient,
    WireOptions,
    message_frame,
)
from slipstream.kernels.client.pubframes import encode_pubs
from slipstream.units import SECOND_NS
from slipstream.version import PRODUCT_VERSION

__all__ = ["ApiRefusal", "ClientLink", "Reply", "without_secrets"]

Reply = dict[str, Any]  # an answer of the JetStream API, decoded
_NOT_FOUND: Final = frozenset((10014, 10059))  # a consumer, a stream
_PAGES_MAX: Final = 100_000  # of one listing; more means that a server counts wrongly


class ApiRefusal(ClientError):
    """JetStream refused a request; the text is the server's, with its code."""

    def __init__(self, error: dict[str, Any]) -> None:
        """Keep the codes for commands that act on them."""
        self.code: int = error.get("code", 0)
        self.err_code: int = error.get("err_code", 0)
        self.description: str = error.get("description", "unknown error")
        super().__init__(f"{self.description} ({self.err_code})" if self.err_code else self.description)

    def about(self, verb: str) -> ApiRefusal:
        """The same with the name of what is missing, which the server does not repeat."""
        words = verb.split(".")
        names = words[3:] if words[1:2] in (["MSG"], ["DURABLE"]) else words[2:]  # STREAM.INFO.A, STREAM.MSG.GET.A
        if self.err_code in _NOT_FOUND and names and self.description.endswith("not found"):
            self.args = (f"{self.args[0]}: {' > '.join(names)}",)
        return self


class ClientLink:
    """One connection to one of the servers."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the first server that lets us in.

        Raises:
            ClientError: none does; the text says why the last one did not.
        """
        self.settings = settings
        self.client, url = _connect(settings)
        self.url = without_secrets(url)

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", header: bytes = b"") -> None:
        """Send one message."""
        with _words_checked():
            self.client.publish(subject, payload, reply=reply, header=header)

    def publish_equal(self, subject: str, payload: bytes, count: int) -> None:
        """Send the same message many times, in one go."""
        with _words_checked():
            self.client.send(encode_pubs(subject.encode(), payload, count))

    def publish_together(self, messages: Iterable[tuple[str, bytes, bytes]], reply: str = "") -> None:
        """Send messages, each a subject, a payload and a header, in one go."""
        with _words_checked():
            frames = [
                message_frame(subject, payload, reply=reply, header=header) for subject, payload, header in messages
            ]
            self.client.send(b"".join(frames))

    def subscribe(self, subject: str, *, queue: str = "") -> int:
        """Subscribe, and return the sid that messages will carry."""
        with _words_checked():
            return self.client.subscribe(subject, queue=queue)

    def request(self, subject: str, payload: bytes = b"", *, header: bytes = b"", timeout_ns: int = 0) -> Message:
        """Ask and return the first answer.

        Raises:
            NoResponders: nobody listens.
            ClientTimeout: nobody answered in time.
        """
        self._trace(">>>", subject, payload)
        with _words_checked():
            answer = self.client.request(subject, payload, header=header, timeout_ns=timeout_ns)
        self._trace("<<<", "", answer.payload)
        return answer

    def ask(self, subject: str, payload: bytes = b"", *, header: bytes = b"") -> Message:
        """Ask with an inbox of its own, for answers under another subject: the next message of a consumer is one.

        Raises:
            NoResponders: nobody listens.
            ClientTimeout: nobody answered in time.
        """
        self._trace(">>>", subject, payload)
        inbox = self.client.new_inbox()
        sid = self.client.subscribe(inbox)
        self.client.unsubscribe(sid, after=1)
        self.publish(subject, payload, reply=inbox, header=header)
        answer = self.client.next_message()
        self._trace("<<<", "", answer.payload)
        if answer.header.startswith(b"NATS/1.0 503") and not answer.payload:
            raise NoResponders(f"no responders on {subject!r}")
        return answer

    def api(self, verb: str, body: object = None, *, timeout_ns: int = 0) -> Reply:
        """Ask JetStream: `api("STREAM.INFO.ORDERS")`.

        Raises:
            ApiRefusal: it says no.
            ClientError: it does not answer.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        try:
            answer = self.request(f"{self.settings.api_prefix}.{verb}", payload, timeout_ns=timeout_ns)
        except NoResponders:
            raise ClientError("JetStream is not available: no server answers its API for this account") from None
        except ClientTimeout:
            raise ClientTimeout(f"JetStream did not answer {verb.split('.')[0]} in time") from None
        try:
            return decoded(answer)
        except ApiRefusal as error:
            raise error.about(verb) from None

    def api_pages(self, verb: str, key: str, body: Reply | None = None) -> Iterator[Any]:
        """The entries of a listing that the server hands out page by page."""
        offset = 0
        for _ in range(_PAGES_MAX):
            page = self.api(verb, {**(body or {}), "offset": offset})
            entries = page.get(key) or []
            yield from entries.items() if isinstance(entries, dict) else entries
            offset += len(entries)
            if not entries or offset >= page.get("total", 0):
                return

    def api_with_looks(self, verb: str, body: object, *, look: str, every_ns: int, timeout_ns: int) -> Iterator[Reply]:
        """Ask JetStream for something that takes long, and meanwhile ask `look` again and again.

        Yields:
            What the looks found, at last the answer itself.

        Raises:
            ApiRefusal: it says no.
            ClientTimeout: it does not answer in time.
        """
        prefix, deadline_ns = self.settings.api_prefix, time.monotonic_ns() + timeout_ns
        answered, looked = self.client.new_inbox(), self.client.new_inbox()
        sids = [self.subscribe(answered), self.subscribe(looked)]
        payload = json.dumps(body).encode() if body else b""
        self._trace(">>>", f"{prefix}.{verb}", payload)
        self.publish(f"{prefix}.{verb}", payload, reply=answered)
        message, looking = None, False
        while message is None or message.subject != answered:
            try:
                message = self.client.next_message(every_ns)
            except ClientTimeout:
                if time.monotonic_ns() > deadline_ns:
                    raise ClientTimeout(f"JetStream did not answer {verb.split('.')[0]} in time") from None
                if not looking:
                    self.publish(f"{prefix}.{look}", reply=looked)
                    looking = True
                continue
            if message.subject == looked:
                looking = False
            self._trace("<<<", "", message.payload)
            yield decoded(message)
        for sid in sids:
            self.client.unsubscribe(sid)

    def idle(self, seconds: float) -> None:
        """Wait, and answer the server's PINGs meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self.client.next_message(max(int(left * SECOND_NS), 1))
            except ClientTimeout:
                return

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _trace(self, arrow: str, subject: str, payload: bytes) -> None:
        if self.settings.trace:
            place = f" {subject}" if subject else ""
            click.echo(f"{click.style(arrow, dim=True)}{place} {payload.decode(errors='replace')}", err=True)


@contextmanager
def _words_checked() -> Iterator[None]:
    """A subject or queue that no protocol line can carry is the user's mistake."""
    try:
        yield
    except ValueError as error:
        raise ClientError(str(error).replace(": b'", ": '")) from error  # words are bytes on the wire only


def decoded(answer: Message) -> Reply:
    """An answer of JetStream as a mapping.

    Raises:
        ApiRefusal: it is an error.
        ClientError: it is not JSON.
    """
    try:
        reply = json.loads(answer.payload)
    except ValueError as error:
        raise ClientError(f"the server's answer is not JSON: {error}") from error
    if not isinstance(reply, dict):
        raise ClientError("the server's answer is not a JSON object")
    if reply.get("error"):
        raise ApiRefusal(reply["error"])
    return reply


def without_secrets(url: str) -> str:
    """The URL of a server as it may be shown: without a user."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _connect(settings: Settings) -> tuple[WireClient, str]:
    options = _options(settings)
    last: ClientError = ClientError("no server is named")
    for url in settings.urls:
        try:
            return WireClient(url, options), url
        except ConnectionLost as error:
            last = error
    raise last


def _options(settings: Settings) -> WireOptions:
    key = _user_key(settings)
    lone_user = settings.user and not settings.password
    return WireOptions(
        user="" if lone_user else settings.user,
        password=settings.password,
        token=settings.token or (settings.user if lone_user else ""),
        nkey=key.public if key else "",
        jwt=key.jwt if key else "",
        sign=key.sign if key else None,
        name=settings.connection_name or f"slipstream CLI {PRODUCT_VERSION}",
        inbox_prefix=settings.inbox_prefix or "_INBOX",
        tls=_tls(settings),
        tls_first=settings.tlsfirst,
        timeout_ns=settings.timeout_ns,
    )


def _user_key(settings: Settings) -> UserKey | None:
    if settings.creds:
        return read_credentials(content_of(settings.creds))
    if settings.nkey:
        return read_seed(content_of(settings.nkey))
    if settings.jwt and settings.seed:
        return read_seed(content_of(settings.seed), content_of(settings.jwt).strip())
    return None


def content_of(place: str) -> str:
    """The text that a field of a context names: a file, `env://NAME`, `data:;base64,...`, or an embedded seed."""
    if place.startswith("data:;base64,"):
        return base64.b64decode(place.partition(",")[2]).decode()
    if place.startswith("env://"):
        return os.environ.get(place.removeprefix("env://"), "")
    if place.startswith("SU") and len(place) == 58:
        return place
    return Path(place.removeprefix("file://")).expanduser().read_text()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not (settings.tlsca or settings.tlscert):
        return None
    try:
        context = ssl.create_default_context(cafile=os.path.expanduser(settings.tlsca) if settings.tlsca else None)
        if settings.tlscert:
            key = os.path.expanduser(settings.tlskey) if settings.tlskey else None
            context.load_cert_chain(os.path.expanduser(settings.tlscert), key)
    except OSError as error:  # ssl.SSLError is one
        raise ClientError(f"the TLS files cannot be used: {error}") from error
    return context
