"""Frames that another server sends."""

from __future__ import annotations

from fuzz import checksums
from fuzz.target import Target, option
from models import transit as model
from models.records import LOCAL, Record, encode_frame
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.replay import frame_end, replay_frame
from slipstream.kernels.log.segscan import SegmentScan
from slipstream.kernels.log.transit import frame_heads, pack_frame, unpack_frame

SALT = 0x1234567_89ABCDEF
NUMBER, EPOCH = 3, 2


def frame(data: bytes) -> None:
    """Opened as the model opens it, or not; what is opened is a frame for any reader of segments."""
    flags, body = option(data)
    content = bytearray(body)
    if not flags & 1:
        checksums.records(content, 0, with_frames=True)
    packed = bytes(content)
    opened = unpack_frame(packed, NUMBER, EPOCH, 1, SALT)
    assert opened == model.opened(packed, NUMBER, EPOCH, 1, SALT)
    again = pack_frame(packed, 0, 0)
    assert again == model.packed(packed, 0)
    for *_, at, length in frame_heads(packed, 0, 0):
        assert 0 <= at < len(packed) and length >= 64
    if opened is None:
        return
    assert again is not None and pack_frame(opened, 0, SALT) == again
    assert [head[:2] for head in frame_heads(opened, 0, SALT)] == [(NUMBER, EPOCH)]
    scan = SegmentScan(opened, 0, SALT, 1, NUMBER - 1)
    while scan.step(1 << 20):
        pass
    assert scan.last_frame_no == NUMBER and scan.epoch == EPOCH
    index = MessageIndex(1)
    end, replayed = frame_end(opened, 0, SALT, 0), replay_frame(opened, 0, SALT, index, 1, 4096)
    assert (end is None) == (replayed is None)
    assert index.last_seq == (0 if end is None else end[0])
    index.check()


def frame_seeds() -> list[bytes]:
    number = (9).to_bytes(8, "little")
    messages = [Record(seq, 5, b"s.%d" % seq, b"", b"pay" * seq, expires=9 * (seq == 2)) for seq in range(1, 4)]
    facts = [
        Record(5, 2, b"", b"", number * 2, kind=2),
        Record(7, 2, b"", b"", b"", kind=3),
        Record(3, 2, b"", b"", number, kind=4),
        Record(4, 2, b"", b"", bytes(range(20)), kind=7),
        Record(0, 2, b"key", b"", b"value", kind=13),
        Record(0, 2, b"consumer", b"", b"state", kind=9),
        Record(0, 2, b"consumer", b"", b"delta", kind=10),
        Record(0, 2, b"consumer", b"", b"", kind=11),
    ]
    whole = [encode_frame(records, no=NUMBER, salt=0, epoch=EPOCH) for records in (messages, facts, messages + facts)]
    erased = [messages[0], Record(2, 5, b"", b"", bytes(9), kind=8), messages[2]]
    whole.append(encode_frame(erased, no=NUMBER, salt=0, epoch=EPOCH))
    whole.append(encode_frame(messages, no=NUMBER, salt=0, epoch=EPOCH, flags=7))
    whole.append(encode_frame(messages, no=NUMBER, salt=0, epoch=EPOCH, flags=LOCAL))
    return [b"\0" + one for one in whole]


TARGETS = (Target("frame-in-transit", frame, frame_seeds, (b"SFR1",)),)
