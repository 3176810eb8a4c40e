"""The plain model of what a client reads from a server: regular expressions over the whole text, nothing incremental.

A frame counts only when all of it is there; the first fault ends the reading.
"""

import re
import struct
from dataclasses import dataclass, field

SIZE_MAX = 2**31 - 1

_LINE = re.compile(rb"(.*?)\r?\n", re.DOTALL)
_WORD = rb"[ \t]+([^ \t]+)"
_MSG = re.compile(rb"MSG" + _WORD + _WORD + rb"(?:" + _WORD + rb")?[ \t]+(\d{1,10})[ \t]*", re.DOTALL)
_HMSG = re.compile(rb"HMSG" + _WORD + _WORD + rb"(?:" + _WORD + rb")?[ \t]+(\d{1,10})[ \t]+(\d{1,10})[ \t]*", re.DOTALL)
_OTHER = re.compile(rb"(PING|PONG|\+OK|-ERR|INFO)(?:[ \t](.*))?", re.DOTALL)


@dataclass
class Message:
    subject: bytes
    sid: bytes
    reply: bytes
    header: bytes
    payload: bytes
    has_header: bool


@dataclass
class Reading:
    """Everything a byte string says."""

    messages: list[Message] = field(default_factory=list)
    lines: dict[bytes, list[bytes]] = field(
        default_factory=lambda: {v: [] for v in (b"PING", b"PONG", b"+OK", b"-ERR", b"INFO")}
    )
    broken: bool = False

    def stamps(self) -> list[tuple[int, int, int]]:
        """(source, sequence, time) of every payload that can hold a stamp."""
        words = [
            struct.unpack("<QQ", m.payload[:16]) for m in self.messages if not m.has_header and len(m.payload) >= 16
        ]
        return [(word >> 48, word & (1 << 48) - 1, sent) for word, sent in words if word >> 48 < 256]


def read(data: bytes) -> Reading:
    """Read all of `data` at once."""
    reading = Reading()
    at = 0
    while found := _LINE.match(data, at):
        line, body = found[1], found.end()
        if other := _OTHER.fullmatch(line):
            reading.lines[other[1]].append((other[2] or b"").strip(b" \t"))
            at = body
            continue
        message = _head(line)
        if message is None:
            reading.broken = True
            return reading
        subject, sid, reply, header_size, size = message
        end = body + size
        tail = data[end : end + 2]
        if not b"\r\n".startswith(tail):
            reading.broken = True
            return reading
        if len(tail) < 2:
            return reading
        has_header = line.startswith(b"H")
        reading.messages.append(
            Message(subject, sid, reply, data[body : body + header_size], data[body + header_size : end], has_header)
        )
        at = end + 2
    return reading


def losses(stamps: list[tuple[int, int, int]]) -> tuple[int, int]:
    """(lost, repeated) of sequences that begin at 1 for every source."""
    lost = repeated = 0
    expected: dict[int, int] = {}
    for source, seq, _ in stamps:
        awaited = expected.get(source, 1)
        if seq < awaited:
            repeated += 1
        else:
            lost += seq - awaited
            expected[source] = seq + 1
    return lost, repeated


def _head(line: bytes) -> tuple[bytes, bytes, bytes, int, int] | None:
    if plain := _MSG.fullmatch(line):
        subject, sid, reply, size = plain.groups()
        header_size = b"0"
    elif headed := _HMSG.fullmatch(line):
        subject, sid, reply, header_size, size = headed.groups()
    else:
        return None
    if int(size) > SIZE_MAX or int(header_size) > int(size):
        return None
    return subject, sid, reply or b"", int(header_size), int(size)
