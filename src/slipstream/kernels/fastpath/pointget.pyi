"""Types of the kernel for single messages: see pointget.pyx."""

from collections.abc import Callable

from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.msgwriter import BufferListener

class PointGet(BufferListener):
    """What arrives on one subject for requests."""

    def __init__(
        self,
        stream: bytes,
        key_at: int,
        slow: Callable[[bytes, bytes | None, bytes | None, bytes], None],
        find: Callable[[bytes | int], tuple[int, bytes, int, int] | None],
    ) -> None: ...
    def bind(self, delivery: Delivery, interest: Interest) -> None: ...
