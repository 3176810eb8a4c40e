"""The hash chain of a tamper-evident stream: where it stands, and how it gets into the log.

    log: a CHAIN record at the head of a segment, and behind every batch that is handed over, still empty
    commit: `seal` fills them in, in the thread that writes; `settle` when that is done

The first link is made of the stream's identity. What stands in the chain for a message that was overwritten is its
leaf, which the intent to erase it has as its key (`erased` has them all, for compactions). Drawn in
docs/internals/format.md.

What this is not: a signature. Whoever can write the files and knows the format can make a chain of his own: a
checkpoint that was taken away before tells (`chain_check`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Final

from slipstream.jetstream.store.chains import ChainHead
from slipstream.jetstream.store.file.jobs import SegmentWrite
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, EraseIntent, SegmentHeader
from slipstream.jetstream.store.indexed import LENGTH_MASK
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.chainlinks import ChainLinks
from slipstream.kernels.log.record import RECORD_HEAD, erased_record, record_kind

__all__ = ["LogChain", "first_link", "new_links", "with_erasures"]

_FIRST_PERSON: Final = b"slipstream.first"
_LENGTH_EXPIRES: Final = 0x40000000


class LogChain:
    """The chain of one log that is written."""

    __slots__ = ("_links", "committed", "erased")

    def __init__(self, links: ChainLinks, erased: dict[int, bytes], last_seq: int) -> None:
        """Go on from here."""
        self._links = links
        self.erased = erased
        """Leaves of erased messages, by sequence."""
        self.committed = ChainHead(links.count, links.head, last_seq)
        """Where the chain stands with the last commit."""

    @property
    def unlinked(self) -> int:
        """Records that were read back and that no link covers yet: the next commit links them."""
        return self._links.unlinked

    def seal(self, writes: list[SegmentWrite]) -> None:
        """Fill in the links of a commit. In its thread; commits of a stream come one after the other."""
        for write in writes:
            if write.goes_back:
                self._links.go_back()
            start = max(HEADER_BYTES - write.offset, 0)
            self._links.seal(write.data, min(start, len(write.data)), write.segment.header.salt)

    def forget_erased(self, first_seq: int, last_seq: int, index: MessageIndex) -> None:
        """A compaction has put leaves in the place of what was erased between these; what it copied is still there."""
        for seq in [seq for seq in self.erased if first_seq <= seq <= last_seq]:
            if index.record_place(seq) is None:
                del self.erased[seq]

    def settle(self, last_seq: int) -> None:
        """A commit is done."""
        self.committed = ChainHead(self._links.count, self._links.head, last_seq)


def first_link(uid: bytes) -> bytes:
    """What the chain of a stream begins with."""
    return hashlib.blake2b(uid, digest_size=32, person=_FIRST_PERSON).digest()


def new_links(uid: bytes, head: bytes = bytes(32), count: int = 0) -> ChainLinks:
    """Links with the fastest digest there is."""
    return ChainLinks(head, count, uid, _find_blake2b())


def with_erasures(data: bytes, header: SegmentHeader, intents: Mapping[int, EraseIntent]) -> bytes:
    """A segment's bytes, in which an overwriting that was cut off half-way is done."""
    for seq, intent in intents.items():
        if (intent.no, intent.generation) != (header.no, header.generation) or intent.offset < HEADER_BYTES:
            continue
        length = (intent.length & LENGTH_MASK) + (8 if intent.length & _LENGTH_EXPIRES else 0)
        end = intent.offset + length
        if length < RECORD_HEAD or end > len(data) or record_kind(data, intent.offset, header.salt):
            continue
        record = erased_record(seq, 0, intent.length, header.salt, bytes(length - RECORD_HEAD))
        data = data[: intent.offset] + record + data[end:]
    return data


@cache
def _find_blake2b() -> int:
    """Address of libsodium's BLAKE2b, which works without the GIL; 0 if there is none that does what `hashlib` does."""
    try:
        from nacl import _sodium

        address = _sodium.ffi.addressof(_sodium.lib, "crypto_generichash_blake2b_salt_personal")
        found = int(_sodium.ffi.cast("uintptr_t", address))
    except (ImportError, AttributeError, TypeError):
        return 0
    return found
