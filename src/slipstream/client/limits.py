"""Numbers that bound what `client` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import MIB, MINUTE_NS, SECOND_NS

# One operation of the synchronous client (connect, flush, next message) unless the caller says otherwise.
CLIENT_TIMEOUT_NS: Final = 5 * SECOND_NS
# Received and not yet asked for, in one synchronous client; beyond it the caller is told instead of filling memory.
CLIENT_QUEUED_BYTES_MAX: Final = 256 * MIB

# A load job without progress: nothing was taken or delivered for so long, so messages were lost or the server hangs.
LOAD_TIMEOUT_NS: Final = 20 * SECOND_NS
# One load job: connections in one process, below the usual descriptor limit.
LOAD_CONNECTIONS_MAX: Final = 10_000
# Load jobs at the same time, a process each: more would only measure the scheduler.
LOAD_PROCESSES_MAX: Final = 64
# All load jobs of one run together, set-up included.
LOAD_RUN_TIMEOUT_NS: Final = 10 * MINUTE_NS
