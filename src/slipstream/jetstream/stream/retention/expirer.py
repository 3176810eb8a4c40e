"""Removes messages whose time has come, and keeps the timer that looks for them.

`expiry` says what is due and when; this removes it a slice at a time, leaves a delete marker where the stream wants
one, and lets what is held stay until it is released.

Invariants: at most one timer runs, for `due_ns`; no timer runs on a stopped or sealed stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from slipstream.errors import StorageFault
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.gojson.times import format_duration
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Damaged
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.admission.verdict import Admitted, Origin, Unwanted
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.limits import (
    EXPIRE_INTERVAL_MIN_NS,
    EXPIRE_SLICE_MSGS,
    PURGE_SLICE_MSGS,
    STREAM_UPKEEP_INTERVAL_NS,
)
from slipstream.jetstream.stream.retention.expiry import Expiry
from slipstream.jetstream.stream.retention.holds import Holds
from slipstream.jetstream.stream.retention.removals import Removals
from slipstream.units import SECOND_NS

__all__ = ["Expirer"]

_NEVER_NS = 2**63 - 1


class Expirer:
    """The expiry of one stream's messages."""

    __slots__ = (
        "_appends",
        "_committer",
        "_config",
        "_due_later",
        "_expiry",
        "_holds",
        "_ports",
        "_removals",
        "_stopped",
        "_store",
        "_timer",
        "due_ns",
    )

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        ports: Ports,
        holds: Holds,
        appends: Appends,
        removals: Removals,
        committer: Committer,
    ) -> None:
        """Start from the deadlines the store has; nothing is removed before `run`."""
        self._store = store
        self._ports = ports
        self._holds = holds
        self._appends = appends
        self._removals = removals
        self._committer = committer
        self._expiry = Expiry(store)
        self._timer: Cancel | None = None
        self._due_later: list[int] = []  # expired messages that are held
        self._stopped = False
        self.due_ns = _NEVER_NS  # when the timer will look
        self.configure(config)

    def configure(self, config: StreamConfig) -> None:
        """Take over a (new) configuration; `run` has to follow if messages may be due by it."""
        self._config = config
        self._expiry.configure(config)

    def rebuild(self) -> None:
        """Read the deadlines from the store again."""
        self._expiry.rebuild(self._store.expiries())

    def stop(self) -> None:
        """Keep no more time."""
        self._stopped = True
        if self._timer is not None:
            self._timer()
            self._timer = None

    def add(self, seq: int, expires_ns: int) -> None:
        """A message with its own deadline was appended; `arm` has to follow."""
        self._expiry.add(seq, expires_ns)

    def add_many(self, deadlines: Iterable[tuple[int, int]]) -> None:
        """Messages were appended, some with their own deadlines: `(seq, expires_ns)`."""
        for seq, expires_ns in deadlines:
            self._expiry.add(seq, expires_ns)
        self.arm()

    def run_released(self) -> None:
        """Less is held than before: what was due and had to stay goes now."""
        due, self._due_later = self._due_later, []
        for seq in due:
            self._expiry.add(seq, 0)
        self.run()

    def run(self) -> None:
        """Remove what is due, a slice at a time."""
        self._timer = None
        self.due_ns = _NEVER_NS
        if self._stopped or self._config.sealed:
            return
        now_ns = self._ports.now_ns()
        try:
            if self._store.atomic_open:
                # Markers cannot join the log now.
                self._timer = self._ports.call_later(EXPIRE_INTERVAL_MIN_NS, self.run)
                return
            cut = min(self._expiry.cut(now_ns), self._holds.floor)
            if cut and not self._remove_below(cut):
                self._ports.call_soon(self.run)
                return
            for seq in self._expiry.due(now_ns, EXPIRE_SLICE_MSGS):
                if seq < self._holds.floor:
                    self._remove(seq)
                else:
                    self._due_later.append(seq)
        except StorageFault:
            # The store takes no changes now, until it has repaired itself.
            self._later()
            return
        except Exception as error:
            self._ports.report("The expiry of messages", error)
            self._later()
            return
        self.arm()

    def _later(self) -> None:
        """What was due is found again then."""
        self.rebuild()
        self._timer = self._ports.call_later(STREAM_UPKEEP_INTERVAL_NS, self.run)

    def arm(self) -> None:
        """Look again when the next message is due."""
        due_ns = self._expiry.next_due_ns()
        if self._timer is not None:
            self._timer()
            self._timer = None
        self.due_ns = _NEVER_NS
        if due_ns is not None and not self._stopped and not self._config.sealed:
            self.due_ns = due_ns
            # What is held stays due: no need to look at it fifty times a second.
            least_ns = STREAM_UPKEEP_INTERVAL_NS if len(self._holds) else EXPIRE_INTERVAL_MIN_NS
            delay_ns = max(due_ns - self._ports.now_ns(), least_ns)
            self._timer = self._ports.call_later(delay_ns, self.run)

    def _remove_below(self, cut: int) -> bool:
        """Remove the oldest below a sequence; False: there are more."""
        count, following = self._store.purge_some(b"", from_seq=0, up_to_seq=cut - 1, limit=PURGE_SLICE_MSGS)
        if count:
            self._removals.many_gone()
        return following == 0

    def _remove(self, seq: int) -> None:
        message = self._store.get(seq) if self._store.assigned.has(seq) else None
        if message is None or isinstance(message, Damaged):
            return
        marker_ttl_ns = self._config.subject_delete_marker_ttl_ns
        last_of_subject = self._store.assigned.subject_state(message.subject).count == 1
        if marker_ttl_ns and last_of_subject and not _is_marker(message.headers):
            ttl = format_duration(marker_ttl_ns // SECOND_NS * SECOND_NS).encode()
            block = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %b\r\nNats-Rollup: sub\r\n\r\n" % ttl
            # The marker is a roll-up: storing it removes the message it stands for.
            marker = self._appends.judge(Origin.MARKER, message.subject, block, b"")
            if isinstance(marker, (Admitted, Unwanted)):
                self._appends.apply(marker)
        else:
            self._removals.delete(seq, erase=False)


def _is_marker(header: bytes) -> bool:
    """Whether a message only tells that a subject was emptied: by the server, or by a client that purged a key."""
    if not header:
        return False
    return bool(headers.find(header, b"Nats-Marker-Reason")) or headers.find(header, b"KV-Operation") == b"PURGE"
