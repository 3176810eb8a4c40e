"""Reading back what was stored long ago, so that damage is found while it can still be helped.

One piece (a closed segment of one stream) per interval for the whole server, in turn over accounts and streams: a
bounded trickle of reads, whatever is stored. The work itself is a piece of the stream's upkeep, which also says so in
the log when messages cannot be read.

What this is not: the check (`store.file.upkeep`), nor repair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

from slipstream.jetstream.ports import Cancel, Ports
from slipstream.units import SECOND_NS

__all__ = ["Scrubbed", "Scrubber"]

# Time between two segments read back to look for damage, over all streams of a server: at most 6.4 MiB a second, and a
# terabyte in two days.
SCRUB_INTERVAL_NS: Final = 10 * SECOND_NS


class _Stream(Protocol):
    def scrub_next(self) -> bool:
        """Check one more piece; False: that was all, the next call begins anew."""
        ...


class Scrubbed(Protocol):
    """An account, as far as it is scrubbed."""

    @property
    def ports(self) -> Ports:
        """For the timer."""
        ...

    @property
    def streams(self) -> Mapping[str, _Stream]:
        """Its streams by name."""
        ...


class Scrubber:
    """Takes turns over all accounts of a server. Invariant: a timer runs exactly while some account takes part."""

    def __init__(self) -> None:
        """Nothing to read yet."""
        self._accounts: deque[Scrubbed] = deque()
        self._at = ""  # stream of the first account that is being read
        self._timer: Cancel | None = None

    def join(self, account: Scrubbed) -> None:
        """Let an account's streams be read from now on."""
        self._accounts.append(account)
        if self._timer is None:
            self._arm()

    def leave(self, account: Scrubbed) -> None:
        """No more of this one; its timers may not be used any longer."""
        if account not in self._accounts:
            return
        self._accounts.remove(account)
        self._at = ""
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer()
            self._timer = None
        if self._accounts:
            self._timer = self._accounts[0].ports.call_later(SCRUB_INTERVAL_NS, self._turn)

    def _turn(self) -> None:
        self._timer = None
        for _ in range(len(self._accounts)):
            if self._read_on(self._accounts[0]):
                break
            self._at = ""
            self._accounts.rotate(-1)
        self._arm()

    def _read_on(self, account: Scrubbed) -> bool:
        """Have one piece of the account's streams read; False: all of them were."""
        for name in sorted(name for name in account.streams if name >= self._at):
            if account.streams[name].scrub_next():
                self._at = name
                return True
        return False
