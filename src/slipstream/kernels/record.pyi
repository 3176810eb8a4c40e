"""Types of the record kernel: see record.pyx."""

from slipstream.kernels.subjectindex import MessageIndex, Selection

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

def crc32c(data: bytes, crc: int = 0) -> int: ...
def crc32c_table(data: bytes, crc: int = 0) -> int: ...
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

class LogWriter:
    """Encodes records into frames for one log, and adds messages to its index."""

    segment: int
    base: int
    limit: int
    frame_no: int
    synced_upto: int
    epoch: int
    last_ts: int
    """Time of the last message appended."""

    def __init__(self, index: MessageIndex | None = None) -> None: ...
    def open_segment(self, segment: int, salt: int, offset: int, limit: int, frame_no: int) -> None: ...
    @property
    def position(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    def has_room(self, length: int) -> bool: ...
    @property
    def last_seq(self) -> int: ...
    def begin_unit(self, staged: MessageIndex | None = None) -> None: ...
    def end_unit(self) -> None: ...
    def abandon_unit(self, offset: int, last_ts: int) -> None: ...
    def append(self, seq: int, ts: int, subject: bytes, headers: bytes, payload: bytes, expires: int = 0) -> bool: ...
    def control(self, kind: int, seq: int, ts: int, key: bytes, payload: bytes) -> None: ...
    def copy(self, data: bytes, pos: int, salt: int) -> bool: ...
    def peek(self, offset: int, n: int) -> bytes | None: ...
    def take(self) -> bytes: ...
