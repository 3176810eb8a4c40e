"""Types of the kernel that counts what a server sends: see serverscan.pyx."""

from typing_extensions import Buffer

class Scanner:
    messages: int
    header_messages: int
    payload_bytes: int
    oks: int
    pongs: int
    pings: int
    infos: int
    errors: int
    lost: int
    repeated: int
    def __init__(self, *, stamped: bool = False, reply_payload: bytes | None = None) -> None: ...
    @property
    def first_error(self) -> str | None: ...
    def feed(self, data: Buffer, size: int = -1, now_ns: int = 0) -> int: ...
    def take_replies(self) -> bytes: ...
    def latency_ns(self, fraction: float) -> int: ...
