"""Backups that clients send: compressed blocks and streams, archives, tars of older servers, blocks of nats-server."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from functools import cache
from typing import Any

from differential.test_natsblock import KEY
from fuzz import checksums
from fuzz.target import ACCOUNT_COST, Target, cut, option
from models import natsblock as block_model
from models import s2block as s2_model
from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, ArchiveReader, encode_entry
from slipstream.jetstream.backup.consumers import SavedState
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.legacy_writer import encode_state
from slipstream.jetstream.backup.s2 import S2Reader, S2Writer, _masked
from slipstream.kernels.backup import natsblock, s2block
from slipstream.kernels.log.record import crc32c
from support.consumer_world import ConsumerWorld

CONTENT_MAX = 1 << 16

# --- S2 -------------------------------------------------------------------------------------------------------------


def s2_block(data: bytes) -> None:
    """Decoded or refused as by the model; and any bytes can be packed and come back."""
    assert _outcome(s2block.decode_block, data) == _outcome(s2_model.decode_block, data)
    packed = s2block.encode_block(data)
    assert s2block.decode_block(packed, CONTENT_MAX) == data == s2_model.decode_block(packed, CONTENT_MAX)


def _outcome(decode: Any, block: bytes) -> bytes | str:
    try:
        content: bytes = decode(block, CONTENT_MAX)
        return content
    except ValueError as error:
        return str(error)


def block_seeds() -> list[bytes]:
    contents = (b"orders.eu" * 9 + b"x" * 70, bytes(300), b"abc", b"")
    repeats = b"\x8d\x02\x0cabcd\x01\x04\x19\x00\x01\x00"
    return [
        *map(s2block.encode_block, contents),
        repeats,
        b"\x10\x0cabcd\x01\x04\x11\x00",
        b"\x09\x0cabcd\x07\x04\0\0\0",
    ]


def s2_stream(data: bytes) -> None:
    """The same content however it is cut, or the same complaint."""
    flags, body = option(data)
    stream = body if flags & 1 else _with_checksums(body)
    whole, pieces = _unpacked([stream]), _unpacked(cut(stream))
    assert whole == pieces
    written = S2Writer()
    packed = written.write(body) + written.close()
    assert _unpacked([packed]) == (body, "")


def _unpacked(pieces: list[bytes]) -> tuple[bytes, str]:
    reader, content = S2Reader(), bytearray()
    try:
        for piece in pieces:
            for part in reader.feed(piece):
                content += part
    except BadBackup as problem:
        return bytes(content), problem.text
    return bytes(content), ""


def _with_checksums(body: bytes) -> bytes:
    stream, at = bytearray(body), 0
    while len(stream) - at >= 8:
        length = int.from_bytes(stream[at + 1 : at + 4], "little")
        chunk = bytes(stream[at + 8 : at + 4 + length])
        if stream[at] < 2 and length >= 4 and len(chunk) == length - 4:
            content = chunk
            if stream[at] == 0:
                try:
                    content = s2block.decode_block(chunk, 4 << 20)
                except ValueError:
                    content = b""
            struct.pack_into("<I", stream, at + 4, _masked(crc32c(content)))
        at += 4 + length
    return bytes(stream)


def stream_seeds() -> list[bytes]:
    packed = []
    for content in (b"orders" * 50, bytes(range(200)), b""):
        writer = S2Writer()
        packed.append(b"\0" + writer.write(content) + writer.close())
    return [*packed, packed[0] + b"\xff\x06\0\0sNaPpY" + b"\x80\x03\0\0abc" + packed[1][11:]]


# --- restores -------------------------------------------------------------------------------------------------------


def restore(data: bytes) -> None:
    """A backup is restored or refused with one answer, the same however its chunks are cut; then all is as before."""
    flags, body = option(data)
    content = bytearray(body)
    if flags & 2:
        checksums.tar(content)
    elif content[: len(MAGIC)] == MAGIC and not flags & 1:
        assert _entries([bytes(content)]) == _entries(cut(bytes(content)))
    answers = [_restored([bytes(content)]), _restored(cut(bytes(content)))]
    assert answers[0] == answers[1]


def _entries(pieces: list[bytes]) -> tuple[list[ArchiveEntry], str]:
    reader, found = ArchiveReader(), []
    try:
        for piece in pieces:
            for entry in reader.feed(piece):  # one by one: those before a complaint count
                found.append(entry)  # noqa: PERF402
    except BadBackup as problem:
        return found, problem.text
    return found, ""


def _restored(pieces: list[bytes]) -> Any:
    world = ConsumerWorld()
    config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_msg_ttl": True}
    begun = world.api("STREAM.RESTORE.S", {"config": config, "state": {"first_seq": 1, "last_seq": 5}})
    writer, subject = S2Writer(), begun["deliver_subject"]
    for piece in [*pieces, None]:
        chunk = writer.close() if piece is None else writer.write(piece) + writer.close()
        if chunk:
            assert world.request(subject, chunk) == (None, b"")
    answer = world.request(subject, b"")
    assert answer is not None
    said = json.loads(answer[1])
    if "error" in said:
        assert "internal" not in said["error"]["description"]
        return said["error"]
    names = world.api("CONSUMER.NAMES.S")["consumers"]
    for name in names:
        assert "config" in world.api(f"CONSUMER.INFO.S.{name}")
        world.pull({"batch": 3, "no_wait": True}, name)
    assert world.publish("s.after")["seq"] > said["state"]["last_seq"]
    return said["state"], sorted(names)


@cache
def restore_seeds() -> list[bytes]:
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 10**10, "max_deliver": 3}
    state = {"delivered": {"consumer_seq": 2, "stream_seq": 2}, "ack_floor": {"consumer_seq": 1, "stream_seq": 1}}
    state |= {"pending": {"2": {"Sequence": 2, "Timestamp": 5}}, "redelivered": {"2": 1}}
    bounds = {"messages": 2, "bytes": 60, "first_seq": 1, "last_seq": 3, "consumer_count": 1}
    entries = [
        ArchiveEntry(b"state.json", 0, 0, b"", json.dumps(bounds).encode()),
        ArchiveEntry(b"consumers/C", 0, 0, b"", json.dumps({"config": config, "state": state}).encode()),
        ArchiveEntry(b"s.1", 1, 1, b"", b"one"),
        ArchiveEntry(b"s.2", 2, 2, b"NATS/1.0\r\nNats-TTL: 1h\r\n\r\n", b"two"),
        ArchiveEntry(),
    ]
    archive = MAGIC + b"".join(map(encode_entry, entries))
    return [b"\0" + archive, b"\2" + _tar(config), b"\0" + MAGIC + encode_entry(entries[0])]


def _tar(config: dict[str, Any]) -> bytes:
    records = block_model.record(KEY, 1, 5, b"s.1", b"", b"one")
    records += block_model.record(KEY, 2, 6, b"s.2", b"NATS/1.0\r\n\r\n", b"two")
    records += block_model.record(KEY, 1 << 62 | 1, 6, b"", b"", b"")
    state = encode_state(SavedState.of((2, 2), (1, 1), {2: (2, 5 * 10**9)}, {2: 1}), 10**10)
    files = {
        "meta.inf": json.dumps({"name": "S", "Created": "2024-01-01T00:00:00Z"}).encode(),
        "msgs/1.blk": records,
        "obs/C/meta.inf": json.dumps(config | {"Name": "C"}).encode(),
        "obs/C/o.dat": state,
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as made:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return out.getvalue()[: 512 * 10]


RESTORE_WORDS = tuple(
    b'state.json|consumers/|meta.inf|msgs/1.blk|obs/C/o.dat|obs/C/meta.inf|"first_seq":|"last_seq":|"consumer_count":|'
    b'"pending":|"redelivered":|"ack_wait":|"max_deliver":|"Sequence":|9223372036854775807|-1|1e3|null|[]|{}|'
    b"00000000777\0|-0000000600\0|size=-600\n|Nats-TTL: |never|s.>|\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".split(b"|")
)

# --- blocks of nats-server ------------------------------------------------------------------------------------------


def nats_block(data: bytes) -> None:
    """Records are those of the model, wherever one begins to read."""
    flags, body = option(data)
    block = body if flags & 1 else _hashed(body)
    found = natsblock.records(block, KEY, 0, 100)
    assert found == block_model.records(block, KEY, 0, 100)
    assert 0 <= found[1] <= len(block)
    for at in (0, 1, len(block) // 2, len(block), len(block) + 5):
        place = natsblock.next_record(block, KEY, at)
        assert place == len(block) or natsblock.records(block, KEY, place, 1)[0]
    assert natsblock.hash64(KEY, data) == block_model.hash64(KEY, data)
    messages = [(*one[:3], one[3] or b"", one[4]) for one in found[0] if one[3] is not None]
    if len(messages) == len(found[0]):
        assert natsblock.records(natsblock.encode(messages, KEY), KEY, 0, 100)[0] == messages


def _hashed(body: bytes) -> bytes:
    block, at = bytearray(body), 0
    while len(block) - at >= 30:
        length, _seq, _ts, subject = struct.unpack_from("<IQqH", block, at)
        skip, length = (4 if length >> 31 else 0), length & 0x7FFFFFFF
        if length < 30 + skip + subject or length > len(block) - at:
            return bytes(block)
        start = at + 22 + subject
        covered = block[at + 4 : at + 20] + block[at + 22 : start] + block[start + skip : at + length - 8]
        block[at + length - 8 : at + length] = natsblock.hash64(KEY, bytes(covered))
        at += length
    return bytes(block)


def nats_seeds() -> list[bytes]:
    first = block_model.record(KEY, 1, 5, b"s.1", b"", b"one")
    return [b"\0" + first + block_model.record(KEY, 2, -6, b"s.2", b"NATS/1.0\r\n\r\n", b"two" * 20), b"\0" + first]


TARGETS = (
    Target("s2-block", s2_block, block_seeds, (b"\x0cabcd", b"\x01\x04", b"\xfc\xff", b"\x1d\0\2\0\0")),
    Target("s2-stream", s2_stream, stream_seeds, (b"\xff\x06\0\0S2sTwO", b"\xff\x06\0\0sNaPpY", b"\0", b"\1", b"\x80")),
    Target("restore", restore, restore_seeds, RESTORE_WORDS, cost=ACCOUNT_COST),
    Target("nats-block", nats_block, nats_seeds, (b"s.1",)),
)
