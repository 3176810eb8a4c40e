"""What a client publishes, as far as it has to be looked at.

Publishes of a READY client normally do not come here: the kernel repeats decisions taken earlier (`may_publish`, the
account's routes). They do come here while something has to see each of them: verbose or pedantic mode, tracing, a
subject or reply of the server's own, a mapping that rolls dice.
"""

from __future__ import annotations

from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.protocol import texts
from slipstream.protocol.connection import OK_LINE, ClientConnection
from slipstream.protocol.headers import find_header
from slipstream.protocol.tracelog import operation_line, payload_line

__all__ = ["PublishingClient"]

_SERVER_SUBJECTS = (b"_GR_.", b"$GR.")
_RAFT_SUBJECTS = b"$NRG."
_SERVER_REPLIES = (b"$JS.ACK.", b"_GR_.", b"$GR.")
_SERVICE_REPLY = b"_R_."
_SCHEDULE_TARGET = b"Nats-Schedule-Target"
_SCHEDULE_SOURCE = b"Nats-Schedule-Source"


class PublishingClient(ClientConnection):
    """A connection with PUB and HPUB."""

    __slots__ = ()

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
            beyond = self._scheduled_beyond(body[:header_size])
            if beyond is not None:
                self.on_publish_denied(beyond)
                return
        if self.verbose:
            self.outbox.write(OK_LINE)
        if traced is not None:
            taken = self._host.publish_traced(self, traced, subject, destination, reply, header_size, body)
        else:
            taken = self._host.publish(self, destination, reply, header_size, body)
        if not taken and reply is not None and self.no_responders:
            self.on_no_responders(destination, reply)

    def _scheduled_beyond(self, header: bytes) -> bytes | None:
        """The subject, of those a schedule names, that the client may not use: to publish to, or to read from."""
        permissions = self._permissions
        if permissions is None:
            return None
        target = find_header(_SCHEDULE_TARGET, header)
        if target and not self.grants(target):
            return target
        source = find_header(_SCHEDULE_SOURCE, header)
        return source if source and not permissions.may_subscribe(source) else None

    def _may_trace_to(self, subject: bytes) -> bool:
        return not self._is_reserved(subject) and self.may_publish(subject) is not False

    def _trace_publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        verb = "HPUB" if header_size else "PUB"
        self._host.log("TRC", self, operation_line(verb, subject, reply, header_size or None, len(body)))
        payload = payload_line("<<-", header_size, body, self._host.options)
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


def _is_reserved_reply(reply: bytes) -> bool:
    """Whether only the server itself may hand out this reply subject."""
    return reply.startswith(_SERVICE_REPLY) or (reply.startswith(_SERVER_REPLIES) and reply not in _SERVER_REPLIES)
