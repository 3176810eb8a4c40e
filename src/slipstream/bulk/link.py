"""One connection, several conversations: requests to the JetStream API, and inboxes that many messages come to.

Not for two threads at once. What arrives is kept for the conversation it belongs to, whoever happens to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic_ns
from typing import Any

import msgspec

from slipstream.bulk.errors import BulkError
from slipstream.bulk.options import ConnectOptions, open_wire
from slipstream.client.options import ClientError, ClientTimeout, NoResponders, ServerRefused
from slipstream.client.wire import Message
from slipstream.errors import UNREADABLE
from slipstream.units import SECOND_NS

__all__ = ["BulkLink", "Inbox", "api_error"]


_ASK_AGAIN_NS = 5 * SECOND_NS  # and twice as long each time


class Inbox:
    """A subject of our own and what came to it."""

    def __init__(self, subject: str, sid: int) -> None:
        """Remember where it listens."""
        self.subject = subject
        self.sid = sid
        self.messages: deque[Message] = deque()


class BulkLink:
    """A connection to a server."""

    def __init__(self, options: ConnectOptions) -> None:
        """Connect.

        Raises:
            BulkError: no server lets us in.
        """
        self.options = options
        self.prefix = options.prefix
        self.timeout_ns = options.timeout_ns
        self._wire = open_wire(options)
        self._inboxes: dict[int, Inbox] = {}
        self.may_share_memory = self._wire.is_local
        """Whether the server could be on this machine; to be set to False when memory of it could not be opened."""
        self.may_read_files = True
        """Likewise for files: see `LentFiles.usable`."""
        self.may_pause = True
        """Whether reads from files pause where the server asks for it; not where the system lets others go first."""

    @property
    def max_payload(self) -> int:
        """Bytes the server takes in one message."""
        return self._wire.info.max_payload or 1 << 20

    @property
    def server(self) -> str:
        """Identifier of the server process we talk to."""
        return self._wire.info.server_id

    @property
    def is_one_of_ours(self) -> bool:
        """Whether the server we talk to is one of this kind; who answers may be another one behind it."""
        return self._wire.info.git_commit.startswith("slipstream")

    def request(self, call: str, body: Mapping[str, object] | bytes = b"", *, timeout_ns: int = 0) -> dict[str, Any]:
        """Call the API; `call` is what follows the prefix.

        Raises:
            BulkError: the server refused, or no answer came.
        """
        payload = body if isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            reply = self._wire.request(self.prefix + call, payload, timeout_ns=timeout_ns or self.timeout_ns)
        except NoResponders as error:
            raise BulkError(f"{call}: JetStream is not available here", err_code=10039) from error
        except ClientError as error:
            raise _lost(call, error) from error
        return answer(call, reply.payload)

    def request_again(self, call: str, body: bytes, *, timeout_ns: int) -> dict[str, Any]:
        """Call the API for something that takes long and may be asked for twice: again when no answer comes.

        In a cluster whoever worked on it may be gone, while the server we talk to is not.

        Raises:
            BulkError: the server refused, or no answer came.
        """
        inbox = self.open_inbox()
        deadline, wait_ns = monotonic_ns() + timeout_ns, _ASK_AGAIN_NS
        try:
            while (left_ns := deadline - monotonic_ns()) > 0:
                self.publish(self.prefix + call, body, reply=inbox.subject)
                found = self.poll(inbox, min(wait_ns, left_ns))
                if found is not None and not found.payload:
                    raise BulkError(f"{call}: JetStream is not available here", err_code=10039)
                if found is not None:
                    return answer(call, found.payload)
                wait_ns *= 2
        finally:
            self.close_inbox(inbox)
        raise BulkError(f"{call}: the server did not answer in time", retryable=True)

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", header: bytes = b"") -> None:
        """Send one message.

        Raises:
            BulkError: it cannot be sent.
        """
        try:
            self._wire.publish(subject, payload, reply=reply, header=header)
        except ClientError as error:
            raise _lost(subject, error) from error

    def open_inbox(self, *, wildcard: bool = False) -> Inbox:
        """A fresh subject to get answers on."""
        subject = self._wire.new_inbox()
        try:
            sid = self._wire.subscribe(f"{subject}.*" if wildcard else subject)
        except ClientError as error:
            raise _lost("subscribe", error) from error
        inbox = self._inboxes[sid] = Inbox(subject, sid)
        return inbox

    def close_inbox(self, inbox: Inbox) -> None:
        """Listen there no more; never raises, for it is called when things have gone wrong."""
        if self._inboxes.pop(inbox.sid, None) is not None:
            with suppress(ClientError):
                self._wire.unsubscribe(inbox.sid)

    def next(self, inbox: Inbox, timeout_ns: int = 0) -> Message:
        """The next message of an inbox.

        Raises:
            BulkError: none came in time, or the connection is gone.
        """
        found = self.poll(inbox, timeout_ns or self.timeout_ns)
        if found is None:
            raise BulkError("the server did not answer in time", retryable=True)
        return found

    def poll(self, inbox: Inbox, timeout_ns: int) -> Message | None:
        """The same; None when nothing came in time."""
        deadline = monotonic_ns() + timeout_ns
        while not inbox.messages:
            left_ns = deadline - monotonic_ns()
            if left_ns <= 0:
                return None
            try:
                arrived = self._wire.next_messages(left_ns)
            except ClientTimeout:
                return None
            except ClientError as error:
                raise _lost("waiting", error) from error
            for message in arrived:
                target = self._inboxes.get(message.sid)
                if target is not None:
                    target.messages.append(message)
        return inbox.messages.popleft()

    def flush(self) -> None:
        """Wait until the server has seen everything sent so far."""
        try:
            self._wire.flush(self.timeout_ns)
        except ClientError as error:
            raise _lost("flush", error) from error

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def answer(call: str, payload: bytes) -> dict[str, Any]:
    """The members of an API answer.

    Raises:
        BulkError: it is an error, or no JSON.
    """
    try:
        fields = msgspec.json.decode(payload)
    except UNREADABLE as error:
        raise BulkError(f"{call}: the answer is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BulkError(f"{call}: the answer is not an object")
    if isinstance(fields.get("error"), dict):
        raise api_error(call, fields["error"])
    return fields


def api_error(call: str, error: Mapping[str, Any]) -> BulkError:
    """A JetStream API error as an exception; 429 and 503 may pass."""
    code = int(error.get("code", 0))
    text = str(error.get("description", "")) or f"error {code}"
    return BulkError(f"{call}: {text}", retryable=code in (429, 503), err_code=int(error.get("err_code", 0)))


def _lost(what: str, error: ClientError) -> BulkError:
    """A refused permission will not be granted by asking again; anything else about a connection may pass."""
    return BulkError(f"{what}: {error}", retryable=not isinstance(error, ServerRefused))
