"""Where the services of the system account are listened for: the subjects, and nothing else.

In the system account everything can be asked; in every other account a few things, and only about the account itself.
An account that came with a reload gets its listeners with it. What answers is imported with the first request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.kernels.wire.receivers import Subscription
    from slipstream.monitoring.facts import Facts
    from slipstream.monitoring.system.answers import ServiceAnswers, ServiceRequest
    from slipstream.monitoring.system.envelope import Sender
    from slipstream.monitoring.system.events import Events
    from slipstream.monitoring.system.own_requests import OwnRequests
    from slipstream.monitoring.worker import Worker
    from slipstream.protocol.connection import ClientConnection

__all__ = ["HERE_SUBJECTS", "OWN_SUBJECTS", "SYSTEM_SUBJECTS", "Requests"]

Answer = Callable[["ServiceAnswers", "ServiceRequest"], bool]

# One subject for each form; which names and ids exist is decided when a request comes.
SYSTEM_SUBJECTS: dict[bytes, Answer] = {
    b"$SYS.REQ.SERVER.PING": lambda answers, request: answers.answer_system(request),
    b"$SYS.REQ.SERVER.*.*": lambda answers, request: answers.answer_system(request),
    b"$SYS.REQ.ACCOUNT.*.*": lambda answers, request: answers.answer_system(request),
    b"$SYS.REQ.USER.INFO": lambda answers, request: answers.answer_user(request),
    b"$SYS.REQ.ACCOUNT.NSUBS": lambda answers, request: answers.count_interest(request),
    b"$SYS.DEBUG.SUBSCRIBERS": lambda answers, request: answers.count_subscribers(request),
}
# What an ordinary account may ask. The list is the authorisation: nobody listens there for anything else.
OWN_SUBJECTS: dict[bytes, Answer] = {
    b"$SYS.REQ.SERVER.PING.CONNZ": lambda answers, request: answers.answer_own(request),
    b"$SYS.REQ.ACCOUNT.PING.CONNZ": lambda answers, request: answers.answer_own(request),
    b"$SYS.REQ.ACCOUNT.PING.STATZ": lambda answers, request: answers.answer_own(request),
    b"$SYS.REQ.USER.INFO": lambda answers, request: answers.answer_user(request),
}


# What only the server of a client can answer.
HERE_SUBJECTS = frozenset((b"$SYS.REQ.USER.INFO", b"$SYS.DEBUG.SUBSCRIBERS"))


class Requests:
    """The listeners of one server."""

    def __init__(self, facts: Facts, events: Events, sender: Callable[[], Sender], worker: Worker) -> None:
        """Nobody listens yet."""
        self._facts = facts
        self._events = events
        self._sender = sender
        self._worker = worker
        self._answers: ServiceAnswers | None = None
        self._own: OwnRequests | None = None  # with other servers
        # By account, as an object: a reload may replace an account by another of the same name.
        self._listening: dict[Account, list[Subscription]] = {}

    def start(self) -> None:
        """Listen in every account there is now; again after a reload."""
        accounts = set(self._facts.accounts.values())
        for gone in self._listening.keys() - accounts:
            del self._listening[gone]
        for account in accounts:
            self.listen(account)

    def listen(self, account: Account) -> None:
        """Listen in one account, if that is not so already."""
        if account not in self._listening:
            subjects = SYSTEM_SUBJECTS if account.is_system else OWN_SUBJECTS
            self._listening[account] = [
                account.subscribe(
                    subject,
                    self._listener(account, answer, here=is_here),
                    here=is_here,
                )
                for subject, answer in subjects.items()
                for is_here in [not account.is_system or subject in HERE_SUBJECTS]
            ]

    def join_cluster(self, system: Account) -> None:
        """There may be other servers from now on."""
        from slipstream.monitoring.system.own_requests import OwnRequests

        self._own = OwnRequests(self._facts, system)

    def stop(self) -> None:
        """Listen no more."""
        if self._own is not None:
            self._own.stop()
        for account, subscriptions in self._listening.items():
            for subscription in subscriptions:
                account.remove(subscription)
        self._listening.clear()

    def _listener(self, account: Account, answer: Answer, *, here: bool) -> Callable[..., bool]:
        def on_request(
            asker: ClientConnection | None, subject: bytes, reply: bytes | None, header_size: int, message: bytes
        ) -> bool:
            from slipstream.links.presence import LinkMember
            from slipstream.monitoring.system.answers import ServiceRequest

            if here and isinstance(asker, LinkMember) and asker.is_route:
                return False  # a question to another server, which somebody here listens to as well
            text = subject.decode("utf-8", "surrogateescape")
            request = ServiceRequest(account, asker, text, reply, message[:header_size], message[header_size:])
            return answer(self._ready_answers(), request)

        return on_request

    def _ready_answers(self) -> ServiceAnswers:
        if self._answers is None:
            from slipstream.monitoring.system.answers import ServiceAnswers

            self._answers = ServiceAnswers(self._sender(), self._events, self._worker, self._own)
        return self._answers
