"""From a subject under `$JS.API.` to a handler, and from its outcome to an answer.

A handler gets an `ApiRequest` and either returns the members of its answer, raises `ApiError`, or returns None and
answers later through the request (after a commit, or when a thread is done). The dispatcher adds the type, counts, and
publishes the audit advisory if somebody listens.

What this is not: the handlers, nor who may call (the router has checked that).

Whatever a handler raises, or whatever else goes wrong before a call is answered, the caller gets an answer: 500, with
the cause in the log. A call that nothing can answer any more (an exception ended what would have, its stream went) is
found when its request is not referenced any more: see `ApiRequest.__del__`.

A subject nobody registered gets no answer at all, as with nats-server. DIRECT.GET and CONSUMER.MSG.NEXT are not
dispatched here: streams and consumers subscribe to theirs, so that a missing one is "no responders".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.api.load import INFO_PATTERNS, ApiLoad
from slipstream.jetstream.config.versioning import level_suffices
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.units import KIB, SECOND_NS

__all__ = [
    "API_PREFIX",
    "API_SUBSCRIPTIONS",
    "LONG_BODIES_AT_ONCE",
    "LONG_BODY_BYTES",
    "TYPE_PREFIX",
    "ApiCounters",
    "ApiDispatcher",
    "ApiRequest",
    "Handler",
    "keeps_silent",
    "level_suffices",
]

API_PREFIX: Final = "$JS.API."
TYPE_PREFIX: Final = "io.nats.jetstream.api.v1."
# What the server subscribes to for the dispatcher: all of the API but what streams and consumers answer themselves.
API_SUBSCRIPTIONS: Final = (
    "$JS.API.*",
    "$JS.API.STREAM.>",
    "$JS.API.META.>",
    "$JS.API.SERVER.>",
    "$JS.API.ACCOUNT.>",
    "$JS.API.BULK.>",
    *(
        f"$JS.API.CONSUMER.{verb}.>"
        for verb in (
            "CREATE",
            "DURABLE",
            "NAMES",
            "LIST",
            "INFO",
            "DELETE",
            "PAUSE",
            "LEADER",
            "UNPIN",
            "RESET",
        )
    ),
)

_ANSWERED_BY_STREAMS: Final = (f"{API_PREFIX}DIRECT.GET.", f"{API_PREFIX}CONSUMER.MSG.NEXT.")

Fields = Mapping[str, object]
Grants = Callable[[bytes], bool]
_PATTERN_TOKENS_MAX = 4  # literal tokens in front of the variable ones
LONG_BODY_BYTES: Final = 16 * KIB  # reading and judging a longer one takes more than some milliseconds
# Of an account, and of direct gets of a stream; more are read in their turn, so that clients cannot pile them up.
LONG_BODIES_AT_ONCE: Final = 8
_LOST_LOOK_NS: Final = SECOND_NS  # how often calls are looked for that nothing will answer, while some wait


@dataclass(slots=True)
class ApiCounters:
    """Calls answered, and those answered with an error."""

    total: int = 0
    errors: int = 0


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
    )

    def __init__(
        self,
        dispatcher: ApiDispatcher,
        route: _Route,
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

    def complain(self, problem: Exception) -> None:
        """Log what is wrong with the body, when that is not an error."""
        self._dispatcher.complain(self.subject, problem)

    def respond(self, fields: Fields, *, audited: bool = True) -> None:
        """Answer with success. `audited=False`: neither counted nor in the audit (MSG.GET)."""
        self._send({"type": self._route.response_type, **fields}, error=False, audited=audited)

    def fail(self, error: ApiError) -> None:
        """Answer with an error, and the members this answer has even then."""
        fields = {"type": self._route.response_type, "error": error_object(error), **self._route.error_fields}
        self._send(fields, error=True, audited=True)

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

    def _send(self, fields: Fields, *, error: bool, audited: bool) -> None:
        assert not self._answered
        payload = encode(fields)
        if self._waits:
            self._dispatcher.load.answered(looks=self._route.looks)
        self._answered = True
        self._dispatcher.send(self, payload, error=error, audited=audited)


Handler = Callable[[ApiRequest], Fields | None]


def _everything(_subject: bytes) -> bool:
    return True


def _nothing(_subject: bytes) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class _Route:
    response_type: str
    handler: Handler
    error_fields: Fields
    checks_level: bool
    prepare: Callable[[ApiRequest], object] | None
    looks: bool  # changes nothing: counted apart from calls that do


@dataclass(slots=True)
class _Table:
    """Routes by literal prefix; under a prefix, by how many variable tokens follow."""

    exact: dict[tuple[str, int], _Route] = field(default_factory=dict)
    open_ended: dict[str, tuple[int, _Route]] = field(default_factory=dict)  # prefix → least tokens, route


def keeps_silent(subject: bytes) -> bool:
    """Whether a request that nobody took is met with silence instead of "no responders", as with nats-server.

    That is all of `$JS.API.` but what streams and consumers would have answered.
    """
    text = subject.decode("utf-8", "replace")
    if not text.startswith(API_PREFIX) or text == f"{API_PREFIX}DIRECT.GET":
        return False
    return not text.startswith(_ANSWERED_BY_STREAMS)


class ApiDispatcher:
    """The API of one account."""

    def __init__(
        self, ports: Ports, advisories: Advisories, load: ApiLoad, *, account: str = "", strict: bool = True
    ) -> None:
        """Answer through `ports`; handlers are registered by their owners.

        Args:
            ports: the account's.
            advisories: where calls are audited.
            load: counts those that wait.
            account: its name, as shown in the log.
            strict: whether unknown names in bodies are refused.
        """
        self.load = load
        self._ports = ports
        self._advisories = advisories
        self._table = _Table()
        self.counters = ApiCounters()
        self.enabled = True  # False: the account may not use JetStream now
        self.account = account
        self.strict = strict
        self.lost: deque[ApiRequest] = deque()  # calls that nothing else will answer
        self._look: Cancel | None = None
        self._preparing = 0  # calls whose long bodies are being read in threads

    def register(
        self,
        pattern: str,
        response_type: str,
        handler: Handler,
        *,
        error_fields: Fields | None = None,
        checks_level: bool = True,
        prepare: Callable[[ApiRequest], object] | None = None,
    ) -> None:
        """Answer calls on a subject.

        Args:
            pattern: behind `$JS.API.`: literal tokens, then `*`s, then perhaps `>`.
            response_type: behind `io.nats.jetstream.api.v1.`.
            handler: see `Handler`.
            error_fields: members an error answer has beside `error`.
            checks_level: whether `Nats-Required-Api-Level` is looked at first.
            prepare: what can be done for a call with a long body in a thread, before its turn: it changes nothing.
        """
        tokens = pattern.split(".")
        literal = [token for token in tokens if token not in ("*", ">")]
        assert tokens[: len(literal)] == literal and len(literal) <= _PATTERN_TOKENS_MAX, pattern
        route = _Route(
            TYPE_PREFIX + response_type,
            handler,
            error_fields or {},
            checks_level,
            prepare,
            looks=pattern in INFO_PATTERNS,
        )
        prefix, variable = ".".join(literal), len(tokens) - len(literal)
        if tokens[-1] == ">":
            assert prefix not in self._table.open_ended, pattern
            self._table.open_ended[prefix] = (variable, route)
        else:
            assert (prefix, variable) not in self._table.exact, pattern
            self._table.exact[prefix, variable] = route

    def handle(
        self,
        subject: bytes,
        reply: bytes | None,
        header: bytes | None,
        body: bytes,
        client: Fields | Callable[[], Fields] | None = None,
        grants: Grants | None = None,
    ) -> None:
        """A message on `$JS.API.>` has arrived.

        Args:
            subject: what is called.
            reply: where the answer goes.
            header: a block, or None.
            body: the request.
            client: describes the sender for the audit, if there will be one.
            grants: whether the sender may publish to a subject; None: this server, which may.
        """
        if grants is None:
            # Who calls through an import has no rights here but those of the export.
            asked_elsewhere = header is not None and headers.find(header, b"Nats-Request-Info") is not None
            grants = _nothing if asked_elsewhere else _everything
        text = subject.decode("utf-8", "replace")
        found = self._find(text)
        if found is None:
            return
        route, names = found
        if self.lost:
            self._answer_lost()
        if not self.load.admits(looks=route.looks):
            return
        request = ApiRequest(self, route, text, names, reply, header or b"", body, client, grants)
        if route.prepare is not None and len(body) > LONG_BODY_BYTES and self._preparing < LONG_BODIES_AT_ONCE:
            request.wait()
            self._preparing += 1
            self._ports.run_blocking(
                partial(self._prepare, request, route.prepare), partial(self._prepared, request, route)
            )
        else:
            self._go(request, route)

    def _prepare(self, request: ApiRequest, prepare: Callable[[ApiRequest], object]) -> None:
        """In a thread."""
        try:
            prepare(request)
        except Exception:  # found again, and answered, when the handler does the same
            request.decoded = request.checked = None

    def _prepared(self, request: ApiRequest, route: _Route) -> None:
        self._preparing -= 1
        self._go(request, route)

    def _go(self, request: ApiRequest, route: _Route) -> None:
        try:
            self._run(request, route)
        except Exception as error:
            self._broke(request, error)

    def _run(self, request: ApiRequest, route: _Route) -> None:
        try:
            if route.checks_level and not level_suffices(request.header):
                raise TableError(table.REQUIRED_API_LEVEL)
            if not self.enabled:
                raise TableError(table.NOT_ENABLED_FOR_ACCOUNT)
            fields = route.handler(request)
        except ApiError as error:
            request.fail(error)
            return
        except StorageFault as fault:
            request.fail(store_error(fault))
            return
        if fields is not None:
            request.respond(fields)
        else:
            request.wait()

    def _broke(self, request: ApiRequest, error: Exception) -> None:
        """Something that nobody expected ended a handler."""
        self._ports.report(f"JetStream API call '{self.account} > {request.subject}'", error)
        if not request.is_answered:
            request.fail(TableError(table.STREAM_GENERAL, err="internal error"))

    def watch(self) -> None:
        """A call waits: look now and then whether something will still answer it. For `ApiRequest`."""
        if self._look is None:
            self._look = self._ports.call_later(_LOST_LOOK_NS, guarded(self._look_for_lost, self._look_broke))

    def stop(self) -> None:
        """Look no more; calls that wait are not answered."""
        self.lost.clear()
        if self._look is not None:
            self._look()
            self._look = None

    def _look_for_lost(self) -> None:
        self._look = None
        self._answer_lost()
        if self.load.waiting:
            self.watch()

    def _look_broke(self, error: Exception) -> None:
        self._ports.report("Unanswered JetStream API calls", error)
        self.watch()

    def _answer_lost(self) -> None:
        while self.lost:
            request = self.lost.popleft()
            self._ports.log("ERR", f"JetStream API call '{self.account} > {request.subject}' was given up")
            request.fail(TableError(table.STREAM_GENERAL, err="internal error"))

    def complain(self, subject: str, problem: Exception) -> None:
        """Log what is wrong with a body. For `ApiRequest`."""
        self._ports.log("WRN", f"Invalid JetStream request '{self.account} > {subject}': {problem}")

    def send(self, request: ApiRequest, payload: bytes, *, error: bool, audited: bool) -> None:
        """Count, answer and audit. For `ApiRequest`."""
        if audited:
            self.counters.total += 1
            self.counters.errors += error
        if request.reply:
            self._ports.publish(request.reply, None, None, payload)
        if audited:
            client = request.client() if callable(request.client) else request.client
            self._advisories.api_audit(request.subject, request.body, payload, client)

    def _find(self, subject: str) -> tuple[_Route, list[str]] | None:
        if not subject.startswith(API_PREFIX):
            return None
        tokens = subject[len(API_PREFIX) :].split(".")
        if not all(tokens):
            return None
        for count in range(min(len(tokens), _PATTERN_TOKENS_MAX), 0, -1):
            prefix, names = ".".join(tokens[:count]), tokens[count:]
            route = self._table.exact.get((prefix, len(names)))
            if route is not None:
                return route, names
            least, open_route = self._table.open_ended.get(prefix, (0, None))
            if open_route is not None and len(names) >= least:
                return open_route, names
        return None
