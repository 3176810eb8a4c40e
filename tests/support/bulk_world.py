"""Bulk calls to an account on a simulated disk: a client that confirms chunks, and a way to restart."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from models.records import EXPIRES, HEAD
from slipstream.jetstream.account.directory import DirectoryStores
from slipstream.jetstream.bulk.parts import part_prefix
from slipstream.jetstream.ports import Delivery
from slipstream.jetstream.store.file import FileStoreOptions
from slipstream.kernels.bulk.arrowrows import RowDecoder
from slipstream.kernels.bulk.bulkscan import are_messages, encode_message
from slipstream.kernels.log.record import StoredMessage, crc32c
from slipstream.testing.sim_disk import SimDisk
from support.consumer_world import ConsumerPorts
from support.disk_world import make_root
from support.jetstream_world import FakePorts, FakeSubscription, World


class BulkPorts(ConsumerPorts):
    """Ports that route what is handed out, to those who subscribe."""

    def __init__(self) -> None:
        super().__init__()
        self.congested = False

    def has_interest(self, subject: bytes) -> bool:
        return FakePorts.has_interest(self, subject)

    def route(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> int:
        self.reads += subject.startswith(b"$JS.API.BULK.")
        return super().route(subject, reply, header, payload)

    def deliver_many(self, messages: Iterable[Delivery]) -> bool:
        for target, _subject, reply, header, payload in messages:
            self.publish(target, reply, header, payload)
        return not self.congested


@dataclass
class Reading:
    """One read as its client sees it."""

    answer: dict[str, Any]
    subscription: FakeSubscription
    room: memoryview | None = None
    in_memory: int = 0
    """Chunks that came that way."""
    in_files: int = 0
    """Chunks that the client read itself."""
    chunks: list[bytes] = field(default_factory=list)
    status: bytes = b""
    end: dict[str, Any] = field(default_factory=dict)

    @property
    def pause_ns(self) -> int:
        """How long it is to pause now after each step in a file."""
        assert self.room is not None
        return int.from_bytes(self.room[-8:], "little", signed=True)

    @property
    def seqs(self) -> list[int]:
        """Sequences that came."""
        found: list[int] = []
        for chunk in self.chunks:
            found += (int(message.seq) for message in messages_of(chunk))
        return found


def messages_of(data: bytes) -> list[StoredMessage]:
    """The messages of a chunk, after the checks a client makes."""
    decoder = RowDecoder(())
    assert decoder.feed(data) == len(data) or decoder.full
    return parsed(data)


def parsed(data: bytes) -> list[StoredMessage]:
    """The messages of records, whatever their checksums."""
    out, at = [], 0
    while at < len(data):
        _crc, hlen, seq, ts, slen, flags, plen = HEAD.unpack_from(data, at)
        body = at + HEAD.size + (8 if flags & EXPIRES else 0)
        stop = body + slen + hlen + plen
        expires = int.from_bytes(data[at + HEAD.size : body], "little")
        parts = data[body : body + slen], data[body + slen : body + slen + hlen], data[body + slen + hlen : stop]
        out.append(StoredMessage(seq, ts, *parts, expires))
        at = (stop + 7) // 8 * 8
    return out


class BulkWorld(World):
    """An account whose file streams are on a simulated disk."""

    ports: BulkPorts

    def __init__(self, disk: SimDisk | None = None, *, ports: BulkPorts | None = None, **facts: Any) -> None:
        self.disk = disk or SimDisk()
        make_root(self.disk, "/js")
        self.reads_memory = False  # whether readers are on the server's machine
        rng = random.Random(5)
        stores = DirectoryStores(
            self.disk,
            "/js/A",
            options=lambda _config: FileStoreOptions(
                random64=lambda: rng.getrandbits(64), noise=rng.randbytes, now_ns=lambda: 1, segment_bytes=1 << 20
            ),
            new_uid=lambda: rng.randbytes(16),
            log=lambda _level, _text: None,
        )
        super().__init__(stores=stores, ports=ports or BulkPorts(), **facts)  # type: ignore[arg-type]
        self.ports.settle()

    def restart(self) -> BulkWorld:
        """Stop cleanly, and start again on the same disk at the same time."""
        self.account.shutdown()
        ports = BulkPorts()
        ports.clock_ns = self.ports.clock_ns
        return BulkWorld(self.disk, ports=ports)

    def fill(self, count: int, subject: str = "s.%d", payload: bytes = b"p" * 50) -> None:
        """Publish without waiting for each."""
        for number in range(count):
            name = subject % (number % 10) if "%" in subject else subject
            self.ports.route(name.encode(), None, None, payload + b"-%d" % number)
        self.ports.settle()

    def error(self, subject: str, body: Any = b"") -> tuple[int, str]:
        """Number and text of the error a call ends with."""
        answer = self.api(subject, body)
        return answer["error"]["err_code"], answer["error"]["description"]

    # --- reading ----------------------------------------------------------------------------------------------------

    def begin_read(self, stream: str = "S", **body: Any) -> Reading:
        """Begin a read and take what comes without confirming."""
        inbox = b"_INBOX.read.%d" % next(self._replies)
        reading: list[Reading] = []

        def take(_subject: bytes, _reply: bytes | None, header: bytes | None, payload: bytes) -> None:
            if not reading:
                reading.append(Reading(json.loads(payload), subscription))
            elif header and header.startswith(b"NATS/1.0 100"):
                at, size = map(int, payload.split())
                assert reading[0].room is not None
                reading[0].chunks.append(bytes(reading[0].room[at : at + size]))
                reading[0].in_memory += 1
            elif header and header.startswith(b"NATS/1.0 101"):
                at, size = map(int, payload.split())
                reading[0].chunks.append(self.read_places(json.loads(bytes(reading[0].room[at : at + size]))))
                reading[0].in_files += 1
            elif header:
                reading[0].status, reading[0].end = header, json.loads(payload)
            else:
                reading[0].chunks.append(payload)

        subscription = self.ports.subscribe(inbox, take)
        if self.reads_memory:
            body.setdefault("memory", True)
        self.ports.route(b"$JS.API.BULK.READ." + stream.encode(), inbox, None, json.dumps(body).encode())
        self.ports.settle()
        if "memory" in reading[0].answer:
            reading[0].room = self.ports.memories[reading[0].answer["memory"]["name"]].view
            self.confirm(reading[0], reading[0].answer["credit"], stream)
        return reading[0]

    def read_places(self, said: dict[str, Any]) -> bytes:
        """What a client finds in the files of the server, keyed by 0."""
        lent = {loan.path: loan for loan in self.ports.loans}
        out, rows = b"", 0
        for path, device, inode, offset, length, salt, count, first in said["places"]:
            assert (lent[path].device, lent[path].inode) == (device, inode)
            data = self.disk.read(path.removeprefix("/fake"), offset, length)
            assert are_messages(data, count, first, said["last"]) and parsed(data)[0].seq == first
            decoder = RowDecoder((), salt=salt & 0xFFFFFFFF)
            assert decoder.feed(data) == len(data) or decoder.full
            assert not decoder.damaged
            out += b"".join(encode_message(message) for message in parsed(data))
            rows += count
        assert rows == said["rows"]
        return out

    def confirm(self, reading: Reading, chunks: int = 1, stream: str = "S") -> None:
        """Confirm chunks, and let the server go on."""
        self.ports.route(f"$JS.API.BULK.CREDIT.{stream}.{reading.answer['id']}".encode(), None, None, b"%d" % chunks)
        self.ports.settle()

    def read(self, stream: str = "S", **body: Any) -> Reading:
        """A whole read."""
        reading = self.begin_read(stream, **body)
        assert "error" not in reading.answer, reading.answer
        while not reading.status:
            before = len(reading.chunks)
            self.confirm(reading, stream=stream)
            assert reading.status or len(reading.chunks) > before
        if reading.in_files:
            self.confirm(reading, len(reading.chunks), stream)
        return reading

    # --- writing ----------------------------------------------------------------------------------------------------

    def stage(
        self, rows: list[tuple[str, bytes, bytes]], txn: str = "T", *, part: int = 0, stream: str = "S", **how: Any
    ) -> dict[str, Any]:
        """Stage `(subject, headers, payload)` rows; the part."""
        data, crc = b"", 0
        for number, (subject, block, payload) in enumerate(rows, 1):
            record = encode_message(StoredMessage(number, 0, subject.encode(), block, payload))
            crc = crc32c(record[:4], crc)
            data += record
        begun = self.api(f"BULK.STAGE.{stream}", {"txn": txn, "part": part, "attempt": 0, **how})
        assert "error" not in begun, begun
        step = 1000
        for at in range(0, len(data), step):
            answer = self.api(f"BULK.STAGE.{stream}.{begun['id']}.{at}", data[at : at + step])
            assert answer.get("offset") == min(at + step, len(data)), answer
        end = {"count": len(rows), "crc": crc, "bytes": len(data)}
        staged = self.api(f"BULK.STAGE.{stream}.{begun['id']}.END", end)
        assert staged["name"].startswith(part_prefix(txn)), staged
        return {name: staged[name] for name in ("name", "count", "crc", "bytes")}

    def commit(self, batch_id: int, parts: list[dict[str, Any]], txn: str = "T", *, stream: str = "S") -> Any:
        """Commit parts; the answer."""
        return self.api(f"BULK.COMMIT.{stream}", {"txn": txn, "batch_id": batch_id, "parts": parts})

    def texts(self, stream: str = "S") -> list[bytes]:
        """Payloads now stored."""
        store = self.account.streams[stream].store
        found = store.read_batch((), 0, max_msgs=10**6, max_bytes=10**9, up_to_seq=store.last_seq)
        return [message.payload for message in found if isinstance(message, StoredMessage)]
