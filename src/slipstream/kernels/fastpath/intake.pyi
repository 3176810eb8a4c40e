from collections.abc import Callable

from slipstream.kernels.fastpath.fastbatch import FastBatch
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.wire.msgwriter import BufferListener

class Intake(BufferListener):
    last_seq: int
    last_ts_ns: int
    last_id: bytes
    acks: list[tuple[bytes, int]]
    buffered_bytes: int
    payload_bytes_max: int
    full_msgs: int
    full_bytes: int
    answers: bool
    batches: dict[bytes, FastBatch]
    appended: Callable[[int, bytes, int], None] | None
    def __init__(
        self,
        slow: Callable[[bytes, bytes | None, bytes | None, bytes], None],
        resume: Callable[[], bool],
        now_ns: Callable[[], int],
        bytes_max: int,
        msgs_max: int,
    ) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def open(self, writer: LogWriter | None) -> None: ...
    def stand_by(self) -> None: ...
    def close(self) -> None: ...
    def take_acks(self) -> list[tuple[bytes, int]]: ...
