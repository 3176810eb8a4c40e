"""One stream in the files of nats-server. Reads through `Files` and changes nothing.

    meta.inf meta.sum meta.key      configuration
    msgs/<n>.blk <n>.key            messages
    msgs/index.db                   what of them is left
    sources.db                      how far the streams were read that it copies from
    obs/<name>/                     a consumer: meta.inf, meta.sum, meta.key, o.dat
    __new_msgs__/                   in place of msgs, if a purge was cut short behind its decision

Two ways to know what is left. An index that was written last says it (`index`). Without one, as after a crash, it is
what the server itself would find: every record that no tombstone names, then the limits again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.legacy import consumer_state
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.kernels.index.seqset import SeqSet
from slipstream.migrate.blocks import ERASED, TOMBSTONE, Hole, Record, block_key, scan
from slipstream.migrate.consumers import SourceConsumer, consumer_from
from slipstream.migrate.errors import MigrationError, WrongKey
from slipstream.migrate.index import BlockState, Index, decode_index, decode_sources, index_content
from slipstream.migrate.keys import Keys
from slipstream.migrate.meta import Meta, read_meta, stream_config
from slipstream.migrate.source import Findings

__all__ = ["Files", "NatsStream"]

_BLOCK = re.compile(r"(\d+)\.blk")
_SHOWN_RANGES: Final = 5  # of lost sequences, in one line of a report


class Files(Protocol):
    """The directory of one stream."""

    def read(self, path: str) -> bytes | None:
        """The content of a file, None if it is not there.

        Raises:
            OSError: it is there and cannot be read.
        """
        ...

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted; nothing if it is not there."""
        ...

    def fingerprint(self) -> str:
        """Changes when any file does."""
        ...

    @property
    def size_bytes(self) -> int:
        """Of all blocks together."""
        ...


@dataclass(slots=True)
class _Last:
    """The newest sequence met so far, and its time."""

    seq: int = 0
    ts_ns: int = 0

    def saw(self, seq: int, ts_ns: int) -> None:
        if seq > self.seq:
            self.seq, self.ts_ns = seq, ts_ns


class NatsStream:
    """Implements `SourceStream`."""

    def __init__(self, files: Files, account: str, name: str, keys: Keys, now_ns: int) -> None:
        """Nothing is read yet."""
        self.account = account
        self.name = name
        self.findings = Findings()
        self._files = files
        self._keys = keys
        self._now_ns = now_ns
        self._last = _Last()
        self._subjects: dict[bytes, int] | None = None
        self.limits_due = False

    # --- configuration ---

    @property
    def size_bytes(self) -> int:
        """See `SourceStream.size_bytes`."""
        return self._files.size_bytes

    @cached_property
    def _meta(self) -> Meta:
        try:
            meta = read_meta(self._files.read, self._keys, hashed=self.name, context=self.name)
        except WrongKey as error:
            raise WrongKey(f"stream {self.account} > {self.name}: {error}") from None
        if meta.damage:
            self.findings.damage.append(meta.damage)
        return meta

    @cached_property
    def _configured(self) -> tuple[StreamConfig, int]:
        return stream_config(self._meta.content)

    @property
    def config(self) -> StreamConfig:
        """See `SourceStream.config`."""
        return self._configured[0]

    @property
    def created_ns(self) -> int:
        """See `SourceStream.created_ns`."""
        return self._configured[1] or self._now_ns

    @property
    def is_encrypted(self) -> bool:
        """Whether there is a key file."""
        return "meta.key" in self._files.names("")

    def fingerprint(self) -> str:
        """See `SourceStream.fingerprint`."""
        return self._files.fingerprint()

    # --- messages ---

    @property
    def last_seq(self) -> int:
        """See `SourceStream.last_seq`."""
        return self._last.seq

    @property
    def last_ts_ns(self) -> int:
        """See `SourceStream.last_ts_ns`."""
        return self._last.ts_ns

    @property
    def subjects(self) -> dict[bytes, int] | None:
        """See `SourceStream.subjects`."""
        return self._subjects

    def messages(self) -> Iterator[tuple[list[Record], int]]:
        """See `SourceStream.messages`."""
        numbers = self._numbers()
        index = self._index()
        if index is not None and self._is_current(index, numbers):
            self._last = _Last(index.last_seq, index.last_ts_ns)
            self._subjects = index.subjects or None
            yield from self._by_index(index, numbers)
            return
        self.limits_due = True
        yield from self._by_log(numbers)
        if index is not None and index.last_seq > self._last.seq:
            self.findings.damage.append(
                f"the index knows sequences up to {index.last_seq}, the blocks end at {self._last.seq}"
            )
            self._last = _Last(index.last_seq, index.last_ts_ns)

    @cached_property
    def _directory(self) -> str:
        names = self._files.names("__new_msgs__")
        return "__new_msgs__" if any(_BLOCK.fullmatch(name) for name in names) else "msgs"

    def _numbers(self) -> list[int]:
        found = (_BLOCK.fullmatch(name) for name in self._files.names(self._directory))
        return sorted(int(match[1]) for match in found if match is not None)

    def _index(self) -> Index | None:
        data = self._files.read(f"{self._directory}/index.db")
        if data is None:
            return None
        content = index_content(data, self.name)
        if content is not None and self._meta.key is not None:
            content = self._meta.key.open(content)
        index = decode_index(content) if content is not None else None
        if index is None:
            self.findings.notes.append("its index is damaged (index.db): what is left was found in the blocks")
        return index

    def _is_current(self, index: Index, numbers: list[int]) -> bool:
        """Whether nothing was written after the index."""
        if not numbers or numbers[-1] != index.last_block:
            return False
        try:
            return (self._block(index.last_block) or b"")[-8:] == index.last_hash
        except (OSError, WrongKey):
            return False

    def _block(self, number: int) -> bytes | None:
        """The bytes of a block, decrypted.

        Raises:
            OSError: it cannot be read.
            WrongKey: it is encrypted, and not with a key we have.
        """
        data = self._files.read(f"{self._directory}/{number}.blk")
        sealed = self._files.read(f"{self._directory}/{number}.key")
        if not data or sealed is None:
            return data
        return self._keys.open(sealed, f"{self.name}:{number}").decrypt_block(data)

    def _scan(self, number: int) -> Iterator[tuple[list[Record] | Hole, int]]:
        """The records of a block, the first with the bytes of the whole block."""
        try:
            data = self._block(number)
        except (OSError, WrongKey) as error:
            yield Hole(0, 0, f"it cannot be read at all: {error}"), 0
            return
        size = len(data or b"")
        for found in scan(data or b"", block_key(self.name, number)):
            yield found, size
            size = 0
        if size:
            yield [], size

    def _by_index(self, index: Index, numbers: list[int]) -> Iterator[tuple[list[Record], int]]:
        last = 0
        for state in sorted(index.blocks, key=lambda state: state.number):
            found: list[int] = []
            holes: list[Hole] = []
            if state.messages and state.number not in numbers:
                holes.append(Hole(0, 0, "the file is missing"))
            elif state.number in numbers:
                for records, size in self._scan(state.number):
                    if isinstance(records, Hole):
                        holes.append(records)
                        yield [], size
                        continue
                    left = [record for record in records if record[0] > last and state.holds(record[0])]
                    found += [record[0] for record in left]
                    last = found[-1] if found else last
                    yield left, size
            self._compare(state, found, holes)

    def _compare(self, state: BlockState, found: list[int], holes: list[Hole]) -> None:
        """Say which messages of a block are missing; a hole that none of them was in is no damage."""
        missing = state.messages - len(found)
        if missing:
            there = SeqSet(found)
            lost = [seq for seq in range(state.first_seq, state.last_seq + 1) if state.holds(seq) and seq not in there]
            reason = holes[0].reason if holes else "they are not in it"
            place = f" at byte {holes[0].at}" if holes and holes[0].at else ""
            self.findings.damage.append(
                f"block {state.number}{place}: {reason}; {_counted(len(lost))} lost: {_ranges(lost)}"
            )
        elif holes:
            self.findings.notes.append(
                f"block {state.number} at byte {holes[0].at}: {holes[0].reason}; no message is lost"
            )

    def _by_log(self, numbers: list[int]) -> Iterator[tuple[list[Record], int]]:
        removed = self._survey(numbers)
        last = 0
        for number in numbers:
            for records, size in self._scan(number):
                if isinstance(records, Hole):
                    yield [], size // 2
                    continue
                left: list[Record] = []
                for record in records:
                    seq = record[0]
                    if last < seq < TOMBSTONE:
                        last = seq
                        if seq not in removed:
                            left.append(record)
                yield left, size // 2

    def _survey(self, numbers: list[int]) -> SeqSet:
        """Go through all blocks for what was removed, where it ends, and what cannot be read."""
        removed = SeqSet()
        last = self._last
        for number in numbers:
            before: Hole | None = None
            for records, _ in self._scan(number):
                if isinstance(records, Hole):
                    self._say_lost(before, number, last.seq, 0)
                    before = records
                    continue
                for seq, ts_ns, *_ in records:
                    plain = seq & ~(TOMBSTONE | ERASED)
                    if seq & TOMBSTONE:
                        removed.add(plain)
                    elif plain > last.seq:
                        self._say_lost(before, number, last.seq, plain)
                        before = None
                    if not seq & ERASED or seq & TOMBSTONE:
                        last.saw(plain, ts_ns)
                    elif plain > last.seq:
                        last.saw(plain, last.ts_ns)
            is_last = number == numbers[-1]
            if before is not None and before.is_torn and is_last:
                self.findings.notes.append(
                    f"block {number} ends within a record that was being written ({before.length} bytes)"
                )
            else:
                self._say_lost(before, number, last.seq, 0)
        return removed

    def _say_lost(self, hole: Hole | None, number: int, after_seq: int, before_seq: int) -> None:
        if hole is None:
            return
        extent = f"messages between {after_seq} and {before_seq}" if before_seq else f"messages behind {after_seq}"
        if before_seq == after_seq + 1:
            extent = "no message; a removal or a marker"
        place = f" at byte {hole.at}" if hole.at else ""
        text = f"block {number}{place}: {hole.reason} ({hole.length} bytes); lost are at most {extent}"
        self.findings.damage.append(text)

    def positions(self) -> tuple[int, dict[str, int]]:
        """See `SourceStream.positions`. Servers before 2.15 have them in the headers of messages alone."""
        data = self._files.read("sources.db")
        if data is None:
            return 0, {}
        found = decode_sources(data)
        if found is None:
            self.findings.notes.append("the positions of its sources are damaged (sources.db): messages tell them")
            return 0, {}
        return found

    # --- consumers ---

    def consumers(self) -> Iterator[SourceConsumer]:
        """See `SourceStream.consumers`."""
        for name in self._files.names("obs"):
            if name.startswith("."):
                continue
            try:
                consumer = self._consumer(name)
            except (MigrationError, BadBackup) as error:
                self.findings.damage.append(f"consumer {name}: {error}")
                continue
            if consumer.config.direct:
                continue  # of a mirror or a source, which makes it again
            yield consumer

    def close(self) -> None:
        """See `SourceStream.close`. No file stays open."""

    def _consumer(self, name: str) -> SourceConsumer:
        def read(file: str) -> bytes | None:
            return self._files.read(f"obs/{name}/{file}")

        meta = read_meta(read, self._keys, hashed=f"{self.name}/{name}", context=f"{self.name}.{name}")
        if meta.damage:
            self.findings.damage.append(f"consumer {name}: {meta.damage}")
        data = read("o.dat")
        if data and meta.key is not None:
            data = meta.key.open(data)
            if data is None:
                raise MigrationError("its state does not fit its key (o.dat)")
        state = consumer_state(data) if data else None
        if state is not None and state.ack_floor.stream_seq > state.delivered.stream_seq:
            raise MigrationError("its state contradicts itself (o.dat)")
        return consumer_from(name, meta.content, state, self._now_ns)


def _counted(number: int) -> str:
    return "1 message is" if number == 1 else f"{number:,} messages are"


def _ranges(seqs: list[int]) -> str:
    """Sequences in a few words."""
    ranges = SeqSet(seqs).ranges()
    shown = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges[:_SHOWN_RANGES]]
    return ", ".join(shown) + (f" and {len(ranges) - _SHOWN_RANGES} more ranges" if len(ranges) > _SHOWN_RANGES else "")
