"""Types of the record kernel: see record.pyx."""

from slipstream.kernels.index.subjectindex import Selection

RECORD_HEAD: int
FRAME_HEAD_BYTES: int
MSG: int
TOMBS: int
TRIM: int
SKIP: int
CONFIG: int
STATE: int
ERASE: int
ERASED: int
PUT: int
ADD: int
REMOVE: int
MARK: int
NOTE: int
CHAIN: int

def crc32c(data: bytes, crc: int = 0) -> int: ...
def crc32c_table(data: bytes, crc: int = 0) -> int: ...
def crc32c_copy(data: bytes, first: int, second: int) -> tuple[bytes, int, int]: ...
def read_message(data: bytes, pos: int, salt: int, seq: int) -> StoredMessage | None: ...
def record_kind(data: bytes, pos: int, salt: int) -> int: ...
def read_selection(
    chosen: Selection, start: int, data: bytes, base: int, salt: int, out: list[StoredMessage | int]
) -> int: ...
def erased_record(seq: int, ts: int, length: int, salt: int, noise: bytes) -> bytes: ...

class StoredMessage:
    """One message as it was stored."""

    seq: int
    ts_ns: int
    subject: bytes
    headers: bytes
    payload: bytes
    expires_ns: int

    def __init__(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None: ...
