"""One request to the system account from its bytes to its answer.

    subject ──► which service ──► options and filter ──► answer, compressed if the asker can read it

A subject that names no service is not taken, so the asker hears that nobody responds. A request that is not for this
server (filter), or about which it has nothing to say, is taken and not answered.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.jetstream.api.actions import Action
from slipstream.kernels.subjects.subject import is_literal, is_subset
from slipstream.monitoring.endpoints.jsz import NotLeader
from slipstream.monitoring.gotext import encode
from slipstream.monitoring.system.envelope import Sender
from slipstream.monitoring.system.event_messages import account_connections, server_stats
from slipstream.monitoring.system.request_options import BadOptions, concerns, read_options
from slipstream.monitoring.system.services import (
    ACCOUNT_SERVICES,
    ALL_ACCOUNTS_STATZ,
    COMMANDS,
    OWN_SERVICES,
    REFUSALS,
    SERVER_SERVICES,
    NoOptions,
    Service,
    Silence,
)
from slipstream.monitoring.system.userinfo import user_info
from slipstream.monitoring.worker import Job, Worker, in_steps
from slipstream.protocol.headers import find_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from slipstream.accounts.account import Account
    from slipstream.monitoring.system.events import Events
    from slipstream.monitoring.system.own_requests import OwnRequests
    from slipstream.protocol.connection import ClientConnection

__all__ = ["ServiceAnswers", "ServiceRequest"]

_GZIP = 31  # zlib's window bits for the gzip format


class ServiceRequest(msgspec.Struct):
    """A message on a service's subject. `account` is where it was sent and where the answer goes."""

    account: Account
    asker: ClientConnection | None  # None when it came through another account or from the server
    subject: str
    reply: bytes | None
    header: bytes
    body: bytes


class ServiceAnswers:
    """Answers the requests of one server."""

    def __init__(self, sender: Sender, events: Events, worker: Worker, own: OwnRequests | None = None) -> None:
        """Ready to answer.

        Args:
            sender: who says it.
            events: for those that a request brings about.
            worker: does what takes longer.
            own: asks the other servers, if there may be some.
        """
        self._sender = sender
        self._facts = sender.facts
        self._events = events
        self._worker = worker
        self._own = own

    # --- subjects -------------------------------------------------------------------------------------------------

    def answer_system(self, request: ServiceRequest) -> bool:
        """A request in the system account; False when the subject names nothing."""
        match request.subject.split(".")[2:]:
            case ["SERVER", "PING"]:
                self._statsz(request)
            case ["SERVER", target, name] if target in ("PING", self._facts.server_id):
                return self._answer_server(request, name, is_direct=target != "PING")
            case ["ACCOUNT", "PING", "STATZ"]:
                self._answer(request, ALL_ACCOUNTS_STATZ)
            case ["ACCOUNT", account, "CONNS"]:
                self._connections(request, account)
            case ["ACCOUNT", account, name] if name in ACCOUNT_SERVICES:
                self._about_account(request, account, name)
            case _:
                return False
        return True

    def answer_own(self, request: ServiceRequest) -> bool:
        """A request in any other account, about that account."""
        name = OWN_SERVICES[request.subject]
        if self._own is not None and request.reply is not None and self._facts.peer_count():
            self._own.ask(request.account, name, request.reply, request.header, request.body)
        else:
            self._about_account(request, request.account.name, name)
        return True

    def _answer_server(self, request: ServiceRequest, name: str, *, is_direct: bool) -> bool:
        if name == "IDZ":
            identity = {"name": self._facts.server_name, "host": self._facts.hub.host, "id": self._facts.server_id}
            self._send(request, identity)
        elif name == "STATSZ":
            self._statsz(request)
        elif name in SERVER_SERVICES:
            self._answer(request, SERVER_SERVICES[name])
        elif is_direct and name in COMMANDS:
            self._command(request, COMMANDS[name])
        else:
            return False
        return True

    # --- services -------------------------------------------------------------------------------------------------

    def _answer(
        self,
        request: ServiceRequest,
        service: Service,
        about: Callable[[object], None] | None = None,
        done: Callable[[str], None] | None = None,
    ) -> None:
        """Let the worker answer. When it has too much to do the request is lost, as any message may be."""
        if request.reply is not None:
            self._worker.submit(self._make_answer(request, service, about, done))

    def _make_answer(
        self,
        request: ServiceRequest,
        service: Service,
        about: Callable[[object], None] | None,
        done: Callable[[str], None] | None,
    ) -> Job:
        """Read the options, ask the service, send what it says; `done` is told why it could not, or nothing."""
        try:
            options, wanted = read_options(request.body, service.options, service.go_name)
        except BadOptions as error:
            self._send(request, {"server": self._sender.server(), "error": _error(400, str(error))})
            return
        if not concerns(self._facts, wanted):
            return
        if about is not None:
            about(options)
        try:
            data = yield from in_steps(service.answer(self._facts, options))
        except (Silence, NotLeader):
            return
        except REFUSALS as error:
            message: dict[str, object] = {"server": self._sender.server()}
            if service.shows_null:
                message["data"] = None
            self._send(request, {**message, "error": _error(500, str(error))})
            if done is not None:
                done(str(error))
            return
        message = {"server": self._sender.server()}
        if data is not None:
            message["data"] = data
        self._send(request, message, may_compress=True)
        if done is not None:
            done("")

    def _about_account(self, request: ServiceRequest, account: str, name: str) -> None:
        service, about = ACCOUNT_SERVICES[name]
        self._answer(request, service, lambda options: about(options, account))

    def _command(self, request: ServiceRequest, service: Service) -> None:
        """A request that changes something; one that cannot be read is not answered, as nats-server has it."""
        try:
            if service.options is not NoOptions:
                read_options(request.body or b" ", service.options, service.go_name)
        except BadOptions as error:
            self._facts.server.log("ERR", f"Bad request on {request.subject.rpartition('.')[2]}: {error}")
            return
        action = Action(f"server.{request.subject.rpartition('.')[2].lower()}")

        def done(error: str) -> None:
            self._facts.server.record_action(
                action, asker=request.asker, subject=request.subject, body=request.body, error=error
            )

        self._answer(request, service, done=done)

    def _statsz(self, request: ServiceRequest) -> None:
        """Numbers; a request without reply makes the server send them to everybody."""
        try:
            _, wanted = read_options(request.body, NoOptions, "StatszEventOptions")
        except BadOptions as error:
            self._send(request, {"server": self._sender.server(), "error": _error(400, str(error))})
            return
        if not concerns(self._facts, wanted):
            return
        if request.reply is None:
            self._events.send_statsz()
        else:
            self._send(request, server_stats(self._sender))

    def _connections(self, request: ServiceRequest, name: str) -> None:
        """Connections of an account, in the form of the event; only if it has any."""
        account = self._facts.accounts.get(name)
        if account is not None and account.connections:
            self._send(request, account_connections(self._sender, account))

    def answer_user(self, request: ServiceRequest) -> bool:
        """Who is asking."""
        message: dict[str, object] = {"server": self._sender.server()}
        if request.asker is None:
            message["error"] = {"code": 400}
        else:
            message["data"] = user_info(self._facts, request.asker)
        self._send(request, message)
        return True

    def count_subscribers(self, request: ServiceRequest) -> bool:
        """How many clients of the system account listen to a subject, or to a part of a pattern: `subject [queue]`.

        Of another server its interest counts: as one, or with the members of a queue group.
        """
        words = request.body.split()
        subject = words[0] if words else b""
        queue = words[1] if len(words) > 1 else None
        self._send(request, _count(request.account, subject, queue))
        return True

    def count_interest(self, request: ServiceRequest) -> bool:
        """How many clients of a named account listen; a request that cannot be read gets no answer, as elsewhere."""
        try:
            asked = msgspec.json.decode(request.body, type=_InterestRequest)
        except UNREADABLE:
            return True
        account = self._facts.accounts.get(asked.acc)
        if account is not None:
            self._send(request, _count(account, asked.subject.encode(), asked.queue or None))
        return True

    # --- answers --------------------------------------------------------------------------------------------------

    def _send(self, request: ServiceRequest, message: object, *, may_compress: bool = False) -> None:
        if request.reply is None:
            return
        body = encode(message)
        header = b""
        if may_compress and request.header:
            encoding, body = _compressed(request.header, body)
            header = b"NATS/1.0\r\nContent-Encoding: " + encoding + b"\r\n\r\n" if encoding else b""
        request.account.publish(request.reply, None, len(header), header + body)


class _InterestRequest(msgspec.Struct):
    """The body of `NSUBS`."""

    acc: str
    subject: str
    queue: bytes = b""


def _count(account: Account, subject: bytes, queue: bytes | None) -> int:
    if is_literal(subject):
        found = account.interest.match(subject) if subject else []
    else:
        found = [one for one in account.interest.subscriptions() if is_subset(one.subject, subject)]
    return sum(one.weight for one in found if one.client is not None and queue in (None, one.queue))


def _compressed(header: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The body in an encoding the asker accepts, and the name of that; no name when it did not say."""
    accepted = (find_header(b"Accept-Encoding", header) or b"").lower()
    if not accepted:
        return b"", body
    if b"gzip" in accepted:
        packer = zlib.compressobj(wbits=_GZIP)
        return b"gzip", packer.compress(body) + packer.flush()
    return b"identity", body


def _error(code: int, description: str) -> dict[str, object]:
    return {"code": code, "description": description}
