"""Types of the kernel that appends staged records: see stagedrows.pyx."""

from collections.abc import Iterable

from slipstream.kernels.log.logwriter import LogWriter

MORE: str
LIMIT: str
SPECIAL: str
NO_ROOM: str
BAD_RECORD: str
BAD_SUBJECT: str
OTHER_SUBJECT: str
TOO_LARGE: str
HEADERS_TOO_LARGE: str

def written_under(writer: LogWriter, subject: bytes) -> tuple[int, int, int]: ...

class StagedRows:
    """The records of one part."""

    rows: int
    crc: int
    size: int

    def __init__(
        self, subjects: Iterable[bytes] = (), size_max: int = ..., headers_max: int = ..., all_special: bool = False
    ) -> None: ...
    @property
    def unused(self) -> int: ...
    def feed(self, data: bytes) -> None: ...
    def check(self) -> str: ...
    def append_to(self, writer: LogWriter | None, seq: int, ts: int, max_rows: int) -> tuple[int, str]: ...
    def current(self) -> tuple[bytes, bytes, bytes]: ...
    def skip(self) -> None: ...
