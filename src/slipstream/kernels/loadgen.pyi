from typing_extensions import Buffer

class Message:
    subject: str
    sid: int
    reply: str
    header: bytes
    payload: bytes

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

def encode_pubs(subject: bytes, payload: bytes, count: int, reply: bytes = b"") -> bytes: ...
def stamp_pubs(
    frames: Buffer, frame_size: int, payload_at: int, first_seq: int, now_ns: int, source: int = 0
) -> int: ...
