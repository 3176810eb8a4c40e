"""The NATS side of an HTTP connection: a client like any other, without its socket.

    log_in ──► begin(steps) ──► output() goes to the server, receive() takes what it says ──► outcome

Steps of a handler become protocol lines; what the server sends becomes the results of steps. One handler runs at a
time, as HTTP answers one request after the other.

Invariants: `outcome` is set exactly once for each `begin`; after `is_over` there is no other.
"""

from __future__ import annotations

from typing import Final

import msgspec

from slipstream.client.frames import message_frame
from slipstream.kernels.client.serverdecode import Decoder, Message
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.protocol.texts import INVALID_PUBLISH_SUBJECT
from slipstream.rest.steps import Answer, Ask, HttpProblem, Listen, NatsReply, PublishStep, Step, Steps, Tail
from slipstream.version import PRODUCT_VERSION

__all__ = ["RestSession"]

_NO_RESPONDERS = 503
# What the server says when it closes or refuses, by its beginning in lower case, and what that is in HTTP.
_STATUS_OF: Final = (
    ("authorization violation", 401),
    ("authentication", 401),
    ("user authentication", 401),
    ("permissions violation", 403),
    ("maximum payload", 413),
    ("maximum connections", 503),
    ("maximum account", 503),
    ("maximum subscriptions", 503),
    ("invalid", 400),
    ("'invalid", 400),
)


class RestSession:
    """One client.

    Args:
        login: the fields of CONNECT that say who it is.
        name: what monitoring shows.
        inbox: the beginning of its reply subjects, which nobody else has.
    """

    def __init__(self, login: dict[str, str], name: str, inbox: str) -> None:
        self.login = login
        self.outcome: Answer | HttpProblem | Tail | None = None
        self.is_over = False  # the server closed it
        self.is_known = False  # the server let it in
        self.timeout_ns = 0  # for the step that is under way; 0: as long as it takes
        self._decoder = Decoder()
        self._output = bytearray()
        self._inbox = inbox
        self._sids = 0
        self._reply_sid = 0  # of replies; 0 before the first request
        self._requests = 0
        self._step: Step | None = None
        self._steps: Steps | None = None
        self._tail: Tail | None = None
        self._tail_sid = 0
        self._errors_seen = 0
        self._pings_answered = 0
        self._pongs_awaited = 1
        self._http = bytearray()  # of a tail
        connect = {
            "verbose": False,
            "pedantic": False,
            "lang": "http",
            "version": PRODUCT_VERSION,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            "name": name,
            **login,
        }
        self._output += b"CONNECT %b\r\nPING\r\n" % msgspec.json.encode(connect)

    def begin(self, steps: Steps) -> None:
        """Run a handler; its outcome follows, perhaps at once."""
        self.outcome = None
        self._steps = steps
        if self.is_over:
            self._fail(HttpProblem(503, "the server has closed the connection"))
        elif self.is_known:
            self._go_on(None)

    def begin_sent(self, steps: Steps) -> None:
        """Run a handler whose first step is a publish that the server was given already."""
        self.outcome = None
        self._steps = steps
        self._step = next(steps)
        self._await_pong()

    def output(self) -> bytes:
        """What the server is to get."""
        data = bytes(self._output)
        self._output.clear()
        return data

    @property
    def has_output(self) -> bool:
        """Whether the server is to get something."""
        return bool(self._output)

    def tail_output(self) -> bytes:
        """What a tail has for the HTTP client."""
        data = bytes(self._http)
        self._http.clear()
        return data

    @property
    def tail_has_ended(self) -> bool:
        """Whether nothing follows."""
        return self._tail is None or self._tail.has_ended

    def tail_heartbeat(self) -> bytes:
        """What a tail sends when it has nothing."""
        return b"" if self._tail is None else self._tail.heartbeat()

    def tail_end(self) -> bytes | None:
        """What comes last; None when the answer breaks off."""
        return None if self._tail is None or self.is_over else self._tail.end()

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """The server said something."""
        for message in self._decoder.feed(data):
            self._take(message)
        self._answer_pings()
        self._notice_errors()
        self._notice_pongs()

    def timed_out(self) -> None:
        """The step under way took longer than its `timeout_ns`."""
        if isinstance(self._step, Ask):
            self._throw(HttpProblem(504, f"no answer on {self._step.subject!r} in time"))

    def closed(self) -> None:
        """The server closed the connection."""
        self.is_over = True
        self._notice_errors()
        if self._steps is not None:
            self._fail(HttpProblem(503, "the server has closed the connection"))

    # --- steps ------------------------------------------------------------------------------------------------------

    def _go_on(self, result: NatsReply | str | None) -> None:
        steps = self._steps
        assert steps is not None
        self._step, self.timeout_ns = None, 0
        try:
            step = steps.send(result)
            while isinstance(step, Listen):
                step = steps.send(self._listen())
        except StopIteration as end:
            self._end(end.value)
        except HttpProblem as problem:
            self._end(problem)
        else:
            self._run(step)

    def _throw(self, problem: HttpProblem) -> None:
        steps = self._steps
        if steps is None:
            return
        self._step, self.timeout_ns = None, 0
        try:
            step = steps.throw(problem)
        except StopIteration as end:
            self._end(end.value)
        except HttpProblem as raised:
            self._end(raised)
        else:
            self._run(step)

    def _run(self, step: Step) -> None:
        self._step = step
        if not isinstance(step, Listen) and not is_valid_publish(step.subject.encode()):
            # It would be published into the void: nobody can match it.
            self._throw(HttpProblem(400, INVALID_PUBLISH_SUBJECT))
            return
        try:
            if isinstance(step, PublishStep):
                self._output += message_frame(step.subject, step.payload, header=step.header)
                self._await_pong()
            elif isinstance(step, Ask):
                if not self._reply_sid:
                    self._reply_sid = self._subscribe(f"{self._inbox}.r.*")
                self._requests += 1
                reply = f"{self._inbox}.r.{self._requests}"
                self._output += message_frame(step.subject, step.payload, reply=reply, header=step.header)
                self.timeout_ns = step.timeout_ns
        except ValueError as error:
            self._throw(HttpProblem(400, str(error)))

    def _await_pong(self) -> None:
        """The server answers a PING when it has looked at everything before it."""
        self._output += b"PING\r\n"
        self._pongs_awaited += 1

    def _listen(self) -> str:
        subject = f"{self._inbox}.t"
        self._tail_sid = self._subscribe(subject)
        return subject

    def _subscribe(self, subject: str) -> int:
        self._sids += 1
        self._output += f"SUB {subject} {self._sids}\r\n".encode()
        return self._sids

    def _fail(self, problem: HttpProblem) -> None:
        if self._steps is not None:
            self._steps.close()
            self._end(problem)

    def _end(self, outcome: Answer | HttpProblem | Tail) -> None:
        self._steps = self._step = None
        self.timeout_ns = 0
        if not isinstance(outcome, Answer | HttpProblem):
            self._tail = outcome
            self._http += outcome.begin()
        self.outcome = outcome

    # --- what the server says ---------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        if message.sid == self._tail_sid and self._tail is not None:
            data, owed = self._tail.take(message)
            self._http += data
            self._output += owed
        elif message.subject == f"{self._inbox}.r.{self._requests}" and isinstance(self._step, Ask):
            reply = NatsReply(message.header, message.payload)
            if reply.status == _NO_RESPONDERS and not reply.payload:
                self._throw(HttpProblem(503, f"nobody answers on {self._step.subject!r}"))
            else:
                self._go_on(reply)

    def _answer_pings(self) -> None:
        owed = self._decoder.pings - self._pings_answered
        if owed:
            self._pings_answered = self._decoder.pings
            self._output += b"PONG\r\n" * owed

    def _notice_errors(self) -> None:
        errors = self._decoder.errors
        while self._errors_seen < len(errors):
            text = errors[self._errors_seen]
            self._errors_seen += 1
            problem = HttpProblem(_status(text), text)
            if self.is_known:
                self._throw(problem)
            else:
                self._fail(problem)

    def _notice_pongs(self) -> None:
        if self._decoder.pongs < self._pongs_awaited or self.is_over:
            return
        if not self.is_known:
            self.is_known = True
            if self._steps is not None:
                self._go_on(None)
        elif isinstance(self._step, PublishStep):
            self._go_on(None)


def _status(text: str) -> int:
    lowered = text.lower()
    return next((status for begin, status in _STATUS_OF if lowered.startswith(begin)), 502)
