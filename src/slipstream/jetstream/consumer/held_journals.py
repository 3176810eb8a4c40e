"""Changes of consumers that need not be written at once: they are held for a moment, and written together."""

from __future__ import annotations

from slipstream.jetstream.consumer.journal import ConsumerJournal
from slipstream.jetstream.consumer.limits import CONSUMER_COMMIT_DELAY_NS
from slipstream.jetstream.guard import each
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.stream.stream import Stream

__all__ = ["HeldJournals"]


class HeldJournals:
    """Journals of consumers of one stream that hold changes until the timer fires."""

    def __init__(self, stream: Stream, ports: Ports) -> None:
        self._stream = stream
        self._ports = ports
        self._held: list[ConsumerJournal] = []
        self._timer: Cancel | None = None

    def add(self, journal: ConsumerJournal) -> None:
        """One more holds something."""
        self._held.append(journal)
        if self._timer is None:
            self._timer = self._ports.call_later(CONSUMER_COMMIT_DELAY_NS, self._write)

    def stop(self) -> None:
        """Wait for nothing more."""
        if self._timer is not None:
            self._timer()
            self._timer = None

    def _write(self) -> None:
        self._timer = None
        held, self._held = self._held, []
        each(self._ports, f"The journal of consumers of stream '{self._stream.name}'", [one.flush for one in held])
        self._held.clear()
        self._stream.committer.wake()
