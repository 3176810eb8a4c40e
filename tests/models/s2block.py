"""Blocks of S2 in plain Python: the specification of `slipstream.kernels.backup.s2block`."""

from __future__ import annotations


def decode_block(block: bytes, size_max: int) -> bytes:
    """The content of a block."""
    size = shift = at = 0
    while True:
        if at >= len(block) or shift > 28:
            raise ValueError("the size of a block is cut short")
        byte = block[at]
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > size_max:
        raise ValueError("a block is too large")
    out = bytearray()
    offset = 0
    while at < len(block):
        tag, at = block[at], at + 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length, at = _number(block, at, extra), at + extra
            length += 1
            if at + length > len(block):
                raise ValueError("a block is damaged")
            out += block[at : at + length]
            at += length
        else:
            if tag & 3 == 1:
                found = (tag & 0xE0) << 3 | _number(block, at, 1)
                at += 1
                length = (tag >> 2) & 7
                if found:
                    offset = found
                elif length >= 5:
                    extra = length - 4
                    length = _number(block, at, extra) + (4, 256, 65536)[extra - 1]
                    at += extra
                length += 4
            else:
                extra = 2 if tag & 3 == 2 else 4
                offset, at = _number(block, at, extra), at + extra
                length = (tag >> 2) + 1
            if not 0 < offset <= len(out) or len(out) + length > size:
                raise ValueError("a block is damaged")
            for _ in range(length):
                out.append(out[-offset])
        if len(out) > size:
            raise ValueError("a block is damaged")
    if len(out) != size:
        raise ValueError("a block is damaged")
    return bytes(out)


def _number(block: bytes, at: int, size: int) -> int:
    if at + size > len(block):
        raise ValueError("a block is damaged")
    return int.from_bytes(block[at : at + size], "little")
