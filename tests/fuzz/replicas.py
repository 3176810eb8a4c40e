"""What a replica reads that another has sent as files, or that lies beside its own log."""

from __future__ import annotations

from fuzz import checksums
from fuzz.target import Target, option
from slipstream.jetstream.store.file.applied_file import Applied, decode_applied, encode_applied
from slipstream.jetstream.store.file.segment import HEADER_BYTES, decode_header

SALT = 0x1234567_89ABCDEF
UID = bytes(range(16))
_HEADER = encode_applied(Applied(UID, 7, 3, 2, {}), SALT)[:HEADER_BYTES]


def applied(data: bytes) -> None:
    """Read whole or not at all; what is read is written and read as the same."""
    flags, body = option(data)
    content = bytearray(body)
    if not flags & 1:
        checksums.records(content, SALT, with_frames=True)
    found = decode_applied(_HEADER + bytes(content))
    if found is None:
        return
    header = decode_header(_HEADER)
    assert header is not None and found.frame == header.frame_no
    assert all(key and parts for key, parts in found.states.items())
    assert decode_applied(encode_applied(found, 5)) == found


def applied_seeds() -> list[bytes]:
    cases = [
        Applied(UID, 7, 3, 2, {}),
        Applied(UID, 7, 3, 2**63, {b"one": [b"whole", b"change", b""], b"two": [bytes(40)]}),
    ]
    # Frames begin with their magic, as `checksums` looks for it.
    return [b"\0" + b"SFR1" + encode_applied(case, SALT)[HEADER_BYTES + 4 :] for case in cases]


TARGETS = (Target("applied-file", applied, applied_seeds, (b"SFR1",)),)
