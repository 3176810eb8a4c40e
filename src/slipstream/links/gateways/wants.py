"""What another cluster wants, as told over one outbound connection, account by account.

    OPTIMISTIC ──INFO: all follows──► TRANSITIONING ──INFO: that was all──► INTEREST_ONLY
       everything is sent but what was refused (`RS-`), or nothing after `A-` until `A+`
                                     interest is taken down (`RS+`); until all is there, things are sent as before
                                                                           only what is asked for is sent

Queue groups are told in every mode, and an account has them without any other word. Servers of today tell everything
right away (`gateway_iom`): then nothing is sent on a guess, and an account that was not spoken of wants nothing.

A guess is one subscription to everything that is asked about for each subject (`Guess`). In each account there is one
more, to the addresses of the other cluster: answers find there by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from slipstream.kernels.subjects.subject import is_literal, is_subset
from slipstream.links.gateways.addresses import ADDRESS_MARK
from slipstream.links.presence import LinkMember

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.kernels.wire.receivers import Subscription
    from slipstream.links.end import LinkEnd

__all__ = ["AccountWants", "InterestMode", "RemoteWants"]

_EVERYTHING: Final = b">"
_GUESSED: Final = b"?"  # in the place of an origin: tells a guess from what the peer asked for
_REFUSED_MAX: Final = 10_000  # subjects of an account; servers change the mode at a thousand
_WAITING_MAX: Final = 100_000  # subjects of accounts that are not known here


class InterestMode(StrEnum):
    """How it is decided what an account of the other cluster is sent."""

    OPTIMISTIC = "Optimistic"
    TRANSITIONING = "Transitioning"
    INTEREST_ONLY = "Interest-Only"


class Guess:
    """Subjects that another cluster does not want, as far as it said. Asked as the rights of a client are."""

    def __init__(self) -> None:
        self.refused: set[bytes] = set()

    def denies_delivery(self, subject: bytes, _queue: bytes | None = None) -> bool:
        """Whether a message need not be sent."""
        return subject in self.refused


class AccountWants:
    """One account of the other cluster."""

    def __init__(self) -> None:
        self.mode = InterestMode.OPTIMISTIC
        self.absent = False  # `A-`: nobody is there
        self.spoken_of = False  # the peer has said something about it
        self.guess = Guess()
        self.queues = 0  # groups it has
        self.member: LinkMember | None = None  # None: no such account here
        self.waiting: dict[tuple[bytes, bytes | None], int] = {}  # for an account that may come

    @property
    def guesses(self) -> bool:
        """Whether things are sent that nobody asked for."""
        return self.mode is not InterestMode.INTEREST_ONLY and not self.absent

    @property
    def count(self) -> int:
        """How many subjects were asked for."""
        if self.member is None:
            return len(self.waiting)
        return len(self.member) - 1 - self.member.has(_EVERYTHING, None, _GUESSED)

    def subscriptions(self) -> list[Subscription]:
        """What was asked for."""
        if self.member is None:
            return []
        return [
            subscription
            for subscription in self.member.subscriptions()
            if subscription.origin is None and not subscription.subject.startswith(ADDRESS_MARK)
        ]


class RemoteWants:
    """What the peer of one outbound connection wants.

    Args:
        end: of the connection.
        addresses: the pattern of all addresses of the other cluster.
        find: an account of this server.
        tells_all: interest is told right away, for all accounts.
    """

    def __init__(
        self, end: LinkEnd, addresses: bytes, find: Callable[[str], Account | None], *, tells_all: bool
    ) -> None:
        self._end = end
        self._addresses = addresses
        self._find = find
        self._tells_all = tells_all
        self.accounts: dict[bytes, AccountWants] = {}
        self._waiting = 0

    def join(self, account: Account) -> None:
        """Take part in an account of this server."""
        name = account.name.encode()
        wants = self.accounts.setdefault(name, AccountWants())
        if wants.member is not None:
            return
        wants.member = member = LinkMember(self._end, account, self._end.link, name + b" ", wants.guess)
        member.add(self._addresses, None, 1, None)
        waiting, wants.waiting = wants.waiting, {}
        self._waiting -= len(waiting)
        for (subject, queue), weight in waiting.items():
            member.add(subject, queue, weight, None)
        self._guess_again(wants)

    def _guess_again(self, wants: AccountWants) -> None:
        """Follow another mode, or another word about the account."""
        member = wants.member
        if member is None or self._tells_all:
            return
        if wants.guesses:
            member.add(_EVERYTHING, None, 1, _GUESSED, checked=True)
        else:
            member.remove(_EVERYTHING, None, _GUESSED)

    def _of(self, account: bytes) -> AccountWants:
        wants = self.accounts.get(account)
        if wants is None:
            wants = self.accounts[account] = AccountWants()
            found = self._find(account.decode("utf-8", "replace"))
            if found is not None:
                self.join(found)
        wants.spoken_of = True
        return wants

    # --- what the peer says ------------------------------------------------------------------------------------------

    def all_start(self, account: bytes) -> None:
        """All interest of an account follows."""
        wants = self._of(account)
        wants.mode, wants.absent = InterestMode.TRANSITIONING, False
        self._guess_again(wants)

    def all_complete(self, account: bytes) -> None:
        """That was all: nothing is sent on a guess any more."""
        wants = self.accounts.get(account)
        if wants is not None:
            wants.mode = InterestMode.INTEREST_ONLY
            wants.guess.refused.clear()
            self._guess_again(wants)

    def account_gone(self, account: bytes) -> None:
        """`A-`: nobody in the account wants anything."""
        wants = self._of(account)
        wants.absent = True
        wants.guess.refused.clear()
        self._guess_again(wants)

    def account_back(self, account: bytes) -> None:
        """`A+`: somebody does."""
        wants = self._of(account)
        wants.absent = False
        self._guess_again(wants)

    def add_all(self, account: bytes, subjects: list[bytes]) -> None:
        """`RS+` without queue groups: subjects are wanted, or wanted again."""
        known = self.accounts.get(account)
        if known is None:
            return
        if known.mode is InterestMode.OPTIMISTIC:
            self._forgive(known, subjects)
        elif known.member is not None:
            known.member.add_all(subjects)
        else:
            for subject in subjects:
                self.add(account, subject, None, 1)

    def add(self, account: bytes, subject: bytes, queue: bytes | None, weight: int) -> None:
        """`RS+`: a subject is wanted, in a queue group or of an account that may come."""
        wants = self._of(account)
        wants.queues += queue is not None and not self._has(wants, subject, queue)
        if wants.member is not None:
            wants.member.add(subject, queue, weight, None)
        elif self._waiting < _WAITING_MAX:
            self._waiting += (subject, queue) not in wants.waiting
            wants.waiting[subject, queue] = weight
        else:
            self._end.log("ERR", "Too much interest in accounts that are not known here")

    def remove(self, account: bytes, subject: bytes, queue: bytes | None) -> None:
        """`RS-`: a subject is not wanted (any more)."""
        known = self.accounts.get(account)
        if queue is None and (known is None or known.mode is InterestMode.OPTIMISTIC):
            self._refuse(self._of(account), subject)
            return
        if known is None:
            return
        known.queues -= queue is not None and self._has(known, subject, queue)
        if known.member is not None:
            known.member.remove(subject, queue, None)
        elif known.waiting.pop((subject, queue), None) is not None:
            self._waiting -= 1

    def _has(self, wants: AccountWants, subject: bytes, queue: bytes | None) -> bool:
        if wants.member is not None:
            return wants.member.has(subject, queue)
        return (subject, queue) in wants.waiting

    def _refuse(self, wants: AccountWants, subject: bytes) -> None:
        if len(wants.guess.refused) < _REFUSED_MAX:
            wants.guess.refused.add(subject)
        self._routes_changed(wants)

    def _forgive(self, wants: AccountWants, subjects: list[bytes]) -> None:
        refused = wants.guess.refused
        for subject in subjects:
            refused -= {subject} if is_literal(subject) else {one for one in refused if is_subset(one, subject)}
        self._routes_changed(wants)

    def _routes_changed(self, wants: AccountWants) -> None:
        if wants.member is not None and wants.member.account is not None:
            wants.member.account.interest.forget_all()

    def leave(self, in_steps: Callable[[Iterator[None]], None]) -> None:
        """The connection is gone."""
        accounts, self.accounts = self.accounts, {}
        for wants in accounts.values():
            if wants.member is not None:
                wants.member.leave(in_steps)
