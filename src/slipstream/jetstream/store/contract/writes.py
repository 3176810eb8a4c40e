"""What a stream tells its store to keep and to remove.

All of it joins the open frame, and is durable with the next commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream.store.assigned import Assigned
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.kernels.log.logwriter import LogWriter

__all__ = ["StoreFacts", "StoreUnits", "StoreWrites"]


class StoreWrites(Protocol):
    """Messages that come and go."""

    @property
    def assigned(self) -> Assigned:
        """The same stream as writers see it. Not to be kept: a repair puts another in its place."""
        ...

    @property
    def fault(self) -> StorageFault | None:
        """Why the store refuses changes, None when it takes them."""
        ...

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """Size of a message by the formula behind `size_bytes`, from the lengths of its parts: for limit checks."""
        ...

    def count_as_memory(self) -> None:
        """Count sizes as nats-server's memory store does: a stream with copies that asks for memory is kept in files.

        O(messages) the first time; nothing that was removed may wait for its commit.
        """
        ...

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """Store one message. `seq` must be above `last_seq`; sequences left out become gaps.

        Args:
            seq: sequence the stream assigned.
            ts_ns: time the stream assigned, not below that of the message before.
            subject: literal subject, 1 to 65535 bytes.
            headers: raw header block from `NATS/1.0` to the empty line, or `b""`.
            payload: the body.
            expires_ns: deadline of the message's own TTL, 0 for none. Kept and given back; not acted on.

        Raises:
            StoreUnavailable: the disk is full or failing.
            ValueError: a part is too long, or `seq` does not grow.
        """
        ...

    def direct_writer(self) -> LogWriter | None:
        """Where messages may be appended in place of `append`, until the next commit begins, or upkeep does.

        None: nowhere, because messages are refused. What the writer does not take has to go through `append`.
        """
        ...

    def skip_to(self, last_seq: int) -> None:
        """Raise `last_seq` without storing anything: the sequences between become gaps."""
        ...

    def delete(self, seq: int) -> bool:
        """Remove one message; its bytes stay on disk until compaction. False: there was none, or not any more."""
        ...

    def erase(self, seq: int) -> bool:
        """Remove one message and overwrite its bytes where they lie, in the next commit. False: there was none.

        The commit removes it, the one behind overwrites it: until then readers may look at it. It is complete when
        `erasing` is 0: a compaction may have made a copy, overwritten one commit later, or may not have removed
        the old one yet, which upkeep does.
        """
        ...

    @property
    def erasing(self) -> int:
        """Erasures whose bytes are not all overwritten yet."""
        ...

    @property
    def erased(self) -> tuple[int, int]:
        """How many erasures were committed since the store was opened, and how many of these are complete.

        They are completed in order. While a copy is left that was made meanwhile, none counts as complete.
        """
        ...

    def trim_to(self, first_seq: int) -> int:
        """Remove everything below `first_seq`; how many messages went. One record, whatever the number.

        `first_seq` may be above `last_seq + 1`: then `last_seq` becomes `first_seq - 1`.
        """
        ...

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """Remove what matches; how many messages went.

        Args:
            subject: only messages this filter matches; `b""` for all.
            up_to_seq: only messages below this sequence; 0 for no bound.
            keep: leave this many of the newest that match.
        """
        ...

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """A piece of a purge: remove up to `limit` of the oldest that match, in sequences up to `up_to_seq`.

        Looks at a bounded number of sequences, from `from_seq` on. Returns how many messages went and where the next
        piece begins; 0 when all that was meant is gone.
        """
        ...

    def begin_afresh(self) -> None:
        """If nothing is left, go on in another place, so that the places of what was removed can be given back.

        Where they are encrypted, what was in them cannot be read any more then, whoever has the main key.
        """
        ...


class StoreUnits(Protocol):
    """Messages that come all together or not at all."""

    @property
    def atomic_open(self) -> bool:
        """Whether a unit is open. A fault closes it: nothing of it remains."""
        ...

    def begin_atomic(self) -> None:
        """Open a unit: what `append_atomic` adds survives a crash as a whole or not at all. Not nested.

        A unit may be as large as the disk: between its appends the caller commits as often as it likes, to give back
        memory, and nothing of the unit counts before `end_atomic` and the commit after it. Until `end_atomic` no read
        sees it, `last_seq` does not move, and `append` and `skip_to` are refused. Removals, configurations and notes
        are taken and join the log behind the unit: a commit while it is open does not cover them.
        """
        ...

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """Add a message to the open unit, as `append` does without one."""
        ...

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """Close the unit: from here on its messages are like any others that wait for their commit.

        Args:
            notes: facts that become true with the unit, see `put_note`.
        """
        ...

    def abort_atomic(self) -> None:
        """Give the open unit up, if there is one, as if it had never begun; its sequences are free again."""
        ...


class StoreFacts(Protocol):
    """What is kept beside the messages."""

    @property
    def config(self) -> bytes:
        """The stream's configuration as last set; the store does not look inside."""
        ...

    def set_config(self, config: bytes) -> None:
        """Replace the configuration."""
        ...

    def compress(self, codec: Codec) -> None:
        """How what is stored is to be compressed, what is there as well: upkeep sees to it."""
        ...

    def notes(self) -> dict[bytes, bytes]:
        """The facts kept beside the messages, as assigned."""
        ...

    def put_note(self, key: bytes, value: bytes) -> None:
        """Keep a small fact until it is replaced; an empty value removes it. Removing messages does not touch it.

        Raises:
            ValueError: there are too many, or it is too long.
        """
        ...
