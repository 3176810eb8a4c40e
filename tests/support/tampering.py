"""Somebody who can write a stream's files and knows their format: checksums, lengths and ends are made right again."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from slipstream.jetstream.store.file.manifest import Manifest, read_manifest, write_manifest
from slipstream.jetstream.store.file.segments.open_segment import encode_controls, index_path, scan_segment
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, decode_header, encode_header
from slipstream.kernels.log.chainlinks import leaf_of
from slipstream.kernels.log.record import CHAIN, CONFIG, ERASED, MARK, MSG, SKIP, crc32c
from slipstream.kernels.log.segindex import decode_index, encode_index
from slipstream.testing.sim_disk import SimDisk

from .stores import DIRECTORY, reopen

_HEAD = struct.Struct("<IIQqHHI")
_FRAME = struct.Struct("<IIQQIIQQqII")


@dataclass
class Frame:
    """One frame, with its records as bytes without padding."""

    fields: list[int]
    records: list[bytes]

    def encode(self, salt: int) -> bytes:
        body = b"".join(record + bytes(-len(record) % 8) for record in (sealed(r, salt) for r in self.records))
        self.fields[1], self.fields[4] = 64 + len(body), len(self.records)
        head = _FRAME.pack(*self.fields[:-1], 0)[:-4]
        return head + struct.pack("<I", crc32c(head, salt & 0xFFFFFFFF)) + body


def sealed(record: bytes, salt: int) -> bytes:
    """A record with the checksum that it should have."""
    return struct.pack("<I", crc32c(record[4:], salt & 0xFFFFFFFF)) + record[4:]


def kind_of(record: bytes) -> int:
    return _HEAD.unpack_from(record)[5] & 15


def seq_of(record: bytes) -> int:
    seq: int = _HEAD.unpack_from(record)[2]
    return seq


@dataclass
class Parsed:
    """A segment taken apart."""

    path: str
    header: SegmentHeader
    frames: list[Frame]

    def places(self, wanted: Callable[[bytes], bool]) -> list[tuple[Frame, int]]:
        return [(f, i) for f in self.frames for i, record in enumerate(f.records) if wanted(record)]

    def encode(self) -> bytes:
        return encode_header(self.header) + b"".join(frame.encode(self.header.salt) for frame in self.frames)


class Tamperer:
    """Changes to a copy of a stream's files."""

    def __init__(self, disk: SimDisk, rng: random.Random) -> None:
        self.disk = disk.copy()
        self.rng = rng
        self.segments = [_parsed(self.disk, path) for path in self.disk.paths() if path.endswith(".seg")]
        self.segments.sort(key=lambda segment: segment.header.no)

    def write(self) -> SimDisk:
        """Put everything back, each segment saying where the one before it ends now."""
        end = None
        for segment in self.segments:
            if end is not None:
                segment.header = replace(segment.header, prev_end=end)
            data = segment.encode()
            end = len(data)
            self._replace(segment.path, data)
            index = index_path(segment.path)
            if index in self.disk.paths():  # a start believes it: it must not say otherwise
                scan = scan_segment(data, segment.header)
                self._replace(index, encode_index(scan, encode_controls(scan)))
        return self.disk

    def pick(self, wanted: Callable[[bytes], bool]) -> tuple[Frame, int]:
        return self.rng.choice([place for segment in self.segments for place in segment.places(wanted)])

    # --- what is done -----------------------------------------------------------------------------------------------

    def change_byte(self) -> SimDisk:
        """A byte of what a record says: its time, subject, headers, payload, or a removed sequence."""
        frame, i = self.pick(lambda record: kind_of(record) not in (MARK, ERASED))
        record = bytearray(frame.records[i])
        # The head of a CHAIN record says nothing.
        at = self.rng.randrange(32 if kind_of(record) == CHAIN else 16, len(record))
        if 24 <= at < 32:
            at = 20  # lengths and flags: other records than there were, and damage
        record[at] ^= self.rng.randrange(1, 256)
        frame.records[i] = bytes(record)
        return self.write()

    def drop_record(self) -> SimDisk:
        """Any but a mark, or a link: at the head of a segment that only repeats the one before."""
        frame, i = self.pick(lambda record: kind_of(record) not in (MARK, CHAIN))
        del frame.records[i]
        if not frame.records:
            for segment in self.segments:
                segment.frames = [f for f in segment.frames if f.records]
        return self.write()

    def swap_records(self) -> SimDisk:
        frames = [f for s in self.segments for f in s.frames if len([r for r in f.records if kind_of(r) == MSG]) > 1]
        frame = self.rng.choice(frames)
        first, second = self.rng.sample([i for i, r in enumerate(frame.records) if kind_of(r) == MSG], 2)
        one, other = bytearray(frame.records[first]), bytearray(frame.records[second])
        one[8:16], other[8:16] = other[8:16], one[8:16]  # sequences stay in order
        frame.records[first], frame.records[second] = bytes(other), bytes(one)
        return self.write()

    def insert_record(self) -> SimDisk:
        """A forged message before the end of the log, or a control record that was there once already."""
        segment = self.rng.choice(self.segments)
        places = [(f, i) for f, i in segment.places(lambda record: kind_of(record) == CHAIN)][1:]
        frame, i = self.rng.choice(places)
        copied, at = self.pick(lambda record: kind_of(record) not in (MARK, CHAIN, ERASED, MSG))
        frame.records.insert(i, copied.records[at])
        return self.write()

    def change_config(self) -> SimDisk:
        """Everywhere it is said."""
        for segment in self.segments:
            for frame, i in segment.places(lambda record: kind_of(record) == CONFIG):
                frame.records[i] = frame.records[i].replace(b"name", b"NAME").replace(b"conf", b"CONF")
        manifest = self._manifest()
        config = manifest.config.replace(b"name", b"NAME").replace(b"conf", b"CONF")
        self._write_manifest(msgspec.structs.replace(manifest, config=config))
        return self.write()

    def hide_by_manifest(self) -> SimDisk:
        manifest = self._manifest()
        self._write_manifest(msgspec.structs.replace(manifest, first_seq=manifest.last_seq - self.rng.randrange(20)))
        return self.disk

    def hide_by_index(self) -> SimDisk:
        """An index file made of a segment without one of its messages."""
        indexed = [s for s in self.segments if index_path(s.path) in self.disk.paths() and s.places(_is_message)]
        segment = self.rng.choice(indexed)
        frame, i = self.rng.choice(segment.places(_is_message))
        whole = segment.encode()
        seq = _HEAD.unpack_from(frame.records[i])[2]
        skip = _HEAD.pack(0, 0, seq, 0, 0, SKIP, 8) + struct.pack("<Q", seq)
        frame.records[i] = skip + bytes(0)
        scan = scan_segment(segment.encode(), segment.header)
        made = bytearray(encode_index(scan, encode_controls(scan)))
        made[112:120] = struct.pack("<Q", len(whole))  # it ends where the segment does
        made[-4:] = struct.pack("<I", crc32c(bytes(made[:-4]), segment.header.salt & 0xFFFFFFFF))
        assert decode_index(bytes(made), segment.header.salt) is not None, "a start must believe it"
        self._replace(index_path(segment.path), bytes(made))
        return self.disk

    def pretend_compaction(self) -> SimDisk:
        """A leaf in the place of a message that nobody removed."""
        index = reopen(self.disk.copy()).state.index
        frame, i = self.pick(lambda record: _is_message(record) and index.locate(seq_of(record)) is not None)
        record = sealed(frame.records[i], 0)
        seq = _HEAD.unpack_from(record)[2]
        leaf = leaf_of(record, 0, 0)
        assert leaf is not None
        frame.records[i] = _HEAD.pack(0, 0, seq, 0, 32, SKIP, 8) + leaf + struct.pack("<Q", seq)
        return self.write()

    def other_identity(self) -> SimDisk:
        uid = self.rng.randbytes(16)
        for segment in self.segments:
            segment.header = replace(segment.header, uid=uid)
        self._write_manifest(msgspec.structs.replace(self._manifest(), uid=uid))
        return self.write()

    def remove_segment(self) -> SimDisk:
        """And whoever comes behind says that it came after the one before."""
        at = self.rng.randrange(len(self.segments) - 1)
        gone = self.segments.pop(at)
        self.disk.remove(gone.path)
        if index_path(gone.path) in self.disk.paths():
            self.disk.remove(index_path(gone.path))
        behind = self.segments[at]
        before = self.segments[at - 1].header if at else None
        behind.header = replace(
            behind.header,
            prev_no=before.last_no if before else 0,
            prev_generation=before.generation if before else 0,
        )
        manifest = self._manifest()
        kept = [entry for entry in manifest.segments if entry.no != gone.header.no]
        self._write_manifest(msgspec.structs.replace(manifest, segments=kept, lost=[]))
        return self.write()

    def cut_tail(self) -> SimDisk:
        """The newest frames, and all that knew of them."""
        last = self.segments[-1]
        said = [i for i, frame in enumerate(last.frames) if any(kind_of(record) != MARK for record in frame.records)]
        if len(said) > 1:
            del last.frames[self.rng.choice(said[1:]) :]
        else:
            self.disk.remove(self.segments.pop().path)
        for path in self.disk.paths():
            if "MANIFEST" in path:
                self.disk.remove(path)
        return self.write()

    # --- files ------------------------------------------------------------------------------------------------------

    def _manifest(self) -> Manifest:
        manifest = read_manifest(self.disk, DIRECTORY).manifest
        assert manifest is not None
        return manifest

    def _write_manifest(self, manifest: Manifest) -> None:
        for path in self.disk.paths():
            if "MANIFEST" in path:
                self.disk.remove(path)
        write_manifest(self.disk, DIRECTORY, manifest, doubtful=True)

    def _replace(self, path: str, data: bytes) -> None:
        if path in self.disk.paths():
            self.disk.remove(path)
        self.disk.create(path)
        self.disk.write(path, 0, data)


def _is_message(record: bytes) -> bool:
    return kind_of(record) == MSG


def _parsed(disk: SimDisk, path: str) -> Parsed:
    data = bytes(disk.content(path))
    header = decode_header(data)
    assert header is not None
    frames: list[Frame] = []
    at = HEADER_BYTES
    while at + 64 <= len(data) and data[at : at + 64].strip(b"\0"):
        fields = list(_FRAME.unpack_from(data, at))
        place, records = at + 64, []
        for _ in range(fields[4]):
            _, hlen, _, _, slen, flags, plen = _HEAD.unpack_from(data, place)
            size = 32 + hlen + slen + plen + (8 if flags & 16 else 0)
            records.append(data[place : place + size])
            place += -(-size // 8) * 8
        frames.append(Frame(fields, records))
        at += fields[1]
    return Parsed(path, header, frames)


TAMPERS: dict[str, Callable[[Tamperer], SimDisk]] = {
    method.__name__: method
    for method in (
        Tamperer.change_byte,
        Tamperer.drop_record,
        Tamperer.swap_records,
        Tamperer.insert_record,
        Tamperer.change_config,
        Tamperer.hide_by_manifest,
        Tamperer.hide_by_index,
        Tamperer.pretend_compaction,
        Tamperer.other_identity,
        Tamperer.remove_segment,
        Tamperer.cut_tail,
    )
}
