"""Types of the kernel that turns Arrow columns into records: see rowrecords.pyx."""

from typing import Any

class RowEncoder:
    """Encodes batch after batch of one staged part."""

    rows: int
    crc: int
    size: int

    @property
    def left(self) -> int: ...
    def begin(
        self,
        rows: int,
        subject: tuple[Any, ...] | None,
        payload: tuple[Any, ...] | None,
        *,
        headers: tuple[Any, ...] | None = None,
        msg_id: tuple[Any, ...] | None = None,
        ttl: tuple[Any, ...] | None = None,
        expected_last_subject_seq: tuple[Any, ...] | None = None,
        fixed_subject: bytes | None = None,
        raw_headers: tuple[Any, ...] | None = None,
    ) -> None: ...
    def next_piece(self) -> bytes | None: ...
    def fill(self, room: memoryview | bytearray) -> int: ...
