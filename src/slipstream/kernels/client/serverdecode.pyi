"""Types of the kernel that decodes what a server sends: see serverdecode.pyx."""

from typing_extensions import Buffer

class Message:
    subject: str
    sid: int
    reply: str
    header: bytes
    payload: bytes

class Decoder:
    oks: int
    pongs: int
    pings: int
    errors: list[str]
    info: bytes | None
    @property
    def room(self) -> memoryview | None: ...
    def feed(self, data: Buffer, size: int = -1) -> list[Message]: ...
    def filled(self, size: int) -> None: ...
    def unfinished(self) -> bytes: ...
