"""Types of the record kernel: see record.pyx."""

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
