"""How much memory there is, and who may have which part of it."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["HELD_MEMORY_SHARE", "OUTBOX_MEMORY_SHARE", "SUBSCRIPTION_MEMORY_SHARE", "memory_bytes"]

# What waits for all clients together. Each has `max_pending`; a crowd that reads nothing would add up to everything.
OUTBOX_MEMORY_SHARE: Final = 0.25
# What streams hold beside their messages: open batches, message ids.
HELD_MEMORY_SHARE: Final = 0.25
# Subscriptions of one account: each takes more memory than it took bytes to send.
SUBSCRIPTION_MEMORY_SHARE: Final = 0.125


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
