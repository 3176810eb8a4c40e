from collections.abc import Callable

class BufferListener:
    def __call__(
        self, publisher: object, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> None: ...

class MessageWriter:
    """Used by kernels alone."""

    def __init__(self, seed: int, failed: Callable[[Exception], None] | None = None) -> None: ...
