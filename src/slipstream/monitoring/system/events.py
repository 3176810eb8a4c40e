"""What the server tells the system account by itself, as long as anybody there listens.

    $SYS.ACCOUNT.<account>.CONNECT, .DISCONNECT          a client or a leaf node came or went
    $SYS.ACCOUNT.<account>.SERVER.CONNS                  connections of an account, on change and every 30 s;
    $SYS.SERVER.ACCOUNT.<account>.CONNS                  the older name of the same; not for the global account
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR                     somebody was not let in; the same is told to the account it
    $SYS.ACCOUNT.CLIENT.AUTH.ERR                         belongs to by then, or to that of the auth callout
    $SYS.SERVER.<id>.STATSZ                              numbers, every 10 s, at first more often
    $SYS.SERVER.<id>.LAMEDUCK, .SHUTDOWN                 the server is going

Nothing is built for a subject without interest, so events cost a look into the subscription table each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.monitoring.limits import ACCOUNT_CONNECTIONS_INTERVAL_NS, STATSZ_FIRST_NS, STATSZ_INTERVAL_NS

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.identity import Denied
    from slipstream.links.leafs.link import LeafLink
    from slipstream.links.leafs.nodes import LeafNodes
    from slipstream.monitoring.facts import Facts
    from slipstream.monitoring.system.envelope import Sender
    from slipstream.protocol.connection import ClientConnection
    from slipstream.protocol.texts import CloseReason
    from slipstream.routing.deadlines import Cancellable
    from slipstream.routing.hub import ClosedConnection

__all__ = ["Events"]

_DENIED = "$SYS.ACCOUNT.CLIENT.AUTH.ERR"


class Events:
    """The events of one server.

    Args:
        facts: the server.
        sender: who publishes; made when there is something to publish.
    """

    def __init__(self, facts: Facts, sender: Callable[[], Sender]) -> None:
        self._facts = facts
        self._sender = sender
        self._interval_ns = STATSZ_FIRST_NS
        self._statsz_timer: Cancellable | None = None
        self._conns_timer: Cancellable | None = None

    def start(self) -> None:
        """Listen to the hub and to the clock."""
        hub, server = self._facts.hub, self._facts.server
        hub.on_connected.append(self.on_connected)
        hub.on_closed.append(self.on_closed)
        hub.logins.on_denied.append(self.on_denied)
        self._statsz_timer = server.turns.call_later(self._interval_ns, self._on_statsz_timer)
        self._conns_timer = server.turns.call_later(ACCOUNT_CONNECTIONS_INTERVAL_NS, self._on_conns_timer)

    def stop(self) -> None:
        """Say no more."""
        hub = self._facts.hub
        for listeners, listener in (
            (hub.on_connected, self.on_connected),
            (hub.on_closed, self.on_closed),
            (hub.logins.on_denied, self.on_denied),
        ):
            if listener in listeners:
                listeners.remove(listener)  # type: ignore[arg-type]  # each list holds its own kind of listener
        for timer in (self._statsz_timer, self._conns_timer):
            if timer is not None:
                timer.cancel()
        self._statsz_timer = self._conns_timer = None

    # --- clients --------------------------------------------------------------------------------------------------

    def on_connected(self, connection: ClientConnection) -> None:
        """A client was let in."""
        account = connection.account
        assert account is not None
        self._tell_connections(account)
        subject = f"$SYS.ACCOUNT.{account.name}.CONNECT"
        if self._facts.is_heard(subject):
            from slipstream.monitoring.system.event_messages import connected

            sender = self._sender()
            sender.publish(subject, connected(sender, connection))

    def on_closed(self, closed: ClosedConnection) -> None:
        """A connection ended, whether its client was ever let in or not."""
        connection = closed.connection
        subject = f"$SYS.ACCOUNT.{self._facts.account_name_of(connection)}.DISCONNECT"
        if self._facts.is_heard(subject):
            from slipstream.monitoring.system.event_messages import disconnected

            sender = self._sender()
            sender.publish(subject, disconnected(sender, connection, closed.reason, closed.stop_ns))
        if connection.account is not None:
            self._tell_connections(connection.account)

    def on_denied(self, connection: ClientConnection, denied: Denied) -> None:
        """A client was not let in."""
        account = self._facts.accounts.get(denied.account or self._facts.account_name_of(connection))
        if account is not None and account.has_interest(_DENIED.encode()):
            self._publish_denied(connection, denied, _DENIED, account)
        subject = f"$SYS.SERVER.{self._facts.server_id}.CLIENT.AUTH.ERR"
        if self._facts.is_heard(subject):
            self._publish_denied(connection, denied, subject)

    # --- leaf nodes -----------------------------------------------------------------------------------------------

    def watch_leafs(self, leafs: LeafNodes) -> None:
        """Tell of leaf nodes, too."""
        leafs.on_connected.append(self.on_leaf_connected)
        leafs.on_closed.append(self.on_leaf_closed)

    def on_leaf_connected(self, link: LeafLink) -> None:
        """A leaf link is open, whichever side dialled."""
        assert link.account is not None
        self._tell_connections(link.account)
        subject = f"$SYS.ACCOUNT.{link.account.name}.CONNECT"
        if self._facts.is_heard(subject):
            from slipstream.monitoring.system.event_messages import leaf_connected

            sender = self._sender()
            sender.publish(subject, leaf_connected(sender, link))

    def on_leaf_closed(self, link: LeafLink, reason: CloseReason) -> None:
        """A leaf link that was open is gone."""
        assert link.account is not None
        subject = f"$SYS.ACCOUNT.{link.account.name}.DISCONNECT"
        if self._facts.is_heard(subject):
            from slipstream.monitoring.system.event_messages import leaf_disconnected

            sender = self._sender()
            sender.publish(subject, leaf_disconnected(sender, link, reason, self._facts.now_ns()))
        self._tell_connections(link.account)

    def _publish_denied(
        self,
        connection: ClientConnection,
        denied: Denied,
        subject: str,
        account: Account | None = None,
    ) -> None:
        from slipstream.monitoring.system.event_messages import disconnected
        from slipstream.routing.logins import close_reason

        sender, reason = self._sender(), close_reason(denied)
        message = disconnected(sender, connection, reason, self._facts.now_ns())
        if account is not None and denied.account:
            # The account of an auth callout learns what it said; nobody else does.
            message.client.acc, message.reason = account.name, denied.reason
        sender.publish(subject, message, account)

    def _tell_connections(self, account: Account) -> None:
        if account.name == GLOBAL_ACCOUNT:
            return
        subjects = (f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS", f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS")
        heard = [subject for subject in subjects if self._facts.is_heard(subject)]
        if heard:
            from slipstream.monitoring.system.event_messages import account_connections

            sender = self._sender()
            message = account_connections(sender, account)
            for subject in heard:
                sender.publish(subject, message)
                message.server = sender.server()

    def _on_conns_timer(self) -> None:
        self._conns_timer = self._facts.server.turns.call_later(ACCOUNT_CONNECTIONS_INTERVAL_NS, self._on_conns_timer)
        for account in list(self._facts.accounts.values()):
            if account.connections or self._facts.leafs(account.name):
                self._tell_connections(account)

    # --- the server -----------------------------------------------------------------------------------------------

    def send_statsz(self) -> None:
        """Send the numbers to everybody who listens."""
        subject = f"$SYS.SERVER.{self._facts.server_id}.STATSZ"
        if self._facts.is_heard(subject):
            from slipstream.monitoring.system.event_messages import server_stats

            sender = self._sender()
            sender.publish(subject, server_stats(sender))

    def _on_statsz_timer(self) -> None:
        self._interval_ns = min(2 * self._interval_ns, STATSZ_INTERVAL_NS)
        self._statsz_timer = self._facts.server.turns.call_later(self._interval_ns, self._on_statsz_timer)
        self.send_statsz()

    def announce(self, what: str) -> None:
        """Tell that the server is going: `LAMEDUCK` or `SHUTDOWN`."""
        subject = f"$SYS.SERVER.{self._facts.server_id}.{what}"
        if self._facts.is_heard(subject):
            sender = self._sender()
            sender.publish(subject, sender.server())
