"""What a client connection needs of its host, and the states both talk about."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from slipstream.kernels.wire.outbox import FlushQueue

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.authenticator import Identity
    from slipstream.config.options import Options
    from slipstream.kernels.wire.delivery import Delivery
    from slipstream.protocol.connection import ClientConnection
    from slipstream.protocol.info import ConnectInfo
    from slipstream.protocol.texts import CloseReason
    from slipstream.protocol.trace_request import TraceRequest

__all__ = ["OK_LINE", "Host", "State"]

OK_LINE = b"+OK\r\n"


class State(Enum):
    """Where a connection is in its life."""

    GREETED = "greeted"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


class Host(Protocol):
    """What a connection needs of its server."""

    @property
    def options(self) -> Options: ...
    @property
    def delivery(self) -> Delivery: ...
    @property
    def flush_queue(self) -> FlushQueue: ...
    @property
    def subscription_bytes_max(self) -> int:
        """Memory that subscriptions of one account may take."""

    def now_ns(self) -> int: ...
    def info_line(self, connection: ClientConnection, *, after_connect: bool = False) -> bytes: ...
    def authenticate(self, connection: ClientConnection, connect: ConnectInfo) -> None: ...
    def account_of(self, identity: Identity) -> Account | None: ...
    def connected(self, connection: ClientConnection) -> None: ...
    def closed(self, connection: ClientConnection, reason: CloseReason) -> None: ...
    def in_steps(self, work: Iterator[None]) -> None:
        """Do the first step of some work now, and the others when everybody else had a turn."""

    def log(self, level: str, connection: ClientConnection, text: str) -> None: ...
    def mapped(self, connection: ClientConnection, subject: bytes) -> bytes | None: ...
    def publish(
        self, connection: ClientConnection, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> int: ...
    def trace_request(self, connection: ClientConnection, header: bytes) -> TraceRequest | None: ...
    def publish_traced(
        self,
        connection: ClientConnection,
        traced: TraceRequest,
        published: bytes,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> int: ...
