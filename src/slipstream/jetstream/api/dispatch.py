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
from collections.abc import Callable
from functools import partial
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.api.actions import action_of
from slipstream.jetstream.api.load import ApiLoad
from slipstream.jetstream.api.request import ApiRequest, ApiRoute, Fields, Grants
from slipstream.jetstream.api.routes import ApiRoutes
from slipstream.jetstream.api.subjects import API_PREFIX
from slipstream.jetstream.api.trail import AuditTrail
from slipstream.jetstream.config.versioning import level_suffices
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.units import KIB, SECOND_NS

__all__ = ["LONG_BODIES_AT_ONCE", "LONG_BODY_BYTES", "ApiCounters", "ApiDispatcher", "Gate"]

Gate = Callable[[str], "bool | ApiError"]
"""Of a call, behind `$JS.API.`: whether it is this server's to answer, or with which error it answers it."""

LONG_BODY_BYTES: Final = 16 * KIB  # reading and judging a longer one takes more than some milliseconds
# Of an account, and of direct gets of a stream; more are read in their turn, so that clients cannot pile them up.
LONG_BODIES_AT_ONCE: Final = 8
_LOST_LOOK_NS: Final = SECOND_NS  # how often calls are looked for that nothing will answer, while some wait


@dataclass(slots=True)
class ApiCounters:
    """Calls answered, and those answered with an error."""

    total: int = 0
    errors: int = 0


def _everything(_subject: bytes) -> bool:
    return True


def _nothing(_subject: bytes) -> bool:
    return False


class ApiDispatcher:
    """The API of one account."""

    def __init__(
        self,
        ports: Ports,
        advisories: Advisories,
        load: ApiLoad,
        *,
        account: str = "",
        strict: bool = True,
        trail: AuditTrail | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Answer through `ports`; handlers are registered by their owners.

        Args:
            ports: the account's.
            advisories: where calls are audited.
            load: counts those that wait.
            account: its name, as shown in the log.
            strict: whether unknown names in bodies are refused.
            trail: where actions are written down; None: nowhere.
            gate: which calls are this server's; None: all.
        """
        self.load = load
        self._gate = gate
        self._trail = trail
        self._ports = ports
        self._advisories = advisories
        self._routes = ApiRoutes()
        self.register = self._routes.add
        self.counters = ApiCounters()
        self.enabled = True  # False: the account may not use JetStream now
        self.account = account
        self.strict = strict
        self.lost: deque[ApiRequest] = deque()  # calls that nothing else will answer
        self._look: Cancel | None = None
        self._preparing = 0  # calls whose long bodies are being read in threads

    def handle(
        self,
        subject: bytes,
        reply: bytes | None,
        header: bytes | None,
        body: bytes,
        client: Fields | Callable[[], Fields] | None = None,
        grants: Grants | None = None,
        whence: object = None,
    ) -> None:
        """A message on `$JS.API.>` has arrived.

        Args:
            subject: what is called.
            reply: where the answer goes.
            header: a block, or None.
            body: the request.
            client: describes the sender for the audit, if there will be one.
            grants: whether the sender may publish to a subject; None: this server, which may.
            whence: how it came, as a cluster has to know it.
        """
        if grants is None:
            # Who calls through an import has no rights here but those of the export.
            asked_elsewhere = header is not None and headers.find(header, b"Nats-Request-Info") is not None
            grants = _nothing if asked_elsewhere else _everything
        text = subject.decode("utf-8", "replace")
        found = self._routes.find(text)
        if found is None:
            return
        route, names = found
        verdict: bool | ApiError = True if self._gate is None else self._gate(text.removeprefix(API_PREFIX))
        if verdict is False:
            return
        if self.lost:
            self._answer_lost()
        if not self.load.admits(looks=route.looks):
            return
        request = ApiRequest(self, route, text, names, reply, header or b"", body, client, grants)
        request.whence = whence
        if isinstance(verdict, ApiError):
            request.fail(verdict)
        elif route.prepare is not None and len(body) > LONG_BODY_BYTES and self._preparing < LONG_BODIES_AT_ONCE:
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

    def _prepared(self, request: ApiRequest, route: ApiRoute) -> None:
        self._preparing -= 1
        self._go(request, route)

    def _go(self, request: ApiRequest, route: ApiRoute) -> None:
        try:
            self._run(request, route)
        except Exception as error:
            self._broke(request, error)

    def _run(self, request: ApiRequest, route: ApiRoute) -> None:
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

    def send(
        self, request: ApiRequest, payload: bytes, *, error: ApiError | None, audited: bool, concluded: bool
    ) -> None:
        """Count, answer and audit. For `ApiRequest`."""
        if audited:
            self.counters.total += 1
            self.counters.errors += error is not None
        if request.reply:
            self._ports.publish(request.reply, None, None, payload)
        if audited:
            self._advisories.api_audit(request.subject, request.body, payload, request.describe_client())
        if concluded and self._trail is not None:
            self.conclude(request, error)

    def conclude(self, request: ApiRequest, error: ApiError | None) -> None:
        """Write down what became of a call, if it was an action. For `ApiRequest`."""
        if self._trail is None:
            return
        action = action_of(request.subject)
        if action is not None:
            client = request.describe_client()
            self._trail.called(action, self.account, request.subject, request.body, client, error)
