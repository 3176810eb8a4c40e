"""One client connection as a state machine, without its socket.

    GREETED ──CONNECT, or any operation where nobody has to say who it is──► READY ──► CLOSED
       └──────────► AUTHENTICATING (a password is being checked) ─────────────┘          ▲
                                          from every state: violation, timeout, peer gone ┘

Its life, who it is, what it may do and what it is subscribed to: all that the rest of the server knows of a client.
Answers go to the outbox; everything that needs a socket, a clock or another part of the server goes through `Host`.

What this is not: the operations its peer sends. Those are `operations`, which the parser kernel calls. What its user
may do is `rights`.

Invariants: `account` is None until READY; every subscription in `subscriptions` is in the account's interest; nothing
is written after CLOSED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.kernels.wire import parser as wire
from slipstream.kernels.wire.outbox import Outbox
from slipstream.kernels.wire.receivers import Presence, Subscription
from slipstream.protocol import texts
from slipstream.protocol.host import OK_LINE, Host, State
from slipstream.protocol.limits import CLOSED_SUBSCRIPTIONS_MAX, PRE_AUTH_BYTES
from slipstream.protocol.operations import Operations
from slipstream.protocol.rights import Rights
from slipstream.protocol.texts import CloseReason, error_line
from slipstream.protocol.tracelog import message_line, payload_line
from slipstream.subjects.outside import outside_only

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.authenticator import Identity
    from slipstream.auth.permissions import Permissions
    from slipstream.protocol.answers import AnswerAddresses
    from slipstream.protocol.info import ConnectInfo
    from slipstream.protocol.peer import Peer

__all__ = ["SUBSCRIPTIONS_AT_ONCE", "ClientConnection"]

_PING = b"PING\r\n"
SUBSCRIPTIONS_AT_ONCE = 1_000  # of a client that leaves: some 3 ms of work; more are taken out in steps
_SERVER_REPLY = b"_R_."


class ClientConnection:
    """One client."""

    # Thousands are open, and ten thousand closed ones are kept for monitoring: each byte counts.
    __slots__ = (
        "__weakref__",
        "_host",
        "account",
        "answers",
        "cid",
        "claimed_as",
        "claimed_user",
        "close_reason",
        "connected",
        "echo",
        "edge",
        "headers",
        "identity",
        "lang",
        "last_activity_ns",
        "last_read_ns",
        "last_subscription_count",
        "last_subscriptions",
        "name",
        "no_responders",
        "nonce",
        "outbox",
        "parser",
        "pedantic",
        "peer",
        "ping_sent_ns",
        "pings_out",
        "presence",
        "protocol",
        "proxy",
        "rights",
        "rtt_ns",
        "stalls",
        "start_ns",
        "state",
        "subscriptions",
        "tracing",
        "verbose",
        "version",
    )

    def __init__(self, host: Host, cid: int, peer: Peer) -> None:
        options = host.options
        self.cid = cid
        self.peer = peer
        self.start_ns = host.now_ns()
        self.last_activity_ns = self.start_ns  # last message or subscription change either way
        self.last_read_ns = self.start_ns  # last time any bytes came
        self.state = State.GREETED
        self.close_reason: CloseReason | None = None
        self.outbox = Outbox(host.flush_queue, self, options.max_pending)
        self.subscriptions: dict[bytes, Subscription] = {}
        self.presence = Presence()  # in its account
        # Those it had when it was closed, if they were few.
        self.last_subscriptions: tuple[Subscription, ...] = ()
        self.last_subscription_count = 0
        self.account: Account | None = None
        self.identity: Identity | None = None
        self.nonce = ""  # sent in INFO when nkeys may be used
        # From CONNECT. A client that never sends one gets the talkative defaults.
        self.verbose = self.pedantic = self.echo = True
        self.headers = self.no_responders = False
        self.protocol = 0
        self.name = self.lang = self.version = ""
        self.claimed_user = ""  # who it says it is, without anything secret
        self.proxy = ""  # key of the trusted proxy that it came through
        self.claimed_as = ""  # the same for the log: with what kind of name it is
        self.connected = False  # a CONNECT was accepted
        self.pings_out = 0
        self.ping_sent_ns = 0
        self.rtt_ns = 0
        self.stalls = 0
        self.tracing = options.trace
        self._host = host
        self.rights: Rights | None = None  # None: it may do everything
        self.answers: AnswerAddresses | None = None  # of requests that came from other clusters
        self.edge: object = None  # the transport side; only the edge looks at it
        operations = Operations(self, host)
        self.parser = wire.Parser(operations, self, host.delivery, options.max_payload, options.max_control_line)
        self.parser.awaiting_connect = True
        self.apply_limits()

    # --- life cycle --------------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Send the first INFO."""
        self.outbox.write(self._host.info_line(self))

    def send_info(self) -> None:
        """Tell a client that understands it about a change in the server."""
        if self.protocol >= 1 and self.state is State.READY:
            self.outbox.write(self._host.info_line(self))

    def close(self, reason: CloseReason, error: str | None = None) -> None:
        """End the connection: say why if there is a text for it, leave the account, let the edge close the socket."""
        if self.state is State.CLOSED:
            return
        if error is not None:
            self._send_error(error)
        self.state = State.CLOSED
        self.close_reason = reason
        self.parser.stop()
        self.last_subscription_count = len(self.subscriptions)
        if self.last_subscription_count <= CLOSED_SUBSCRIPTIONS_MAX:
            self.last_subscriptions = tuple(self.subscriptions.values())
        self._leave_account()
        if self.rights is not None:
            self.rights.forget_requests()
        self._host.closed(self, reason)

    def overflowed(self, limit: int) -> None:
        """End a client that has not read the more than `limit` bytes that wait for it."""
        self._host.log("INF", self, f"Slow Consumer Detected: MaxPending of {limit} Exceeded")
        self.close(CloseReason.SLOW_CONSUMER_PENDING)

    def fail(self, text: str, *, log: bool = True) -> None:
        """Report an error that does not end the connection."""
        self._send_error(text)
        if log:
            self._host.log("ERR", self, text)

    def _send_error(self, text: str) -> None:
        self.outbox.write(error_line(text))
        if self.tracing:
            self._host.log("TRC", self, f"->> [-ERR {text}]")

    def send_ping(self) -> None:
        """Ask whether the peer lives."""
        self.pings_out += 1
        self.ping_sent_ns = self._host.now_ns()
        self.outbox.write(_PING)
        if self.tracing:
            self._host.log("TRC", self, "->> [PING]")

    def adopt(self, options: ConnectInfo) -> None:
        """Take what the client says of itself."""
        self.verbose = self.verbose if options.verbose is None else options.verbose
        self.pedantic = self.pedantic if options.pedantic is None else options.pedantic
        self.echo = True if options.echo is None else options.echo
        self.headers = bool(options.headers) and not self._host.options.no_header_support
        self.no_responders = bool(options.no_responders)
        self.protocol = options.protocol or 0
        self.name, self.lang, self.version = options.name or "", options.lang or "", options.version or ""
        self.claimed_user = options.nkey or options.user or ("[REDACTED]" if options.auth_token else "")
        self.claimed_as = _claim(options)
        self.parser.headers = self.headers
        self.parser.no_responders = self.no_responders
        self.refresh_fast_path()

    # --- authentication ----------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Wait for an answer about this client before anything else it sent is looked at."""
        self.state = State.AUTHENTICATING
        self.parser.pause()

    def refuse(self, why: str, reason: CloseReason = CloseReason.AUTHENTICATION_VIOLATION) -> None:
        """The credentials are not good."""
        kind, _, name = self.claimed_as.partition(":")
        who = f" - {kind.capitalize()} {texts.quoted_text(name or '[REDACTED]')}" if kind else ""
        self._host.log("ERR", self, f"authentication error{who}{why and f' - {why}'}")
        self.close(reason, texts.AUTHORIZATION_VIOLATION)

    def admit(self, identity: Identity) -> None:
        """The client is who it says: bind it to its account."""
        if self.state is State.CLOSED:
            return
        account = self._host.account_of(identity)
        if account is None:
            self.close(CloseReason.MISSING_ACCOUNT, texts.AUTHORIZATION_VIOLATION)
            return
        if self.no_responders and not self.headers:
            self.close(CloseReason.NO_RESPONDERS_NEEDS_HEADERS, texts.NO_RESPONDERS_NEEDS_HEADERS)
            return
        limits = account.limits
        joins = self.account is not account
        if joins and 0 <= limits.max_connections <= len(account.connections) + account.connections_elsewhere:
            self.close(CloseReason.MAX_ACCOUNT_CONNECTIONS, texts.MAXIMUM_ACCOUNT_CONNECTIONS)
            return
        self._leave_account()
        self.identity = identity
        self.account = account
        self.apply_permissions(identity.permissions)
        self.apply_limits()
        self.parser.rebind(account.interest)
        account.connection_bound(self)
        self.state = State.READY
        self.refresh_fast_path()
        if self.connected and self.verbose:
            self.outbox.write(OK_LINE)
        self._host.connected(self)
        if self.parser.unparsed.paused:
            self.parser.resume()

    def _leave_account(self) -> None:
        account = self.account
        if account is None:
            return
        subscriptions, self.subscriptions = self.subscriptions, {}
        presence, self.presence = self.presence, Presence()
        if len(subscriptions) > SUBSCRIPTIONS_AT_ONCE:
            self._host.in_steps(account.depart(presence, subscriptions))
        else:
            for subscription in subscriptions.values():
                account.remove(subscription)
        account.connection_left(self)

    # --- limits and permissions --------------------------------------------------------------------------------------

    def apply_limits(self) -> None:
        """Use the limits of the configuration from now on, narrowed by those of the account."""
        options, parser = self._host.options, self.parser
        parser.max_control_line = options.max_control_line
        # A large CONNECT is the operator's choice; nothing else makes a stranger cost more.
        parser.unparsed.waiting_max = max(PRE_AUTH_BYTES, options.max_control_line)
        parser.max_payload = options.max_payload
        if self.account is not None and self.account.limits.max_payload >= 0:
            parser.max_payload = min(options.max_payload, self.account.limits.max_payload)
        token = None if self.identity is None else self.identity.token
        if token is not None and token.max_payload >= 0:
            parser.max_payload = min(parser.max_payload, token.max_payload)
        self.outbox.limit = options.max_pending
        self.outbox.stall_at = options.max_pending - options.max_pending // 4

    @property
    def at_subscription_limit(self) -> bool:
        """Whether it has as many subscriptions as it may: by server, account or token, each for one connection."""
        count, allowed = len(self.subscriptions), self._host.options.max_subscriptions
        if 0 < allowed <= count or (self.account is not None and 0 <= self.account.limits.max_subscriptions <= count):
            return True
        token = None if self.identity is None else self.identity.token
        return token is not None and 0 <= token.max_subscriptions <= count

    def check_subscription_limit(self) -> None:
        """End a client of operator mode that has no room for one more subscription, as nats-server does."""
        if self.at_subscription_limit and self.state is State.READY:
            self.fail(texts.MAXIMUM_SUBSCRIPTIONS)
            self.close(CloseReason.MAX_SUBSCRIPTIONS)

    def apply_permissions(self, permissions: Permissions | None) -> None:
        """Use these permissions from now on."""
        self.rights = None if permissions is None else Rights(permissions, self._host.now_ns)
        self.parser.restricted = permissions is not None
        self.parser.verdicts = {} if permissions is not None else None

    def renew_permissions(self, permissions: Permissions | None) -> None:
        """The configuration changed: give up the subscriptions that are no longer allowed, and say so."""
        self.apply_permissions(permissions)
        self.refresh_fast_path()
        for subscription in list(self.subscriptions.values()):
            self.unsubscribe(subscription)
            subject, queue = subscription.subject, subscription.queue
            if permissions is not None and not permissions.may_subscribe(subject, queue):
                self.fail(texts.subscription_violation(subject, queue, sid=subscription.sid))
                continue
            delivered, max_msgs = subscription.delivered, subscription.max_msgs
            self.subscribe(subject, queue, subscription.sid)
            renewed = self.subscriptions[subscription.sid]
            renewed.delivered, renewed.max_msgs = delivered, max_msgs

    def refresh_fast_path(self) -> None:
        """Decide whether the kernel may publish without asking for each message."""
        # Permissions hold for the subject after its mapping, which only the planner knows.
        watched = self.rights is not None and self.account is not None and self.account.maps_subjects
        self.parser.traceparents = self.account is not None and self.account.msg_trace is not None
        self.parser.fast = self.state is State.READY and not (
            self.verbose or self.pedantic or self.tracing or watched or self.answers is not None
        )

    @property
    def permissions(self) -> Permissions | None:
        """What the client may do; None when everything."""
        return None if self.rights is None else self.rights.permissions

    def grants(self, subject: bytes) -> bool:
        """Whether the client may publish to a subject, or to all that a pattern matches, without having been asked."""
        return self.rights is None or self.rights.permissions.may_publish_all(subject)

    def answerable(self, reply: bytes, crossed: bool = False) -> bytes:
        """A reply the client named, as the server itself may use it: for clients alone unless it may publish there.

        Args:
            reply: a subject of its account.
            crossed: the message went on into another account, where the client has no rights.
        """
        if reply.startswith(_SERVER_REPLY):
            return reply  # the server's own, which clients may not name
        if crossed:
            return outside_only(reply)
        # Rights are those to what a mapping makes of it, as for a publish.
        maps = self.account is not None and self.account.maps_subjects
        destination = self._host.mapped(self, reply) if maps else reply
        if self.rights is not None:
            self.rights.remember_answers(reply)
        return reply if destination is not None and self.grants(destination) else outside_only(reply)

    # --- subscriptions and deliveries --------------------------------------------------------------------------------

    def subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Add a subscription that the client is allowed to have."""
        assert self.account is not None
        subscription = Subscription(subject, queue, sid, self.outbox, self)
        subscription.headers = self.headers
        subscription.echo = self.echo
        subscription.presence = self.presence
        rights = self.rights
        if rights is not None:
            subscription.watched = rights.may_respond
            subscription.checked = rights.permissions.needs_delivery_check(subject, queue)
        self.subscriptions[sid] = subscription
        self.account.add(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove one subscription."""
        self.subscriptions.pop(subscription.sid, None)
        if self.account is not None:
            self.account.remove(subscription)

    def on_delivered(self, subscription: Subscription, reply: bytes | None) -> None:
        """A message went to a subscription that counts or may answer."""
        if reply is not None and self.rights is not None and self.rights.request_came(reply):
            # A verdict taken before the request came would hide the grant.
            verdicts = self.parser.verdicts
            if verdicts is not None:
                verdicts.pop(reply, None)
        if subscription.max_msgs and subscription.delivered >= subscription.max_msgs:
            self.unsubscribe(subscription)

    def answers_to(self, reply: bytes, address: bytes) -> None:
        """A request came from another cluster: what the client answers on `reply` goes to `address`."""
        if self.answers is None:
            from slipstream.protocol.answers import AnswerAddresses

            self.answers = AnswerAddresses(self._host.now_ns)
            self.refresh_fast_path()
        self.answers.add(reply, address)

    def address_of(self, subject: bytes) -> bytes:
        """Where a publish goes: elsewhere if it answers a request of another cluster."""
        if self.answers is None:
            return subject
        found = self.answers.find(subject)
        if not self.answers:
            self.answers = None
            self.refresh_fast_path()
        return subject if found is None else found

    def trace_delivery(
        self, subscription: Subscription, subject: bytes, reply: bytes | None, size: int, body: bytes
    ) -> None:
        """Log a message that went to this client; `size` is that of the header in front of `body`."""
        if size and not subscription.headers:
            body, size = body[size:], 0
        self._host.log("TRC", self, message_line(subject, subscription.sid, reply, size, len(body)))
        payload = payload_line("->>", size, body, self._host.options)
        if payload is not None:
            self._host.log("TRC", self, payload)

    def on_no_responders(self, subject: bytes, reply: bytes) -> None:
        """Nobody took a request: say so to the requester's own inbox subscription."""
        if self.account is None or (self.account.keeps_silent is not None and self.account.keeps_silent(subject)):
            return
        for subscription in self.account.interest.match(reply):
            if subscription.client is self and subscription.queue is None:
                header = b"NATS/1.0 503\r\nNats-Subject: " + subject + b"\r\n\r\n"
                size = len(header)
                line = b"HMSG %b %b %d %d\r\n" % (reply, subscription.sid, size, size)
                self.outbox.write(line + header + b"\r\n")
                return


def _claim(options: ConnectInfo) -> str:
    """Who a client says it is, as the log shows it; nothing secret."""
    if options.nkey:
        return f"nkey:{options.nkey}"
    if options.user:
        return f"user:{options.user}"
    return "token" if options.auth_token else ""
