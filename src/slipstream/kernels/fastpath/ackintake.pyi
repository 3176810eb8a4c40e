"""Types of the ack kernel: see ackintake.pyx."""

from collections.abc import Callable

from slipstream.kernels.wire.msgwriter import BufferListener

class AckIntake(BufferListener):
    """What arrives on the ack subjects of one consumer."""

    plain: bool
    acked: list[int]
    confirm: list[bytes]
    def __init__(
        self,
        prefix_size: int,
        slow: Callable[[bytes, bytes | None, bytes | None, bytes], None],
        began: Callable[[], None],
    ) -> None: ...
    def bind(
        self, pending: dict[int, int], due: dict[int, int], again: dict[int, int], emptied: Callable[[], None]
    ) -> None: ...
