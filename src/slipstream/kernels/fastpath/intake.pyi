from collections.abc import Callable
from typing import Any

from slipstream.kernels.fastpath.fastbatch import FastBatch
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.wire.delivery import Listener

class Intake(Listener):
    last_seq: int
    last_ts_ns: int
    last_id: bytes
    pending: list[Any]
    buffered_bytes: int
    payload_bytes_max: int
    answers: bool
    batches: dict[bytes, FastBatch]
    appended: Callable[[int, bytes, int], None] | None
    resume: Callable[[], bool] | None
    def __init__(
        self,
        slow: Callable[[bytes, bytes | None, bytes | None, bytes], None],
        now_ns: Callable[[], int],
        bytes_max: int,
        msgs_max: int,
    ) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def open(self, writer: LogWriter | None) -> None: ...
    def stand_by(self) -> None: ...
    def close(self) -> None: ...
    def take_pending(self) -> list[Any]: ...
