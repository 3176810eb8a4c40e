"""What other clusters are told of the interest here: `RS+` with the first subscription, `RS-` with the last.

Counted by account, subject and queue group, over the whole cluster: what servers of the cluster want counts as what is
here does. So each server tells the same, and each other cluster needs a connection to one server only. Leaf nodes of
this server count; hubs of which it is a leaf, and other clusters, do not.

A client that subscribes to an import counts in the exporting account, too: there the message is published. Another
server of the cluster has done that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from slipstream.accounts.account import HERE_SID, IMPORTING_SID
from slipstream.kernels.subjects.subject import overlaps
from slipstream.kernels.wire.receivers import HUB_LEAF, ROUTE

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.kernels.wire.receivers import Subscription

__all__ = ["Asked", "ClusterInterest", "told_line"]

_STEP: Final = 2_000  # subjects told in one go: some 2 ms of work

Asked = tuple[bytes, bytes | None]  # subject, queue group


class ClusterInterest:
    """Interest of all accounts of one cluster.

    Args:
        imports: the stream imports of an account.
        tell: passes a change on: the account's name, what, and whether it is wanted.
        subscribed: somebody at this server subscribed, whoever else did before.
    """

    def __init__(
        self,
        imports: Callable[[str], tuple[StreamImport, ...]],
        tell: Callable[[str, Asked, bool], None],
        subscribed: Callable[[str, bytes], None],
    ) -> None:
        self._imports = imports
        self._tell = tell
        self._subscribed = subscribed
        self._counts: dict[str, dict[Asked, int]] = {}

    def watch(self, account: Account) -> bool:
        """Count the subscriptions of an account from now on; False if that is done already."""
        if self in account.interest_watchers:
            return False
        account.interest_watchers.append(self)
        for subscription in account.interest.subscriptions():
            self._count(account, subscription, subscription.weight)
        return True

    def changed(self, account: Account, subscription: Subscription, delta: int) -> None:
        """A subscription came, went, or stands for more or fewer members."""
        if self._count(account, subscription, delta) and delta > 0:
            self._subscribed(account.name, subscription.subject)

    def came(self, account: Account, subscriptions: list[Subscription]) -> None:
        """Subscriptions of one other server came, none of them in a queue group."""
        link = subscriptions[0].link
        if link is None or link.kind in (ROUTE, HUB_LEAF):
            for subscription in subscriptions:
                self.changed(account, subscription, 1)

    def _count(self, account: Account, subscription: Subscription, delta: int) -> bool:
        """Count it; whether it is of this server or a leaf of it."""
        link = subscription.link
        if link is not None and link.kind not in (ROUTE, HUB_LEAF):
            return False
        if subscription.sid == HERE_SID and subscription.client is None:
            return False
        asked = (subscription.subject, subscription.queue)
        self._add(account.name, asked, delta)
        if link is not None and link.kind == ROUTE:
            return False
        if subscription.client is not None or subscription.sid == IMPORTING_SID:
            for stream in self._imports(account.name):
                if overlaps(stream.subject, subscription.subject):
                    self._add(stream.exporter, (stream.remote, subscription.queue), delta)
        return True

    def _add(self, account: str, asked: Asked, delta: int) -> None:
        counts = self._counts.setdefault(account, {})
        before = counts.get(asked, 0)
        after = max(before + delta, 0)
        if after:
            counts[asked] = after
        else:
            counts.pop(asked, None)
        if bool(before) != bool(after):
            self._tell(account, asked, bool(after))

    def queue_lines(self) -> Iterator[bytes]:
        """All queue groups of all accounts, in pieces."""
        for account in list(self._counts):
            yield from self._lines(account, queues=True)

    def plain_lines(self, account: str) -> Iterator[bytes]:
        """All else that one account wants, in pieces."""
        return self._lines(account, queues=False)

    def _lines(self, account: str, *, queues: bool) -> Iterator[bytes]:
        counts, prefix = self._counts.get(account, {}), account.encode() + b" "
        told = [asked for asked in counts if (asked[1] is not None) == queues]
        for start in range(0, len(told), _STEP):
            # As of now: what changed since the first piece was told by itself.
            yield b"".join(
                [told_line(prefix, asked, wanted=True) for asked in told[start : start + _STEP] if asked in counts]
            )


def told_line(prefix: bytes, asked: Asked, *, wanted: bool) -> bytes:
    """The line for one change; `prefix` is the account with a blank. Queue groups weigh the same in all clusters."""
    subject, queue = asked
    if not wanted:
        return b"RS- %b%b%b\r\n" % (prefix, subject, b"" if queue is None else b" " + queue)
    return b"RS+ %b%b%b\r\n" % (prefix, subject, b"" if queue is None else b" " + queue + b" 1")
