"""What an account asks about itself, when there are other servers: all of them answer.

The question goes on in the system account, which servers share, under the account's name; answers come to an inbox of
this server and go from there to who asked.

    account: $SYS.REQ.SERVER.PING.CONNZ ──► system: $SYS.REQ.ACCOUNT.<account>.CONNZ ──► all servers
    account: reply ◄── system: $SYS._INBOX_.<server>.<token> ◄── each of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.monitoring.limits import OWN_REQUEST_NS, OWN_REQUESTS_MAX

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.monitoring.facts import Facts

__all__ = ["OwnRequests"]


class OwnRequests:
    """Questions of accounts under way."""

    def __init__(self, facts: Facts, system: Account) -> None:
        self._facts = facts
        self._system = system
        self._inbox = f"$SYS._INBOX_.{facts.server_id}.".encode()
        self._subscription = system.subscribe(self._inbox + b"*", self._on_answer)
        # Token → account, reply, until when; the first that was asked is the first to end.
        self._asked: dict[bytes, tuple[Account, bytes, int]] = {}
        self._count = 0

    def stop(self) -> None:
        """Pass nothing on any more."""
        self._system.remove(self._subscription)
        self._asked.clear()

    def ask(self, account: Account, service: str, reply: bytes, header: bytes, body: bytes) -> None:
        """Ask all servers, this one among them."""
        now_ns = self._facts.now_ns()
        while self._asked:
            oldest = next(iter(self._asked))
            if self._asked[oldest][2] > now_ns and len(self._asked) < OWN_REQUESTS_MAX:
                break
            del self._asked[oldest]
        self._count += 1
        token = b"%d" % self._count
        self._asked[token] = (account, reply, now_ns + OWN_REQUEST_NS)
        subject = f"$SYS.REQ.ACCOUNT.{account.name}.{service}".encode()
        self._system.publish(subject, self._inbox + token, len(header), header + body)

    def _on_answer(
        self, _publisher: object, subject: bytes, _reply: bytes | None, header_size: int, message: bytes
    ) -> bool:
        asked = self._asked.get(subject[len(self._inbox) :])
        if asked is not None:
            account, reply, _ = asked
            account.publish(reply, None, header_size, message)
        return True
