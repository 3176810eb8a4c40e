"""The operations of a client: what the parser kernel calls when it has found one.

CONNECT, PING and PONG, SUB and UNSUB, PUB and HPUB, and what a client should not send. What follows from them for the
connection is in `connection`. What reads CONNECT is loaded when the server is ready, or with the first client: see
docs/adr/0022-jetstream-opens-after-the-server-is-ready.md.

Publishes of a READY client normally do not come here: the kernel repeats decisions taken earlier (`may_publish`, the
account's routes). They do come here while something has to see each of them: verbose or pedantic mode, tracing, a
subject or reply of the server's own, a mapping that rolls dice, a request of another cluster that may be answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.accounts.account import most_subscription_cost, subscription_cost
from slipstream.kernels.subjects.subject import is_valid_publish, is_valid_subscription, token_count
from slipstream.kernels.wire import parser as wire
from slipstream.protocol import texts
from slipstream.protocol.headers import find_header
from slipstream.protocol.host import OK_LINE, Host, State
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.tracelog import connect_line, operation_line, payload_line, refused_line

if TYPE_CHECKING:
    from slipstream.protocol.connection import ClientConnection

__all__ = ["Operations"]

_PONG = b"PONG\r\n"
_SYSTEM_QUEUE = b"_sys_"
_SERVER_SUBJECTS = (b"_GR_.", b"$GR.")
_RAFT_SUBJECTS = b"$NRG."
_SERVER_REPLIES = (b"$JS.ACK.", b"_GR_.", b"$GR.")
_SERVICE_REPLY = b"_R_."
_SCHEDULE_TARGET = b"Nats-Schedule-Target"
_SCHEDULE_SOURCE = b"Nats-Schedule-Source"


class Operations:
    """What one client asks for."""

    __slots__ = ("_client", "_greeted_again", "_host", "on_no_responders")

    def __init__(self, client: ClientConnection, host: Host) -> None:
        self._client = client
        self._host = host
        self._greeted_again = False  # the second INFO went out
        self.on_no_responders = client.on_no_responders

    # --- CONNECT -----------------------------------------------------------------------------------------------------

    def on_early_operation(self) -> bool:
        """Something came before CONNECT: fine on an open server, or where there is a user for such clients.

        Elsewhere the hub refuses it as it would an empty CONNECT.
        """
        from slipstream.protocol.info import ConnectInfo

        client = self._client
        client.parser.awaiting_connect = False
        self._host.authenticate(client, ConnectInfo())
        return client.state is State.READY or client.parser.unparsed.paused

    def on_connect(self, text: bytes) -> None:
        """CONNECT, also when it is not the first one."""
        from slipstream.protocol.info import decode_connect

        client = self._client
        if client.tracing:
            self._host.log("TRC", client, connect_line(text))
        options = decode_connect(text)
        if options is None:
            client.close(CloseReason.PROTOCOL_VIOLATION)
            return
        client.adopt(options)
        if client.protocol not in (0, 1):
            client.close(CloseReason.BAD_CLIENT_PROTOCOL_VERSION, texts.INVALID_CLIENT_PROTOCOL)
            return
        if options.account or options.new_account:
            client.refuse("account")
            return
        client.parser.awaiting_connect = False
        client.connected = True
        if not client.rtt_ns:
            # The client answered INFO with CONNECT: a first idea of the round trip time.
            client.rtt_ns = max(1, self._host.now_ns() - client.start_ns)
        self._host.authenticate(client, options)

    # --- PING and PONG -----------------------------------------------------------------------------------------------

    def on_ping(self) -> None:
        """Answer in order; after the first PING of a connected client comes the second INFO."""
        client = self._client
        if client.tracing:
            self._host.log("TRC", client, "<<- [PING]")
        client.outbox.write(_PONG)
        if client.tracing:
            self._host.log("TRC", client, "->> [PONG]")
        if client.connected and not self._greeted_again and client.state is State.READY:
            self._greeted_again = True
            if client.protocol >= 1:
                client.outbox.write(self._host.info_line(client, after_connect=True))

    def on_pong(self) -> None:
        """The peer lives; the time it took is its round trip time."""
        client = self._client
        if client.tracing:
            self._host.log("TRC", client, "<<- [PONG]")
        if client.pings_out:
            client.rtt_ns = max(1, self._host.now_ns() - client.ping_sent_ns)
        client.pings_out = 0

    # --- SUB and UNSUB -----------------------------------------------------------------------------------------------

    def on_sub(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Subscribe, unless something speaks against it."""
        client = self._client
        if client.tracing:
            self._host.log("TRC", client, operation_line("SUB", subject, queue, sid))
        if client.account is None:
            return
        client.last_activity_ns = client.last_read_ns
        refusal = self._refusal(subject, queue)
        if refusal is not None:
            client.fail(refusal)
            return
        if client.at_subscription_limit:
            client.fail(texts.MAXIMUM_SUBSCRIPTIONS)
            return
        if sid not in client.subscriptions:
            if not is_valid_subscription(subject):
                client.fail(texts.INVALID_SUBJECT)
                return
            # What it takes exactly is asked when it could be too much.
            room = self._host.subscription_bytes_max - client.account.subscription_bytes
            if room < most_subscription_cost(1, len(subject)) and room < subscription_cost(subject):
                client.fail(texts.MAXIMUM_SUBSCRIPTIONS)
                return
            client.subscribe(subject, queue, sid)
        if client.verbose:
            client.outbox.write(OK_LINE)

    def _refusal(self, subject: bytes, queue: bytes | None) -> str | None:
        rights = self._client.rights
        if queue == _SYSTEM_QUEUE or (rights is not None and not rights.permissions.may_subscribe(subject, queue)):
            return texts.subscription_violation(subject, queue)
        tokens_max = self._host.options.max_sub_tokens
        if tokens_max and token_count(subject) > tokens_max:
            return texts.subscription_violation(subject, None) + ", too many tokens"
        return None

    def on_unsub(self, sid: bytes, max_msgs: int) -> None:
        """Unsubscribe now, or after `max_msgs` deliveries counted from the SUB."""
        client = self._client
        if client.tracing:
            self._host.log("TRC", client, operation_line("UNSUB", sid, max_msgs if max_msgs >= 0 else None))
        client.last_activity_ns = client.last_read_ns
        subscription = client.subscriptions.get(sid)
        if subscription is not None:
            if max_msgs > 0 and subscription.delivered < max_msgs:
                subscription.max_msgs = max_msgs
            else:
                client.unsubscribe(subscription)
        if client.verbose:
            client.outbox.write(OK_LINE)

    # --- PUB and HPUB ------------------------------------------------------------------------------------------------

    def may_publish(self, subject: bytes) -> bool | None:
        """The verdict for a subject: True and False are remembered by the kernel, None allows this once."""
        rights = self._client.rights
        return rights is None or rights.may_publish(subject)

    def on_publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        """A publish that has to be looked at."""
        client = self._client
        if client.tracing:
            self._trace_publish(subject, reply, header_size, body)
        if client.account is None:
            return
        client.last_activity_ns = client.last_read_ns
        if client.pedantic and not is_valid_publish(subject):
            client.fail(texts.INVALID_PUBLISH_SUBJECT)
        if self._is_reserved(subject):
            self.on_publish_denied(subject)
            return
        destination = self._host.mapped(client, subject)
        if destination is None:
            return
        if self.may_publish(destination) is False:
            self.on_publish_denied(destination)
            return
        if reply is not None and _is_reserved_reply(reply):
            client.fail(texts.reply_violation(reply))
            return
        traced = None
        if header_size:
            traced = self._host.trace_request(client, body[:header_size])
            if traced is not None and traced.by_client and not self._may_trace_to(traced.dest):
                self.on_publish_denied(traced.dest)
                return
            beyond = self._scheduled_beyond(body[:header_size])
            if beyond is not None:
                self.on_publish_denied(beyond)
                return
        if client.verbose:
            client.outbox.write(OK_LINE)
        destination = client.address_of(destination)
        if traced is not None:
            taken = self._host.publish_traced(client, traced, subject, destination, reply, header_size, body)
        else:
            taken = self._host.publish(client, destination, reply, header_size, body)
        if not taken and reply is not None and client.no_responders:
            self.on_no_responders(destination, reply)

    def _scheduled_beyond(self, header: bytes) -> bytes | None:
        """The subject, of those a schedule names, that the client may not use: to publish to, or to read from."""
        rights = self._client.rights
        if rights is None:
            return None
        target = find_header(_SCHEDULE_TARGET, header)
        if target and not rights.permissions.may_publish_all(target):
            return target
        source = find_header(_SCHEDULE_SOURCE, header)
        return source if source and not rights.permissions.may_subscribe(source) else None

    def _may_trace_to(self, subject: bytes) -> bool:
        return not self._is_reserved(subject) and self.may_publish(subject) is not False

    def _trace_publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        client = self._client
        verb = "HPUB" if header_size else "PUB"
        self._host.log("TRC", client, operation_line(verb, subject, reply, header_size or None, len(body)))
        payload = payload_line("<<-", header_size, body, self._host.options)
        if payload is not None:
            self._host.log("TRC", client, payload)

    def _is_reserved(self, subject: bytes) -> bool:
        client = self._client
        if subject.startswith(_SERVER_SUBJECTS):
            return True
        return subject.startswith(_RAFT_SUBJECTS) and not (client.account is not None and client.account.is_system)

    def on_publish_denied(self, subject: bytes) -> None:
        """Tell the client that it may not publish there."""
        client = self._client
        client.fail(texts.publish_violation(subject), log=False)
        self._host.log("ERR", client, f"Publish Violation - {self._who()}, Subject {texts.quoted(subject)}")

    def _who(self) -> str:
        client = self._client
        identity = client.identity
        return f"User {texts.quoted(identity.user.encode())}" if identity and identity.user else 'User ""'

    # --- what a client should not do ---------------------------------------------------------------------------------

    def on_peer_error(self, text: bytes) -> None:
        """Clients have nothing to report with -ERR."""
        client = self._client
        self._host.log("ERR", client, f"Client error from peer: {text[:256].decode('utf-8', 'replace')}")
        client.close(CloseReason.PARSE_ERROR)

    def on_peer_info(self) -> None:
        """Clients have no INFO to give; nats-server reads it and does nothing."""

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        client = self._client
        shown = refused_line(line)
        if kind == wire.UNKNOWN_OPERATION:
            self._host.log("ERR", client, f"Client parser ERROR: proto='{shown}...'")
            client.close(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
        elif kind == wire.CONTROL_LINE_TOO_LONG:
            self._host.log("ERR", client, f"{texts.MAXIMUM_CONTROL_LINE} (line starts '{shown[:64]}')")
            client.close(CloseReason.MAX_CONTROL_LINE, texts.MAXIMUM_CONTROL_LINE)
        elif kind == wire.PAYLOAD_TOO_LARGE:
            self._host.log("ERR", client, f"{texts.MAXIMUM_PAYLOAD}: '{shown}' > {client.parser.max_payload}")
            client.close(CloseReason.MAX_PAYLOAD, texts.MAXIMUM_PAYLOAD)
        elif kind == wire.HEADERS_NOT_NEGOTIATED:
            self._host.log("ERR", client, "message headers not supported")
            client.close(CloseReason.HEADER_VIOLATION)
        elif kind == wire.TOO_MUCH_WAITING:
            client.refuse(f"more than {client.parser.unparsed.waiting_max} bytes before the password was checked")
        else:
            self._host.log("ERR", client, f"bad arguments: '{shown}'")
            client.close(CloseReason.PROTOCOL_VIOLATION)


def _is_reserved_reply(reply: bytes) -> bool:
    """Whether only the server itself may hand out this reply subject."""
    return reply.startswith(_SERVICE_REPLY) or (reply.startswith(_SERVER_REPLIES) and reply not in _SERVER_REPLIES)
