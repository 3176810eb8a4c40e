"""Where a replica's stream runs while this server leads it: in its account, or held back while a backup fills it."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.stream import Stream

__all__ = ["ReplicaHost"]


class ReplicaHost:
    """Of one replica. Implements `StreamHost`."""

    def __init__(
        self, account: JetStreamAccount, is_restoring: Callable[[], bool], released: Callable[[], None]
    ) -> None:
        """In an account.

        Args:
            account: where the stream is when it is open.
            is_restoring: whether it is to be filled first.
            released: told that a stream which was held back is no more.
        """
        self._account = account
        self._is_restoring = is_restoring
        self._released = released
        self.held: Stream | None = None
        """The stream, while it is led here and not open: it commits, and that is all."""

    def lead_stream(self, store: Store, replication: Replication) -> Stream:
        """See `StreamHost`."""
        if not self._is_restoring():
            return self._account.lead_stream(store, replication)
        self.held = self._account.hold_stream(store, replication)
        return self.held

    def release_stream(self, name: str, *, deleted: bool = False) -> None:
        """See `StreamHost`."""
        held, self.held = self.held, None
        if held is None:
            self._account.release_stream(name, deleted=deleted)
            return
        self._released()
        self._account.end_held(held)
