"""What an account offers to others: streams to listen to, services to call; and to whom.

An import names a subject; the export that covers it decides whether the importer may have it. That is the export with
the same subject, else the narrowest one that contains it. nats-server takes any of those that contain it, so that
with `q.>` for everybody beside `q.secret.*` for one account the answer depends on chance there.

What it is not: activation tokens, which exist in operator mode only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from slipstream.config.record import Record
from slipstream.kernels.subjects.subject import is_subset
from slipstream.limits import SERVICE_RESPONSE_THRESHOLD_NS

if TYPE_CHECKING:
    from slipstream.config.account_options import ExportOptions, LatencyOptions

__all__ = ["Export", "Exports", "ShareKind"]

ShareKind = Literal["stream", "service"]


class Export(Record):
    """One stream or service on offer."""

    kind: ShareKind
    subject: bytes
    accounts: frozenset[str] = frozenset()  # who may import; empty: everybody
    account_token_position: int = 0  # 1-based token that has to be the importer's name; 0: off
    response_type: Literal["single", "stream", "chunked"] = "single"
    response_threshold_ns: int = SERVICE_RESPONSE_THRESHOLD_NS  # how long an answer is waited for
    latency: LatencyOptions | None = None
    allow_trace: bool = False

    def admits(self, importer: str, subject: bytes) -> bool:
        """Tell whether an account may import this subject, which the export contains."""
        if self.account_token_position:
            tokens = subject.split(b".")
            position = self.account_token_position
            return position <= len(tokens) and tokens[position - 1] == importer.encode()
        return not self.accounts or importer in self.accounts


class Exports:
    """The exports of one account."""

    __slots__ = ("_by_kind",)

    def __init__(self, options: Iterable[ExportOptions] = ()) -> None:
        """Compile. A subject offered twice keeps its restrictions: a later entry adds accounts, it does not open it."""
        self._by_kind: dict[ShareKind, dict[bytes, Export]] = {"stream": {}, "service": {}}
        for entry in options:
            subject, exports = entry.subject.encode(), self._by_kind[entry.kind]
            accounts, position = frozenset(entry.accounts), entry.account_token_position
            if subject in exports:
                accounts |= exports[subject].accounts
                position = position or exports[subject].account_token_position
            exports[subject] = Export(
                kind=entry.kind,
                subject=subject,
                accounts=accounts,
                account_token_position=position,
                response_type=entry.response_type,
                response_threshold_ns=entry.response_threshold_ns or SERVICE_RESPONSE_THRESHOLD_NS,
                latency=entry.latency,
                allow_trace=entry.allow_trace,
            )

    def each(self, kind: ShareKind) -> Iterable[Export]:
        """All exports of a kind."""
        return self._by_kind[kind].values()

    def find(self, kind: ShareKind, subject: bytes) -> Export | None:
        """The export that decides about an import of `subject`."""
        exact = self._by_kind[kind].get(subject)
        if exact is not None:
            return exact
        narrowest: Export | None = None
        for export in self.each(kind):
            if is_subset(subject, export.subject) and (
                narrowest is None or is_subset(export.subject, narrowest.subject)
            ):
                narrowest = export
        return narrowest
