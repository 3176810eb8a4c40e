"""Types of the bulk read kernel: see bulkscan.pyx."""

from collections.abc import Sequence

from slipstream.kernels.record import StoredMessage
from slipstream.kernels.subjectindex import MessageIndex, Selection

def crc_shift(register: int, n: int) -> int: ...
def encode_message(message: StoredMessage) -> bytes: ...
def are_messages(data: memoryview | bytes, rows: int, first: int, last: int) -> bool: ...
def records_end(data: memoryview | bytes, start: int, most: int) -> int: ...
def pick(
    index: MessageIndex,
    filters: Sequence[bytes],
    from_seq: int,
    up_to: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    out: Selection,
) -> int: ...
def measure(
    index: MessageIndex,
    filters: Sequence[bytes],
    from_seq: int,
    up_to: int,
    every: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    marks: list[tuple[int, int, int]],
    marks_max: int,
) -> tuple[int, bool]: ...

class Chunk:
    """Copies of selected records, keyed by 0."""

    rows: int
    crc: int
    missing: list[int]
    used: int
    in_given: bool

    def __init__(
        self, chosen: Selection, start: int = 0, crc: int = 0, room: memoryview | bytearray | None = None
    ) -> None: ...
    def extent(self, i: int, gap_max: int, read_max: int) -> tuple[int, int, int, int] | None: ...
    def fill(self, i: int, stop: int, data: bytes, base: int, salt: int) -> None: ...
    def breaks(self, gap_max: int) -> tuple[int, int]: ...
    def stretches(self, i: int, max_stretches: int) -> tuple[int, bytes, int, int] | None: ...
    def space(self) -> memoryview: ...
    def settle(self, i: int, stop: int, at: int, size: int, salt: int) -> None: ...
    def take(self) -> bytes: ...
