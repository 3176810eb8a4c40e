"""Types of the kernel that turns records into Arrow columns: see arrowrows.pyx."""

from collections.abc import Iterable
from typing import Any

from typing_extensions import Buffer

COLUMNS: dict[str, int]

class RowDecoder:
    """Builds the columns of one batch after another."""

    rows: int
    records: int
    last: int
    crc: int
    salt: int
    damaged: list[int]

    def __init__(
        self,
        columns: Iterable[str],
        stream: bytes = b"",
        max_rows: int = ...,
        max_bytes: int = ...,
        *,
        first_seq: int = ...,
        last_seq: int = ...,
        start_ns: int = ...,
        end_ns: int = ...,
        filters: Iterable[bytes] = (),
        salt: int = 0,
    ) -> None: ...
    @property
    def full(self) -> bool: ...
    def feed(self, data: Buffer, pos: int = 0) -> int: ...
    def take(self) -> tuple[int, dict[str, list[Any]]]: ...
