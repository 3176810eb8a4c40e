"""What the peer of one leaf link is told of the interest here: `LS+` with the first subscription, `LS-` with the last.

    to a hub    what is here: clients, streams and services of this server, and leafs of this server
    to a leaf   all that is known, other servers of the cluster, other clusters and other leafs included

and in both cases never what came over the link itself, or from the cluster that the peer belongs to. Subjects that show
loops (`$LDS.`) go everywhere, so that whoever hears its own knows.

Service imports and mappings are no subscriptions, and are told as if they were. Who subscribes to a stream import
counts in the exporting account, where the message is published: with the whole subject of the import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from slipstream.accounts.account import IMPORTING_SID
from slipstream.kernels.subjects.subject import overlaps
from slipstream.kernels.wire.receivers import GATEWAY, HUB_LEAF, ROUTE, SPOKE_LEAF
from slipstream.links.leafs.crossing import LOOP_PREFIX

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.kernels.wire.receivers import Link, Subscription

__all__ = ["LeafInterest"]

_STEP = 2_000  # subscriptions counted in one go: some 2 ms of work

Asked = tuple[bytes, bytes | None]  # subject, queue group


class LeafInterest:
    """Interest of one account, as the peer of one link knows it.

    Args:
        account: whose interest it is.
        link: over which it is told.
        is_told: whether the peer may send a subject at all.
        imports: the stream imports of an account.
        isolated: the peer learns nothing of other leafs.
    """

    def __init__(
        self,
        account: Account,
        link: Link,
        is_told: Callable[[bytes], bool],
        imports: Callable[[str], tuple[StreamImport, ...]],
        *,
        isolated: bool,
    ) -> None:
        self._account = account
        self._link = link
        self._is_told = is_told
        self._imports = imports
        self._isolated = isolated
        self._counts: dict[Asked, int] = {}
        self._watched: list[Account] = []
        self._uncounted: dict[Subscription, Account] = {}  # were here before, and are still to be counted
        self._before: dict[Asked, int] = {}  # told by the configuration before, and not yet found again

    def __len__(self) -> int:
        return len(self._counts)

    def begin(self, importers: Iterable[Account], always: Iterable[bytes]) -> Iterator[None]:
        """Tell all there is, in pieces, and every change from now on; again after the configuration has changed.

        Args:
            importers: accounts that import streams of this one.
            always: subjects that are wanted whoever subscribes: service imports, mappings, the loop detection.
        """
        self._stop_watching()
        self._before, self._counts = self._counts, {}
        self._watched = [self._account, *importers]
        for account in self._watched:
            account.interest_watchers.append(self)
        self._uncounted = {
            subscription: account for account in self._watched for subscription in account.interest.subscriptions()
        }
        return self._tell_all(list(always))

    def _tell_all(self, always: list[bytes]) -> Iterator[None]:
        touched = dict.fromkeys([asked for subject in always for asked in self._add((subject, None), 1)])
        while True:
            for _ in range(min(_STEP, len(self._uncounted))):
                subscription, account = self._uncounted.popitem()
                touched.update(dict.fromkeys(self._count(account, subscription, subscription.weight)))
            self._link.outbox.write(b"".join([_line(asked, self._counts.get(asked, 0)) for asked in touched]))
            if not self._uncounted:
                break
            touched = {}
            yield
        gone, self._before = self._before, {}
        if gone:
            self._link.outbox.write(b"".join([_line(asked, 0) for asked in gone if asked not in self._counts]))

    def end(self) -> None:
        """The link is gone."""
        self._stop_watching()
        self._uncounted = {}
        self._counts = {}

    def _stop_watching(self) -> None:
        for account in self._watched:
            if self in account.interest_watchers:
                account.interest_watchers.remove(self)
        self._watched = []

    def changed(self, account: Account, subscription: Subscription, delta: int) -> None:
        """A subscription came, went, or stands for more or fewer members."""
        if self._uncounted and subscription in self._uncounted:
            if subscription.closed:
                del self._uncounted[subscription]
            return
        for asked in self._count(account, subscription, delta):
            self._link.outbox.write(_line(asked, self._counts.get(asked, 0)))

    def came(self, account: Account, subscriptions: list[Subscription]) -> None:
        """Subscriptions of one other server came, none of them in a queue group."""
        if subscriptions[0].link is not self._link:
            for subscription in subscriptions:
                self.changed(account, subscription, 1)

    def _count(self, account: Account, subscription: Subscription, delta: int) -> list[Asked]:
        """Count a subscription; gives what is to be told."""
        if not self._is_relevant(subscription):
            return []
        if account is self._account:
            return self._add((subscription.subject, subscription.queue), delta)
        if subscription.client is None and subscription.sid != IMPORTING_SID:
            return []
        told: list[Asked] = []
        for stream in self._imports(account.name):
            if stream.exporter == self._account.name and overlaps(stream.subject, subscription.subject):
                told += self._add((stream.remote, subscription.queue), delta)
        return told

    def _is_relevant(self, subscription: Subscription) -> bool:
        link, to = subscription.link, self._link
        if link is None:
            return True
        if link is to:
            return False
        origin = subscription.origin if link.kind == ROUTE else link.cluster
        if origin is not None and origin == to.cluster:
            return False
        if subscription.subject.startswith(LOOP_PREFIX):
            return True
        if to.kind == SPOKE_LEAF:
            return link.kind == HUB_LEAF
        return link.kind in (ROUTE, GATEWAY) or not self._isolated

    def _add(self, asked: Asked, delta: int) -> list[Asked]:
        before = self._counts.get(asked, 0)
        if not before and not self._is_told(asked[0]):
            return []
        after = before + delta
        if after > 0:
            self._counts[asked] = after
        else:
            after = 0
            self._counts.pop(asked, None)
        if self._before and after and asked in self._before:
            known = self._before.pop(asked)
            return [] if asked[1] is None or known == after else [asked]
        changed = after != before and (asked[1] is not None or not (before and after))
        return [asked] if changed else []


def _line(asked: Asked, count: int) -> bytes:
    subject, queue = asked
    if not count:
        return b"LS- %b%b\r\n" % (subject, b"" if queue is None else b" " + queue)
    if queue is None:
        return b"LS+ %b\r\n" % subject
    return b"LS+ %b %b %d\r\n" % (subject, queue, count)
