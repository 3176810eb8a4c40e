"""Requests that cross from one account to another, and the way back of their answers.

    importer: request on `local` reply R  ──►  exporter: same request on `remote` reply _R_.<token>
    importer: answer on R                 ◄──  exporter: answer on _R_.<token>

The token stands for one request. It is forgotten after the answer (response type single), or when no answer came for
the export's threshold; a streaming responder keeps it alive by answering. Tokens are drawn from the server's random
source and are not guessable; clients may not use `_R_.` as a reply of their own, so a forged way back leads nowhere.

The reserved header `Nats-Request-Info` never passes from a client: it is removed here in every spelling and written
anew, with everything about the client when the import shares it, else with its account alone. What a request says that
comes from another import is not believed either: who asked is kept beside the message (`Asked`), not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from slipstream.kernels.wire.receivers import Subscription
from slipstream.limits import SERVICE_RESPONSE_THRESHOLD_NS
from slipstream.protocol.headers import set_header, strip_header
from slipstream.routing.limits import SERVICE_RESPONSES_MAX
from slipstream.subjects.outside import outside_only

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.member import Member
    from slipstream.routing.latency import LatencyProbe, LatencyReporter

__all__ = ["REPLY_PREFIX", "Asked", "ResponseTable", "ServiceRelay"]

REPLY_PREFIX = b"_R_."
REQUEST_INFO = b"Nats-Request-Info"


# Who asked, for each import that is passing a request on right now, the innermost last. All imports share one list.
Asked = list[Mapping[str, object]]


class RemoteName(Protocol):
    """How a local subject is called in the exporting account."""

    def __call__(self, subject: bytes) -> bytes | None: ...


class _Pending:
    """The way back of one request."""

    __slots__ = ("account", "expires_ns", "measured", "reply", "requester", "single", "threshold_ns")

    def __init__(self, account: Account, reply: bytes, expires_ns: int, threshold_ns: int, *, single: bool) -> None:
        self.account = account
        self.reply = reply
        self.expires_ns = expires_ns
        self.threshold_ns = threshold_ns
        self.single = single
        self.measured: tuple[LatencyReporter, LatencyProbe] | None = None  # whoever wants to know how long it takes
        self.requester: Member | None = None  # set when measured


class ResponseTable:
    """The open requests into one exporting account.

    Invariant: entries are in the order in which they were made or last used, so the next to expire is in front.
    """

    def __init__(
        self,
        account: Account,
        now_ns: Callable[[], int],
        token: Callable[[], bytes],
        client_info: Callable[[Member], Mapping[str, object]],
    ) -> None:
        self._account = account
        self._client_info = client_info
        self._now_ns = now_ns
        self._token = token
        self._pending: dict[bytes, _Pending] = {}
        self._listener: Subscription | None = None
        self._measured = 0  # open requests that somebody measures
        account.ways_back = self

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, importer: Account, reply: bytes, threshold_ns: int, *, single: bool) -> bytes:
        """Make a reply subject in the exporting account that leads to `reply` in the importing one."""
        now_ns = self._now_ns()
        self._forget_expired(now_ns)
        if len(self._pending) >= SERVICE_RESPONSES_MAX:
            self._give_up(next(iter(self._pending)), 504, "Service Timeout")
        if self._listener is None:
            self._listener = self._account.subscribe(REPLY_PREFIX + b"*", self._on_response)
        token = self._token()
        self._pending[token] = _Pending(importer, reply, now_ns + threshold_ns, threshold_ns, single=single)
        return REPLY_PREFIX + token

    def leads_to(self, reply: bytes) -> tuple[Account, bytes] | None:
        """Where answers on a reply subject end up: the importing account and the subject there; None: nowhere."""
        pending = self._pending.get(reply[len(REPLY_PREFIX) :])
        return None if pending is None or pending.expires_ns < self._now_ns() else (pending.account, pending.reply)

    def answered(self, reply: bytes) -> None:
        """An answer was delivered where it leads to, past this table."""
        token = reply[len(REPLY_PREFIX) :]
        pending = self._pending.pop(token, None)
        if pending is None:
            return
        self._end_measuring(pending)
        if not pending.single:
            pending.expires_ns = self._now_ns() + pending.threshold_ns
            self._pending[token] = pending

    def drop(self, reply: bytes) -> None:
        """Forget a request that nobody took."""
        self._give_up(reply[len(REPLY_PREFIX) :], 503, "Service Unavailable")

    def measure(self, reply: bytes, reporter: LatencyReporter, probe: LatencyProbe, requester: Member) -> None:
        """Report how long the answer to an open request takes."""
        pending = self._pending[reply[len(REPLY_PREFIX) :]]
        pending.measured = reporter, probe
        pending.requester = requester
        self._measured += 1

    def requester_left(self, requester: Member) -> None:
        """A client closed: its measured requests will not be answered."""
        if not self._measured:
            return
        for token, pending in list(self._pending.items()):
            if pending.requester is requester and pending.measured is not None:
                self._give_up(token, 408, "Request Timeout")

    def _on_response(
        self, publisher: Member | None, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> bool:
        token = subject[len(REPLY_PREFIX) :]
        pending = self._pending.get(token)
        now_ns = self._now_ns()
        if pending is None:
            return False
        if pending.expires_ns < now_ns:
            self._give_up(token, 504, "Service Timeout")
            return False
        del self._pending[token]
        measured = self._end_measuring(pending)
        if measured is not None and publisher is not None:
            reporter, probe = measured
            reporter.answered(probe, self._client_info(publisher))
        if not pending.single:
            pending.expires_ns = now_ns + pending.threshold_ns
            self._pending[token] = pending
        if publisher is not None and reply is not None:
            # Who answers has no rights in the account of who asked.
            reply = outside_only(reply)
        return pending.account.publish(pending.reply, reply, header_size, body) > 0

    def _forget_expired(self, now_ns: int) -> None:
        while self._pending:
            oldest = next(iter(self._pending))
            if self._pending[oldest].expires_ns >= now_ns:
                return
            self._give_up(oldest, 504, "Service Timeout")

    def _give_up(self, token: bytes, status: int, description: str) -> None:
        """Forget a request, and tell whoever measures it why."""
        pending = self._pending.pop(token, None)
        measured = None if pending is None else self._end_measuring(pending)
        if measured is not None:
            reporter, probe = measured
            reporter.failed(probe, status, description)

    def _end_measuring(self, pending: _Pending) -> tuple[LatencyReporter, LatencyProbe] | None:
        measured, pending.measured = pending.measured, None
        if measured is not None:
            self._measured -= 1
        return measured


class ServiceRelay:
    """One service import at work: a listener in the importing account that passes requests on."""

    def __init__(
        self,
        importer: Account,
        exporter: Account,
        subject: bytes,
        remote_name: RemoteName,
        responses: ResponseTable,
        *,
        single: bool,
        threshold_ns: int,
        request_info: Callable[[Member], Mapping[str, object]],
        asked: Asked | None = None,
        latency: LatencyReporter | None = None,
        allow_trace: bool = False,
    ) -> None:
        self.subject = subject
        self.subscription = Subscription(subject, None, b"", None, None, self._on_request)
        self.exporter = exporter
        self.allow_trace = allow_trace
        self._importer = importer
        self._remote_name = remote_name
        self._responses = responses
        self._single = single
        self._threshold_ns = threshold_ns or SERVICE_RESPONSE_THRESHOLD_NS
        # Writes the client info header: all of it when the import shares it, else only the account.
        self._request_info = request_info
        self._asked: Asked = [] if asked is None else asked
        self._latency = latency

    def way_back(self, subject: bytes) -> bytes:
        """A reply subject in the exporting account that leads to `subject` here, for more than one answer."""
        return self._responses.open(self._importer, subject, self._threshold_ns, single=False)

    def _on_request(
        self, publisher: Member | None, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> bool:
        return self.request(publisher, subject, reply, header_size, body, self.exporter.publish)

    def request(
        self,
        publisher: Member | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
        publish: Callable[[bytes, bytes | None, int, bytes], int],
    ) -> bool:
        """Pass a request on through `publish`; False when nobody took it."""
        remote = self._remote_name(subject)
        if remote is None:
            return False
        info: Mapping[str, object] = {}
        if publisher is not None:
            info = self._request_info(publisher)
        elif self._asked and self._asked[-1]:
            info = {**self._asked[-1], "svc": self._importer.name}
        if header_size:
            header_size, body = strip_header(REQUEST_INFO, header_size, body)
        header = body[:header_size]
        if info:
            import msgspec

            header_size, body = set_header(REQUEST_INFO, msgspec.json.encode(info), header_size, body)
        way_back = None
        if reply is not None:
            way_back = self._responses.open(self._importer, reply, self._threshold_ns, single=self._single)
            if self._latency is not None and publisher is not None:
                probe = self._latency.probe(info, header)
                if probe is not None:
                    self._responses.measure(way_back, self._latency, probe, publisher)
        self._asked.append(info)
        try:
            taken = publish(remote, way_back, header_size, body) > 0
        finally:
            self._asked.pop()
        if not taken and way_back is not None:
            self._responses.drop(way_back)
        return taken
