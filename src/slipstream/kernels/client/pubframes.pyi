"""Types of the kernel that encodes publishes in bulk: see pubframes.pyx."""

from typing_extensions import Buffer

def encode_pubs(subject: bytes, payload: bytes, count: int, reply: bytes = b"") -> bytes: ...
def stamp_pubs(
    frames: Buffer, frame_size: int, payload_at: int, first_seq: int, now_ns: int, source: int = 0
) -> int: ...
