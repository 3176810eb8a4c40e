"""A stream that was copied into a staging directory goes on to a running server, and is compared with what is there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

from slipstream.jetstream.config.stored import from_stored
from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.stream.copies.source_positions import messages_go_by_themselves
from slipstream.migrate.blocks import Record
from slipstream.migrate.copying import stored_messages
from slipstream.migrate.errors import MigrationError
from slipstream.migrate.saved import write_archive
from slipstream.migrate.source import SourceStream

__all__ = ["StagedStream"]


class StagedStream:
    """A stream in a staging directory, complete and compared with its source."""

    def __init__(self, directory: str) -> None:
        """Open it; `close` when done.

        Raises:
            StorageFault: it cannot be opened.
        """
        options = FileStoreOptions(
            random64=lambda: secrets.randbits(64), noise=secrets.token_bytes, now_ns=time.time_ns
        )
        self._store = FileStore.open(RealDisk(), directory, options)
        self.config: StreamConfig = from_stored(self._store.config)[0]

    def wire_config(self) -> dict[str, Any]:
        """Its configuration as a request has it."""
        config = STREAM_CONFIG.wire(self.config)
        assert isinstance(config, dict)
        return config

    def save(self, path: str) -> dict[str, Any]:
        """Write it as a backup; its state."""
        return write_archive(self._store, path)

    def close(self) -> None:
        """Release the files."""
        self._store.close()

    def compare(self, there: SourceStream) -> int:
        """Compare it with what a server has after the restore; how many messages went there meanwhile by a limit.

        Raises:
            MigrationError: a message differs, or is missing without a reason.
        """
        gone = 0
        others = _one_by_one(there.messages())
        other = next(others, None)
        for ours in _one_by_one((batch, 0) for batch in stored_messages(self._store)):
            if other is not None and other[0] == ours[0]:
                if other != ours:
                    raise MigrationError(f"message {ours[0]} is another one in the target")
                other = next(others, None)
            elif other is not None and other[0] < ours[0]:
                raise MigrationError(f"the target has a message {other[0]} that the source has not")
            elif messages_go_by_themselves(self.config):
                gone += 1
            else:
                raise MigrationError(f"message {ours[0]} is not in the target")
        if other is not None and other[0] <= self._store.last_seq:
            raise MigrationError(f"the target has a message {other[0]} that the source has not")
        return gone


def _one_by_one(batches: Iterator[tuple[list[Record], int]]) -> Iterator[Record]:
    for records, _ in batches:
        yield from records
