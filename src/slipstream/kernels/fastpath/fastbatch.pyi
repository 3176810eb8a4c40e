"""Types of the kernel for fast batches: see fastbatch.pyx."""

from collections.abc import Callable

def parse_reply(reply: bytes) -> tuple[bytes, int, bool, int, int] | None: ...

class FastBatch:
    gap_ok: bool
    ack_every_max: int
    ack_every: int
    seq: int
    stored: int
    acked: int
    ack_at: int
    stream_seq: int
    last_active_ns: int
    timer: Callable[[], None] | None
    def __init__(self, gap_ok: bool, ack_every_max: int) -> None: ...
