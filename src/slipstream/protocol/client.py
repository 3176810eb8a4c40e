"""The operations of a client: what the parser kernel calls when it has found one.

CONNECT, PING and PONG, SUB and UNSUB, and what a client should not send; PUB and HPUB are in `publishing`. What follows
from them for the connection is in `connection`. Nothing is kept here. What reads CONNECT is loaded when the server is
ready, or with the first client: see docs/adr/0022-jetstream-opens-after-the-server-is-ready.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.accounts.account import subscription_cost
from slipstream.kernels.subjects.subject import is_valid_subscription, token_count
from slipstream.kernels.wire import parser as wire
from slipstream.protocol import texts
from slipstream.protocol.connection import OK_LINE
from slipstream.protocol.host import Host, Peer, State
from slipstream.protocol.publishing import PublishingClient
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.tracelog import connect_line, operation_line, refused_line

if TYPE_CHECKING:
    from slipstream.protocol.info import ConnectOptions

__all__ = ["Client"]

_PONG = b"PONG\r\n"
_SYSTEM_QUEUE = b"_sys_"


class Client(PublishingClient):
    """One client, with all operations."""

    __slots__ = ()

    def __init__(self, host: Host, cid: int, peer: Peer) -> None:
        super().__init__(host, cid, peer)
        options = host.options
        self.parser = wire.Parser(self, host.delivery, options.max_payload, options.max_control_line)
        self.parser.awaiting_connect = True
        self.apply_limits()

    # --- CONNECT -----------------------------------------------------------------------------------------------------

    def on_early_operation(self) -> bool:
        """Something came before CONNECT: fine on an open server, or where there is a user for such clients."""
        from slipstream.protocol.info import ConnectOptions

        self.parser.awaiting_connect = False
        self._host.authenticate(self, ConnectOptions())
        return self.state is State.READY or self.parser.paused

    def on_connect(self, text: bytes) -> None:
        """CONNECT, also when it is not the first one."""
        from slipstream.protocol.info import decode_connect

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

    def _adopt(self, options: ConnectOptions) -> None:
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
        self.refresh_short_way()

    # --- PING and PONG -----------------------------------------------------------------------------------------------

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
        if self.pings_out:
            self.rtt_ns = max(1, self._host.now_ns() - self.ping_sent_ns)
        self.pings_out = 0

    # --- SUB and UNSUB -----------------------------------------------------------------------------------------------

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
        if self.at_subscription_limit:
            self.fail(texts.MAXIMUM_SUBSCRIPTIONS)
            return
        if sid not in self.subscriptions:
            if not is_valid_subscription(subject):
                self.fail(texts.INVALID_SUBJECT)
                return
            if self.account.subscription_bytes + subscription_cost(subject) > self._host.subscription_bytes_max:
                self.fail(texts.MAXIMUM_SUBSCRIPTIONS)
                return
            self._subscribe(subject, queue, sid)
        if self.verbose:
            self.outbox.write(OK_LINE)

    def _refusal(self, subject: bytes, queue: bytes | None) -> str | None:
        permissions = self._permissions
        if queue == _SYSTEM_QUEUE or (permissions is not None and not permissions.may_subscribe(subject, queue)):
            return texts.subscription_violation(subject, queue)
        tokens_max = self._host.options.max_sub_tokens
        if tokens_max and token_count(subject) > tokens_max:
            return texts.subscription_violation(subject, None) + ", too many tokens"
        return None

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
            self.outbox.write(OK_LINE)

    # --- what a client should not do ---------------------------------------------------------------------------------

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


def _claim(options: ConnectOptions) -> str:
    """Who a client says it is, as the log shows it; nothing secret."""
    if options.nkey:
        return f"nkey:{options.nkey}"
    if options.user:
        return f"user:{options.user}"
    return "token" if options.auth_token else ""
