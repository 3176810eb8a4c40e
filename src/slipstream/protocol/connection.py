"""One client connection as a state machine, without its socket.

    GREETED ──CONNECT, or any operation where nobody has to say who it is──► READY ──► CLOSED
       └──────────► AUTHENTICATING (a password is being checked) ─────────────┘          ▲
                                          from every state: violation, timeout, peer gone ┘

The parser kernel calls `on_*`; answers go to the outbox; everything that needs a socket, a clock or another part of the
server goes through `Host`. Publishes of a READY client normally do not come here: the kernel repeats decisions taken
earlier (`may_publish`, the account's routes). They do come here while something has to see each of them:
verbose or pedantic mode, tracing, a subject or reply of the server's own, a mapping that rolls dice.

Invariants: `account` is None until READY; every subscription in `subscriptions` is in the account's interest; nothing
is written after CLOSED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.kernels import wire
from slipstream.kernels.interest import Subscription
from slipstream.kernels.outbox import Outbox
from slipstream.kernels.subject import is_valid_publish, is_valid_subscription, token_count
from slipstream.limits import PRE_AUTH_BYTES
from slipstream.protocol import texts
from slipstream.protocol.host import Host, Peer, State
from slipstream.protocol.info import ConnectOptions, decode_connect
from slipstream.protocol.texts import CloseReason, error_line
from slipstream.protocol.tracelog import connect_line, message_line, operation_line, payload_line, refused_line
from slipstream.routing.permissions import ResponsePermits

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.authenticator import Identity
    from slipstream.routing.permissions import Permissions

__all__ = ["ClientConnection"]

_OK = b"+OK\r\n"
_PING = b"PING\r\n"
_PONG = b"PONG\r\n"
_SYSTEM_QUEUE = b"_sys_"
_SERVER_SUBJECTS = (b"_GR_.", b"$GR.")
_RAFT_SUBJECTS = b"$NRG."
_SERVER_REPLIES = (b"$JS.ACK.", b"_GR_.", b"$GR.")
_SERVICE_REPLY = b"_R_."


class ClientConnection:
    """One client."""

    # Thousands are open, and ten thousand closed ones are kept for monitoring: each byte counts.
    __slots__ = (
        "__weakref__",
        "_greeted_again",
        "_host",
        "_permissions",
        "_permits",
        "account",
        "cid",
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
        "protocol",
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
        self.parser = wire.Parser(self, host.delivery, options.max_payload, options.max_control_line)
        self.parser.awaiting_connect = True
        self.subscriptions: dict[bytes, Subscription] = {}
        self.last_subscriptions: tuple[Subscription, ...] = ()  # those it had when it was closed
        self.account: Account | None = None
        self.identity: Identity | None = None
        self.nonce = ""  # sent in INFO when nkeys may be used
        # From CONNECT. A client that never sends one gets the talkative defaults.
        self.verbose = self.pedantic = self.echo = True
        self.headers = self.no_responders = False
        self.protocol = 0
        self.name = self.lang = self.version = ""
        self.claimed_user = ""  # who it says it is, without anything secret
        self.connected = False  # a CONNECT was accepted
        self.pings_out = 0
        self.ping_sent_ns = 0
        self.rtt_ns = 0
        self.stalls = 0
        self.tracing = options.trace
        self._host = host
        self._permissions: Permissions | None = None
        self._permits: ResponsePermits | None = None
        self._greeted_again = False  # the second INFO went out
        self.edge: object = None  # the transport side; only the edge looks at it
        self.apply_limits()

    # --- life cycle -------------------------------------------------------------------------------------------

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
        self.last_subscriptions = tuple(self.subscriptions.values())
        self._leave_account()
        self._permits = None
        self._host.closed(self, reason)

    def fail(self, text: str, *, log: bool = True) -> None:
        """Report an error that does not end the connection."""
        self._send_error(text)
        if log:
            self._host.log("ERR", self, text)

    def _send_error(self, text: str) -> None:
        self.outbox.write(error_line(text))
        if self.tracing:
            self._host.log("TRC", self, f"->> [-ERR {text}]")

    # --- CONNECT and authentication -------------------------------------------------------------------------------

    def on_early_operation(self) -> bool:
        """Something came before CONNECT: fine on an open server, or where there is a user for such clients."""
        self.parser.awaiting_connect = False
        self._host.authenticate(self, ConnectOptions())
        return self.state is State.READY or self.parser.paused

    def on_connect(self, text: bytes) -> None:
        """CONNECT, also when it is not the first one."""
        if self.tracing:
            self._host.log("TRC", self, connect_line(text))
        options = decode_connect(text)
        if options is None:
            self.close(CloseReason.PROTOCOL_VIOLATION)
            return
        self._adopt(options)
        if self.protocol not in (0, 1):
            self.close(CloseReason.BAD_CLIENT_PROTOCOL_VERSION, texts.INVALID_CLIENT_PROTOCOL)
            return
        if options.account or options.new_account:
            self.refuse("account")
            return
        self.parser.awaiting_connect = False
        self.connected = True
        if not self.rtt_ns:
            # The client answered INFO with CONNECT: a first idea of the round trip time.
            self.rtt_ns = max(1, self._host.now_ns() - self.start_ns)
        self._host.authenticate(self, options)

    def suspend(self) -> None:
        """Wait for an answer about this client before anything else it sent is looked at."""
        self.state = State.AUTHENTICATING
        self.parser.pause()

    def refuse(self, why: str) -> None:
        """The credentials are not good."""
        self._host.log("ERR", self, f"authentication error{why and f' - {why}'}")
        self.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)

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
        if joins and 0 <= limits.max_connections <= len(account.connections):
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
        self.refresh_short_way()
        if self.connected and self.verbose:
            self.outbox.write(_OK)
        self._host.connected(self)
        if self.parser.paused:
            self.parser.resume()

    def apply_limits(self) -> None:
        """Use the limits of the configuration from now on, narrowed by those of the account."""
        options, parser = self._host.options, self.parser
        parser.max_control_line = options.max_control_line
        # A large CONNECT is the operator's choice; nothing else makes a stranger cost more.
        parser.waiting_max = max(PRE_AUTH_BYTES, options.max_control_line)
        parser.max_payload = options.max_payload
        if self.account is not None and self.account.limits.max_payload >= 0:
            parser.max_payload = min(options.max_payload, self.account.limits.max_payload)
        self.outbox.limit = options.max_pending
        self.outbox.stall_at = options.max_pending - options.max_pending // 4

    def apply_permissions(self, permissions: Permissions | None) -> None:
        """Use these permissions from now on."""
        self._permissions = permissions
        self._permits = None
        if permissions is not None and permissions.responses is not None:
            self._permits = ResponsePermits(permissions.responses)
        self.parser.restricted = permissions is not None
        self.parser.verdicts = {} if permissions is not None else None

    def renew_permissions(self, permissions: Permissions | None) -> None:
        """The configuration changed: give up the subscriptions that are no longer allowed, and say so."""
        self.apply_permissions(permissions)
        self.refresh_short_way()
        for subscription in list(self.subscriptions.values()):
            self.unsubscribe(subscription)
            subject, queue = subscription.subject, subscription.queue
            if permissions is not None and not permissions.may_subscribe(subject, queue):
                self.fail(texts.subscription_violation(subject, queue, sid=subscription.sid))
                continue
            delivered, max_msgs = subscription.delivered, subscription.max_msgs
            self._subscribe(subject, queue, subscription.sid)
            renewed = self.subscriptions[subscription.sid]
            renewed.delivered, renewed.max_msgs = delivered, max_msgs

    def refresh_short_way(self) -> None:
        """Decide whether the kernel may publish without asking for each message."""
        # Permissions hold for the subject after its mapping, which only the planner knows.
        watched = self._permissions is not None and self.account is not None and self.account.maps_subjects
        self.parser.traceparents = self.account is not None and self.account.msg_trace is not None
        self.parser.fast = self.state is State.READY and not (self.verbose or self.pedantic or self.tracing or watched)

    @property
    def permissions(self) -> Permissions | None:
        """What the client may do; None when everything."""
        return self._permissions

    def _adopt(self, options: ConnectOptions) -> None:
        self.verbose = self.verbose if options.verbose is None else options.verbose
        self.pedantic = self.pedantic if options.pedantic is None else options.pedantic
        self.echo = True if options.echo is None else options.echo
        self.headers = bool(options.headers) and not self._host.options.no_header_support
        self.no_responders = bool(options.no_responders)
        self.protocol = options.protocol or 0
        self.name, self.lang, self.version = options.name or "", options.lang or "", options.version or ""
        self.claimed_user = options.nkey or options.user or ("[REDACTED]" if options.auth_token else "")
        self.parser.headers = self.headers
        self.parser.no_responders = self.no_responders
        self.refresh_short_way()

    def _leave_account(self) -> None:
        account = self.account
        if account is None:
            return
        for subscription in self.subscriptions.values():
            account.remove(subscription)
        self.subscriptions.clear()
        account.connection_left(self)

    # --- PING and PONG --------------------------------------------------------------------------------------------

    def on_ping(self) -> None:
        """Answer in order; after the first PING of a connected client comes the second INFO."""
        if self.tracing:
            self._host.log("TRC", self, "<<- [PING]")
        self.outbox.write(_PONG)
        if self.tracing:
            self._host.log("TRC", self, "->> [PONG]")
        if self.connected and not self._greeted_again and self.state is State.READY:
            self._greeted_again = True
            if self.protocol >= 1:
                self.outbox.write(self._host.info_line(self, after_connect=True))

    def on_pong(self) -> None:
        """The peer lives; the time it took is its round trip time."""
        if self.tracing:
            self._host.log("TRC", self, "<<- [PONG]")
        self.pings_out = 0
        if self.ping_sent_ns:
            self.rtt_ns = max(1, self._host.now_ns() - self.ping_sent_ns)
            self.ping_sent_ns = 0

    def send_ping(self) -> None:
        """Ask whether the peer lives."""
        self.pings_out += 1
        self.ping_sent_ns = self._host.now_ns()
        self.outbox.write(_PING)
        if self.tracing:
            self._host.log("TRC", self, "->> [PING]")

    # --- SUB and UNSUB --------------------------------------------------------------------------------------------

    def on_sub(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Subscribe, unless something speaks against it."""
        if self.tracing:
            self._host.log("TRC", self, operation_line("SUB", subject, queue, sid))
        if self.account is None:
            return
        self.last_activity_ns = self.last_read_ns
        refusal = self._refusal(subject, queue)
        if refusal is not None:
            self.fail(refusal)
            return
        count = len(self.subscriptions)
        # Both limits hold for each connection, also the account's.
        if 0 < self._host.options.max_subscriptions <= count or 0 <= self.account.limits.max_subscriptions <= count:
            self.fail(texts.MAXIMUM_SUBSCRIPTIONS)
            return
        if sid not in self.subscriptions:
            if not is_valid_subscription(subject):
                self.fail(texts.INVALID_SUBJECT)
                return
            self._subscribe(subject, queue, sid)
        if self.verbose:
            self.outbox.write(_OK)

    def _refusal(self, subject: bytes, queue: bytes | None) -> str | None:
        permissions = self._permissions
        if queue == _SYSTEM_QUEUE or (permissions is not None and not permissions.may_subscribe(subject, queue)):
            return texts.subscription_violation(subject, queue)
        tokens_max = self._host.options.max_sub_tokens
        if tokens_max and token_count(subject) > tokens_max:
            return texts.subscription_violation(subject, None) + ", too many tokens"
        return None

    def _subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        assert self.account is not None
        subscription = Subscription(subject, queue, sid, self.outbox, self)
        subscription.headers = self.headers
        subscription.echo = self.echo
        subscription.watched = self._permits is not None
        permissions = self._permissions
        subscription.checked = permissions is not None and permissions.needs_delivery_check(subject, queue)
        self.subscriptions[sid] = subscription
        self.account.add(subscription)

    def on_unsub(self, sid: bytes, max_msgs: int) -> None:
        """Unsubscribe now, or after `max_msgs` deliveries counted from the SUB."""
        if self.tracing:
            self._host.log("TRC", self, operation_line("UNSUB", sid, max_msgs if max_msgs >= 0 else None))
        self.last_activity_ns = self.last_read_ns
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            if max_msgs > 0 and subscription.delivered < max_msgs:
                subscription.max_msgs = max_msgs
            else:
                self.unsubscribe(subscription)
        if self.verbose:
            self.outbox.write(_OK)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove one subscription."""
        self.subscriptions.pop(subscription.sid, None)
        if self.account is not None:
            self.account.remove(subscription)

    def on_delivered(self, subscription: Subscription, reply: bytes | None) -> None:
        """A message went to a subscription that counts or may answer."""
        if self._permits is not None and reply is not None:
            assert self._permissions is not None
            if not self._permissions.may_publish(reply):
                self._permits.grant(reply, self._host.now_ns())
                # A verdict taken before the request came would hide the grant.
                verdicts = self.parser.verdicts
                if verdicts is not None:
                    verdicts.pop(reply, None)
        if subscription.max_msgs and subscription.delivered >= subscription.max_msgs:
            self.unsubscribe(subscription)

    # --- PUB and HPUB ---------------------------------------------------------------------------------------------

    def may_publish(self, subject: bytes) -> bool | None:
        """The verdict for a subject: True and False are remembered by the kernel, None allows this once."""
        permissions = self._permissions
        if permissions is None or permissions.may_publish(subject):
            return True
        if self._permits is None:
            return False
        if self._permits.use(subject, self._host.now_ns()):
            return None
        return False

    def on_publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        """A publish that has to be looked at."""
        if self.tracing:
            self._trace_publish(subject, reply, header_size, body)
        if self.account is None:
            return
        self.last_activity_ns = self.last_read_ns
        if self.pedantic and not is_valid_publish(subject):
            self.fail(texts.INVALID_PUBLISH_SUBJECT)
        if self._is_reserved(subject):
            self.on_publish_denied(subject)
            return
        destination = self._host.mapped(self, subject)
        if destination is None:
            return
        if self.may_publish(destination) is False:
            self.on_publish_denied(destination)
            return
        if reply is not None and _is_reserved_reply(reply):
            self.fail(texts.reply_violation(reply))
            return
        traced = None
        if header_size:
            traced = self._host.trace_request(self, body[:header_size])
            if traced is not None and traced.by_client and not self._may_trace_to(traced.dest):
                self.on_publish_denied(traced.dest)
                return
        if self.verbose:
            self.outbox.write(_OK)
        if traced is not None:
            taken = self._host.publish_traced(self, traced, subject, destination, reply, header_size, body)
        else:
            taken = self._host.publish(self, destination, reply, header_size, body)
        if not taken and reply is not None and self.no_responders:
            self.on_no_responders(destination, reply)

    def _may_trace_to(self, subject: bytes) -> bool:
        return not self._is_reserved(subject) and self.may_publish(subject) is not False

    def _trace_publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        verb = "HPUB" if header_size else "PUB"
        self._host.log("TRC", self, operation_line(verb, subject, reply, header_size or None, len(body)))
        payload = payload_line("<<-", body, self._host.options.max_traced_msg_len)
        if payload is not None:
            self._host.log("TRC", self, payload)

    def trace_delivery(
        self, subscription: Subscription, subject: bytes, reply: bytes | None, size: int, body: bytes
    ) -> None:
        """Log a message that went to this client; `size` is that of the header in front of `body`."""
        if size and not subscription.headers:
            body, size = body[size:], 0
        self._host.log("TRC", self, message_line(subject, subscription.sid, reply, size, len(body)))
        payload = payload_line("->>", body, self._host.options.max_traced_msg_len)
        if payload is not None:
            self._host.log("TRC", self, payload)

    def _is_reserved(self, subject: bytes) -> bool:
        if subject.startswith(_SERVER_SUBJECTS):
            return True
        return subject.startswith(_RAFT_SUBJECTS) and not (self.account is not None and self.account.is_system)

    def on_publish_denied(self, subject: bytes) -> None:
        """Tell the client that it may not publish there."""
        self.fail(texts.publish_violation(subject), log=False)
        self._host.log("ERR", self, f"Publish Violation - {self._who()}, Subject {texts.quoted(subject)}")

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

    def _who(self) -> str:
        return (
            f"User {texts.quoted(self.identity.user.encode())}" if self.identity and self.identity.user else 'User ""'
        )

    # --- what a client should not do --------------------------------------------------------------------------------

    def on_peer_error(self, text: bytes) -> None:
        """Clients have nothing to report with -ERR."""
        self._host.log("ERR", self, f"Client error from peer: {text[:256].decode('utf-8', 'replace')}")
        self.close(CloseReason.PARSE_ERROR)

    def on_peer_info(self) -> None:
        """Clients have no INFO to give; nats-server reads it and does nothing."""

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        shown = refused_line(line)
        if kind == wire.UNKNOWN_OPERATION:
            self._host.log("ERR", self, f"Client parser ERROR: proto='{shown}...'")
            self.close(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
        elif kind == wire.CONTROL_LINE_TOO_LONG:
            self._host.log("ERR", self, f"{texts.MAXIMUM_CONTROL_LINE} (line starts '{shown[:64]}')")
            self.close(CloseReason.MAX_CONTROL_LINE, texts.MAXIMUM_CONTROL_LINE)
        elif kind == wire.PAYLOAD_TOO_LARGE:
            self._host.log("ERR", self, f"{texts.MAXIMUM_PAYLOAD}: '{shown}' > {self.parser.max_payload}")
            self.close(CloseReason.MAX_PAYLOAD, texts.MAXIMUM_PAYLOAD)
        elif kind == wire.HEADERS_NOT_NEGOTIATED:
            self._host.log("ERR", self, "message headers not supported")
            self.close(CloseReason.HEADER_VIOLATION)
        elif kind == wire.TOO_MUCH_WAITING:
            self.refuse(f"more than {self.parser.waiting_max} bytes before the password was checked")
        else:
            self._host.log("ERR", self, f"bad arguments: '{shown}'")
            self.close(CloseReason.PROTOCOL_VIOLATION)


def _is_reserved_reply(reply: bytes) -> bool:
    """Whether only the server itself may hand out this reply subject."""
    return reply.startswith(_SERVICE_REPLY) or (reply.startswith(_SERVER_REPLIES) and reply not in _SERVER_REPLIES)
