"""A connection of the HTTP API (ADR 81): a socket on one side; on the other `rest`, and a client inside the server.

    socket ──► HttpSide ──► handler's steps ──► RestSession ──► Pipe ──► the server
           ◄──          ◄── outcome         ◄──         ◄──      ◄──

A connection logs in with its first request and stays that client as long as its requests come with the same
credentials. Requests are answered one after the other; while a client does not read, nothing is taken from the server.

A publish whose head came before, byte for byte, goes from the socket to the pipe (`_repeat`, ADR 121).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, cast

from slipstream.rest.call import ApiCall, CallHeaders
from slipstream.rest.credentials import credentials
from slipstream.rest.handlers import publish_of, steps_of
from slipstream.rest.http_side import HttpSide
from slipstream.rest.known_publishes import KnownPublishes
from slipstream.rest.limits import (
    BODY_TIMEOUT_NS,
    CONNECTIONS_MAX,
    HEAD_TIMEOUT_NS,
    HEARTBEAT_NS,
    HEARTBEATS_MISSED,
    IDLE_TIMEOUT_NS,
    WRITE_TIMEOUT_NS,
)
from slipstream.rest.pages import allowed_origin, preflight
from slipstream.rest.session import RestSession
from slipstream.rest.steps import Answer, HttpProblem, Steps
from slipstream.server.clients.listener import ClientProtocol, address_of
from slipstream.server.clients.pipe import Pipe
from slipstream.server.sockets.patience import Patience

if TYPE_CHECKING:
    from slipstream.server.clients.http_api import RestListener

__all__ = ["RestProtocol"]


class RestProtocol(asyncio.Protocol):
    """One socket on the port."""

    def __init__(self, listener: RestListener) -> None:
        self._listener = listener
        self._server = listener.server
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._http = HttpSide(listener.date, self._server.hub.options.max_payload, listener.answers)
        self._publishes = KnownPublishes()
        self._session: RestSession | None = None
        self._pipe: Pipe | None = None
        self._call: ApiCall | None = None  # being answered
        self._is_tail = False  # the answer goes on
        self._silence = 0  # heartbeats in a row in which the server said nothing
        self._blocked = False  # the transport holds bytes it could not send
        self._judged: tuple[CallHeaders | None, dict[str, str]] = (None, {})  # headers of no page, and their login
        self._step_timeout_ns = 0  # that is awaited
        turns = self._server.turns
        self._patience = Patience(turns, time.monotonic_ns, self.abort)  # with the client
        self._step_patience = Patience(turns, time.monotonic_ns, self._on_step_timeout)
        self._heartbeat: asyncio.TimerHandle | None = None  # of a tail

    # --- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        self._transport = cast(asyncio.Transport, transport)
        if len(self._listener.connections) >= CONNECTIONS_MAX:
            self._transport.abort()
            return
        self._listener.connections.add(self)
        self._patience.set(HEAD_TIMEOUT_NS)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone, and with it the client."""
        self._patience.close()
        self._step_patience.close()
        self._stop_heartbeat()
        self._listener.connections.discard(self)
        self._leave()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._http.is_idle and not self._blocked:
            publish = self._publishes.find(data)
            if publish is not None and self._pipe is not None:
                self._repeat(data, publish, self._pipe)
                return
        was_idle = self._http.is_idle
        self._http.receive(data)
        self._take_calls()
        if was_idle and self._call is None and not self._http.is_idle and not self._http.has_head:
            self._patience.set(HEAD_TIMEOUT_NS)  # a head that is not whole

    def eof_received(self) -> bool:
        """The client sends no more; what is under way is still answered, unless it goes on for ever."""
        self._http.receive(b"")
        if self._is_tail:
            return False
        self._take_calls()
        return self._call is not None

    def pause_writing(self) -> None:
        """The client reads slower than it is sent to."""
        self._blocked = True
        self._transport.pause_reading()
        if self._pipe is not None:
            self._pipe.block()
        if not self._is_tail:
            self._patience.set(WRITE_TIMEOUT_NS)  # of a tail the server's own deadline for slow clients holds

    def resume_writing(self) -> None:
        """It has read."""
        self._blocked = False
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._pipe is not None:
            self._pipe.unblock()
        self._take_calls()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # --- requests -----------------------------------------------------------------------------------------------

    def _take_calls(self) -> None:
        """Take the requests that are whole, one after the other."""
        http, transport = self._http, self._transport
        while self._call is None and not (self._blocked or transport.is_closing()):
            call = http.next_call()
            if isinstance(call, bytes):
                transport.write(call)
            elif call is not None:
                self._begin(call)
            if http.is_closing and self._call is None:
                self._patience.set(WRITE_TIMEOUT_NS)
                transport.close()
            elif call is None:
                break
        if self._call is None and not (self._blocked or transport.is_closing()):
            if http.is_idle:
                self._patience.set(IDLE_TIMEOUT_NS)
            elif http.has_head:
                self._patience.set(BODY_TIMEOUT_NS)

    def _repeat(self, data: bytes, publish: bytes, pipe: Pipe) -> None:
        """Publish what differs in its payload only from what this client published before."""
        if pipe.offer(publish):
            self._transport.write(self._listener.taken)
            self._patience.set(IDLE_TIMEOUT_NS)
            return
        # The server has something to say, or has not looked at it yet: from here on it is a request like any other.
        session = self._session
        self._http.receive(data)
        call = self._http.next_call()
        assert session is not None and isinstance(call, ApiCall)
        self._patience.clear()
        self._call = call
        session.begin_sent(steps_of(call))
        pipe.unblock()
        self._drive()

    def _begin(self, call: ApiCall) -> None:
        self._patience.clear()
        self._call = call
        try:
            steps, login = self._judge(call)
            if steps is None:
                self._answer(preflight(call))
                return
        except HttpProblem as problem:
            self._answer(problem.answer())
            return
        session = self._session_of(login, call)
        session.begin(steps)
        self._drive()

    def _judge(self, call: ApiCall) -> tuple[Steps | None, dict[str, str]]:
        """What is to be done and as whom; no steps: a browser asks what a page may send.

        Raises:
            HttpProblem: nothing is.
        """
        known, login = self._judged
        if known is call.headers and call.method != "OPTIONS":
            return steps_of(call), login
        origin = allowed_origin(call, self._listener.origins)
        self._http.allow_origin(origin)
        if call.method == "OPTIONS":
            return None, {}
        steps = steps_of(call)
        login = credentials(call.header("authorization"), operator_mode=self._server.options.trusts_operators)
        if not origin:
            self._judged = call.headers, login
        return steps, login

    def _session_of(self, login: dict[str, str], call: ApiCall) -> RestSession:
        """The client that asks: the one of before, if it is the same."""
        if self._session is not None and self._session.login == login and not self._session.is_over:
            return self._session
        self._leave()
        name = call.header("user-agent")[:64]
        self._session = RestSession(login, name, f"_INBOX.{secrets.token_hex(11)}")
        self._pipe = Pipe(ClientProtocol(self._server), address_of(self._transport), self._received, self._lost)
        self._pipe.connect()
        return self._session

    def _leave(self) -> None:
        if self._pipe is not None:
            self._pipe.hang_up()
        self._pipe = self._session = None
        self._publishes.forget()

    def _learn(self, call: ApiCall) -> None:
        """A request was taken: a publish need not be looked at again, unless a page sent it."""
        request = self._http.known_request
        if request is not None and call.headers is self._judged[0]:
            step = publish_of(call)
            if step is not None:
                self._publishes.learn(request, step)

    # --- the server ---------------------------------------------------------------------------------------------

    def _received(self, data: bytes | bytearray | memoryview) -> None:
        """The server says something."""
        assert self._session is not None
        self._silence = 0
        self._session.receive(data)
        if isinstance(self._session.outcome, Answer) and not self._session.has_output and self._call is not None:
            self._drive()  # only the socket is written to
        else:
            self._server.turns.call_soon(self._drive)

    def _lost(self) -> None:
        """The server closed the client."""
        if self._session is not None:
            self._session.closed()
            self._drive()
        self._pipe = None
        if self._is_tail:
            self._end_tail()

    def _drive(self) -> None:
        """Carry what each side has for the other."""
        session, pipe = self._session, self._pipe
        if session is None or self._transport.is_closing():
            return
        output = session.output()
        if output and pipe is not None:
            pipe.send(output)
        outcome = session.outcome
        if outcome is not None and self._call is not None and not self._is_tail:
            session.outcome = None
            if isinstance(outcome, HttpProblem):
                self._answer(outcome.answer())
            elif isinstance(outcome, Answer):
                self._learn(self._call)
                self._answer(outcome)
            else:
                self._begin_tail(outcome.content_type)
        elif self._call is not None and not self._is_tail and session.timeout_ns != self._step_timeout_ns:
            self._await_step(session)
        if self._is_tail:
            self._send_tail()

    def _await_step(self, session: RestSession) -> None:
        self._step_timeout_ns = session.timeout_ns
        if session.timeout_ns:
            self._step_patience.set(session.timeout_ns)
        else:
            self._step_patience.clear()

    def _on_step_timeout(self) -> None:
        if self._session is not None:
            self._session.timed_out()
            self._drive()

    # --- answers ------------------------------------------------------------------------------------------------

    def _answer(self, answer: Answer) -> None:
        self._call = None
        self._stop_waiting()
        if self._transport.is_closing():
            return
        self._transport.write(self._http.answer(answer))
        if self._http.is_idle and not self._blocked:
            self._patience.set(IDLE_TIMEOUT_NS)
        else:
            self._server.turns.call_soon(self._take_calls)

    def _begin_tail(self, content_type: str) -> None:
        self._stop_waiting()
        self._is_tail = True
        self._silence = 0
        self._transport.write(self._http.begin(content_type))
        if self._call is not None and self._call.method == "HEAD":
            self._end_tail()
        else:
            self._heartbeat = self._server.turns.call_later(HEARTBEAT_NS, self._on_heartbeat)

    def _send_tail(self) -> None:
        session = self._session
        assert session is not None
        data = session.tail_output()
        if data:
            self._transport.write(self._http.piece(data))
        if session.tail_has_ended:
            self._end_tail()

    def _on_heartbeat(self) -> None:
        """Show the client that more may come; end what nobody feeds any more."""
        self._heartbeat = None
        session = self._session
        self._silence += 1
        if session is None or self._silence > HEARTBEATS_MISSED:
            self._end_tail()
            return
        if not self._blocked:
            self._transport.write(self._http.piece(session.tail_heartbeat()))
        self._heartbeat = self._server.turns.call_later(HEARTBEAT_NS, self._on_heartbeat)

    def _end_tail(self) -> None:
        """The answer is whole, or breaks off; the consumer goes with its client."""
        self._stop_waiting()
        session = self._session
        self._is_tail = False
        self._call = None
        if not self._transport.is_closing():
            last = session.tail_end() if session is not None else None
            if last is None:
                self._transport.close()  # without its end: nobody takes it for whole
            else:
                self._transport.write(self._http.piece(last) + self._http.end())
                self._server.turns.call_soon(self._take_calls)
        self._leave()

    # --- time ---------------------------------------------------------------------------------------------------

    def _stop_waiting(self) -> None:
        """Neither the client nor NATS is awaited."""
        self._step_timeout_ns = 0
        self._patience.clear()
        self._step_patience.clear()
        self._stop_heartbeat()

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None
