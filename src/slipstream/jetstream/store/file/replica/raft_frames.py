"""Entries of Raft's own as frames of a log, and back: the empty one of a new term, a change of the membership.

Such a frame has one record, a note that is never there: whoever reads the log learns nothing of the stream from it.
"""

from __future__ import annotations

import struct
from typing import Final

from slipstream.jetstream.store.file.replica.recovery import RAFT_KEY
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import NOTE

__all__ = ["NORMAL", "entry_of", "flags_of", "raft_frame"]

NORMAL: Final = 0
"""Kind of an entry that is a frame of the stream."""
_NOTE_HEAD: Final = struct.Struct("<HHI")  # of a record: length of the key, flags, length of the payload
_NOTE_AT: Final = 64 + 24
_KEY_AT: Final = 64 + 32
_FLAGS_AT: Final = 28


def flags_of(packed: bytes) -> int:
    """The flags of a frame."""
    return int.from_bytes(packed[_FLAGS_AT : _FLAGS_AT + 4], "little")


def raft_frame(index: int, term: int, kind: int, data: bytes) -> bytes:
    """An entry that Raft made itself, as a packed frame."""
    writer = LogWriter(None)
    writer.open_segment(0, 0, 0, 1 << 30, index - 1)
    writer.epoch = term
    writer.control(NOTE, 0, 0, RAFT_KEY + bytes([kind]) + data, b"")
    return writer.take()


def entry_of(packed: bytes) -> tuple[int, bytes]:
    """Kind and data of the entry that a frame is."""
    key_length, kind, payload_length = _NOTE_HEAD.unpack_from(packed, _NOTE_AT)
    key = packed[_KEY_AT : _KEY_AT + key_length]
    if kind != NOTE or payload_length or not key.startswith(RAFT_KEY) or len(key) == len(RAFT_KEY):
        return NORMAL, packed
    return key[len(RAFT_KEY)], key[len(RAFT_KEY) + 1 :]
