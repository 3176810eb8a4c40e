"""One call of the API, and what is known of the calls of its kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream.api.load import ApiLoad
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.commit.pubacks import error_object

__all__ = ["Answerer", "ApiRequest", "ApiRoute", "Fields", "Grants", "Handler"]

Fields = Mapping[str, object]
Grants = Callable[[bytes], bool]


class Answerer(Protocol):
    """The dispatcher, as far as a call needs it."""

    @property
    def strict(self) -> bool:
        """Whether unknown names in bodies are refused."""
        ...

    @property
    def load(self) -> ApiLoad:
        """Counts calls that wait."""
        ...

    @property
    def lost(self) -> deque[ApiRequest]:
        """Calls that nothing else will answer."""
        ...

    def complain(self, subject: str, problem: Exception) -> None:
        """Log what is wrong with a body, when that is not an error."""
        ...

    def watch(self) -> None:
        """A call waits: look now and then whether something will still answer it."""
        ...

    def send(
        self, request: ApiRequest, payload: bytes, *, error: ApiError | None, audited: bool, concluded: bool
    ) -> None:
        """Count, answer and audit."""
        ...

    def conclude(self, request: ApiRequest, error: ApiError | None) -> None:
        """Write down what became of a call, if it was an action."""
        ...


class ApiRequest:
    """One call, and the way to answer it. Answering twice is a bug."""

    __slots__ = (
        "_answered",
        "_dispatcher",
        "_route",
        "_waits",
        "body",
        "checked",
        "client",
        "decoded",
        "grants",
        "header",
        "names",
        "reply",
        "subject",
        "whence",
    )

    def __init__(
        self,
        dispatcher: Answerer,
        route: ApiRoute,
        subject: str,
        names: list[str],
        reply: bytes | None,
        header: bytes,
        body: bytes,
        client: Fields | Callable[[], Fields] | None,
        grants: Grants,
    ) -> None:
        """Hold a call; `names` are the variable tokens of the subject."""
        self._dispatcher = dispatcher
        self._route = route
        self._answered = False
        self._waits = False  # counted among the calls that are not answered yet
        self.subject = subject
        self.names = names
        self.reply = reply
        self.header = header
        self.body = body
        self.client = client
        self.decoded: object = None  # see `bodies.prepare`
        self.checked: object = None  # a configuration that was found to be good before its turn
        self.whence: object = None  # how it came, as a cluster has to know it
        self.grants = grants
        """Whether who asks may publish to a subject, or to all that a pattern matches."""

    @property
    def is_answered(self) -> bool:
        """Whether the caller has an answer."""
        return self._answered

    @property
    def strict(self) -> bool:
        """Whether unknown names in the body are refused."""
        return self._dispatcher.strict

    @property
    def response_type(self) -> str:
        """The type of its answer."""
        return self._route.response_type

    def complain(self, problem: Exception) -> None:
        """Log what is wrong with the body, when that is not an error."""
        self._dispatcher.complain(self.subject, problem)

    def respond(self, fields: Fields, *, audited: bool = True, concluded: bool = True) -> None:
        """Answer with success.

        Args:
            fields: the members of the answer.
            audited: False: neither counted nor told by an advisory (MSG.GET), as nats-server has it.
            concluded: False: the action has only begun, and `conclude` follows.
        """
        answer = {"type": self._route.response_type, **fields}
        self._send(answer, error=None, audited=audited, concluded=concluded)

    def answered_elsewhere(self) -> None:
        """Another server has answered the caller: what is answered here is counted and audited, and not sent."""
        self.reply = None

    def conclude(self, error: ApiError | None) -> None:
        """What was begun is done, or has failed."""
        self._dispatcher.conclude(self, error)

    def describe_client(self) -> Fields | None:
        """Who asks; None: this server."""
        return self.client() if callable(self.client) else self.client

    def fail(self, error: ApiError, *, audited: bool = True) -> None:
        """Answer with an error, and the members this answer has even then; `audited` as in `respond`."""
        fields = {"type": self._route.response_type, "error": error_object(error), **self._route.error_fields}
        self._send(fields, error=error, audited=audited, concluded=True)

    def wait(self) -> None:
        """Its handler returned; unless it has answered already, the call waits. For the dispatcher."""
        if not self._answered and not self._waits:
            self._dispatcher.load.wait(looks=self._route.looks)
            self._waits = True
            self._dispatcher.watch()

    def __del__(self) -> None:
        """Nothing can answer the call any more. This may run in any thread: the dispatcher answers when it looks."""
        if getattr(self, "_waits", False) and not self._answered:
            self._dispatcher.lost.append(self)

    def attempt(self, work: Callable[[], None]) -> None:
        """Go on with a call in a later turn: what `work` raises is answered as if its handler had raised it."""
        try:
            work()
        except ApiError as error:
            self.fail(error)
        except StorageFault as fault:
            self.fail(store_error(fault))

    def settle(self, fields: Fields) -> Callable[[ApiError | None], None]:
        """A callback for `Stream.after_commit`: success with `fields`, or the commit's error."""
        return lambda error: self.respond(fields) if error is None else self.fail(error)

    def _send(self, fields: Fields, *, error: ApiError | None, audited: bool, concluded: bool) -> None:
        assert not self._answered
        payload = encode(fields)
        if self._waits:
            self._dispatcher.load.answered(looks=self._route.looks)
        self._answered = True
        self._dispatcher.send(self, payload, error=error, audited=audited, concluded=concluded)


Handler = Callable[[ApiRequest], Fields | None]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """How calls on one subject are answered."""

    response_type: str
    handler: Handler
    error_fields: Fields
    checks_level: bool
    prepare: Callable[[ApiRequest], object] | None
    looks: bool  # changes nothing: counted apart from calls that do
