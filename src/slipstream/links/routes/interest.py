"""What the servers of a cluster are told of the interest here: `RS+` with the first subscription, `RS-` with the last.

Counted by account, subject and queue group; of a queue group each change of its number of members is told. What is here
counts: clients, streams and services of this server, not what other servers want. Leaf nodes count with their cluster
(`LS+`), so that nothing goes back there.

A client that subscribes to an import counts in the exporting account, too: there the message is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slipstream.accounts.account import HERE_SID, IMPORTING_SID
from slipstream.kernels.subjects.subject import overlaps
from slipstream.kernels.wire.receivers import HUB_LEAF

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.kernels.wire.receivers import Subscription

__all__ = ["LocalInterest", "Wanted"]

_STEP = 2_000  # subjects told, or subscriptions counted, in one go: some 2 ms of work

# subject, queue group, cluster of the leaf node that wants it
Wanted = tuple[bytes, bytes | None, bytes | None]


class LocalInterest:
    """Interest of all accounts, as other servers know it.

    Args:
        imports: the stream imports of an account.
        tell: passes a change on: the account's name, what, and how many want it now.
    """

    def __init__(
        self, imports: Callable[[str], tuple[StreamImport, ...]], tell: Callable[[str, Wanted, int], None]
    ) -> None:
        self._imports = imports
        self._tell = tell
        self._counts: dict[str, dict[Wanted, int]] = {}

    def count(self, account: str) -> int:
        """How many subjects an account wants."""
        return len(self._counts.get(account, ()))

    def watch(self, account: Account) -> None:
        """Count the subscriptions of an account from now on."""
        if self in account.interest_watchers:
            return
        account.interest_watchers.append(self)
        for subscription in account.interest.subscriptions():
            self.changed(account, subscription, subscription.weight)

    def changed(self, account: Account, subscription: Subscription, delta: int) -> None:
        """A subscription came, went, or stands for more or fewer members."""
        link = subscription.link
        if link is not None and link.kind != HUB_LEAF:
            return
        inside = subscription.client is None
        if inside and subscription.sid == HERE_SID:
            return
        subject, queue, origin = subscription.subject, subscription.queue, None if link is None else link.cluster
        self._add(account.name, (subject, queue, origin), delta)
        if inside and subscription.sid != IMPORTING_SID:
            return
        for stream in self._imports(account.name):
            if overlaps(stream.subject, subject):
                self._add(stream.exporter, (stream.remote, queue, origin), delta)

    def came(self, account: Account, subscriptions: list[Subscription]) -> None:
        """Subscriptions of one other server came, none of them in a queue group."""
        link = subscriptions[0].link
        if link is None or link.kind == HUB_LEAF:
            for subscription in subscriptions:
                self.changed(account, subscription, 1)

    def _add(self, account: str, wanted: Wanted, delta: int) -> None:
        counts = self._counts.get(account)
        if counts is None:
            counts = self._counts[account] = {}
        before = counts.get(wanted, 0)
        after = before + delta
        if after > 0:
            counts[wanted] = after
        else:
            after = 0
            counts.pop(wanted, None)
        if after != before and (wanted[1] is not None or not (before and after)):
            self._tell(account, wanted, after)

    def lines(
        self, accounts: list[str], prefixes: Callable[[str], bytes], may_ask: Callable[[bytes], bool]
    ) -> Iterator[bytes]:
        """All there is in these accounts, and may be asked for, in pieces."""
        for account in accounts:
            prefix, counts = prefixes(account), self._counts.get(account, {})
            told = list(counts)
            for start in range(0, len(told), _STEP):
                # As of now: what changed since the first piece was told by itself.
                now = [(wanted, counts[wanted]) for wanted in told[start : start + _STEP] if wanted in counts]
                yield b"".join([wanted_line(prefix, wanted, count) for wanted, count in now if may_ask(wanted[0])])

    def wanted(self, account: str) -> list[tuple[Wanted, int]]:
        """All that an account wants, with numbers."""
        return list(self._counts.get(account, {}).items())


def wanted_line(prefix: bytes, wanted: Wanted, count: int) -> bytes:
    """The line for one change; `prefix` is the account with a blank, or nothing on a route of one account."""
    subject, queue, origin = wanted
    if count and queue is None and origin is None:
        return b"RS+ " + prefix + subject + b"\r\n"
    head = b"RS" if origin is None else b"LS"
    if origin is not None:
        prefix = origin + b" " + prefix
    if not count:
        return b"%b- %b%b%b\r\n" % (head, prefix, subject, b"" if queue is None else b" " + queue)
    if queue is None:
        return b"%b+ %b%b\r\n" % (head, prefix, subject)
    return b"%b+ %b%b %b %d\r\n" % (head, prefix, subject, queue, count)
