"""A client as its account knows it, and whoever listens in the account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.identity import Identity

__all__ = ["Member"]


class _Counted(Protocol):
    @property
    def msgs(self) -> int: ...
    @property
    def msg_bytes(self) -> int: ...


class _Peer(Protocol):
    @property
    def ip(self) -> str: ...
    @property
    def kind(self) -> str: ...


class Member(Protocol):
    """One client, let into an account."""

    @property
    def cid(self) -> int: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def identity(self) -> Identity | None: ...
    @property
    def peer(self) -> _Peer: ...
    @property
    def name(self) -> str: ...
    @property
    def lang(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def rtt_ns(self) -> int: ...
    @property
    def no_responders(self) -> bool:
        """Whether it wants to know that nobody took a request."""
        ...

    @property
    def parser(self) -> _Counted:
        """What it published."""
        ...

    @property
    def outbox(self) -> _Counted:
        """What it got."""
        ...

    def grants(self, subject: bytes) -> bool:
        """Whether it may publish to a subject, or to all that a pattern matches."""
        ...

    def answerable(self, reply: bytes, crossed: bool = False) -> bytes:
        """A reply it named, as the server itself may use it."""
        ...

    def on_no_responders(self, subject: bytes, reply: bytes) -> None:
        """Nobody took a request of it."""
        ...
