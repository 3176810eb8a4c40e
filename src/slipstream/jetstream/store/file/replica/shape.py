"""The log of a stream that was alone becomes one of a replica: in its own directory, which stays a whole stream's.

    close the segment, begin another one ──► APPLIED: all up to here is committed, and these are the consumers' states

What was written alone has no term: such frames are behind `first_index`, and other replicas get them as whole segments.
The journal of consumers is not read any more. Opened as before, the directory is the stream that it was: nothing in it
says that it is a replica's but the file beside it (`replication.replica_files`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.options import FileStoreOptions
from slipstream.jetstream.store.file.replica.applied_file import Applied, write_applied
from slipstream.jetstream.store.file.store import FileStore

__all__ = ["FIRST_TERM", "shape_replica"]

FIRST_TERM: Final = 1
"""Of all that was written before there was a group."""


def shape_replica(disk: Disk, directory: str, options: FileStoreOptions) -> int:
    """Make it so, durably; nothing else works on the directory. The number of its last frame. Blocks.

    Done again after it was cut short, it does the same.

    Raises:
        StorageFault: the log cannot be read, has a hash chain, or the disk failed.
    """
    store = FileStore.open(disk, directory, replace(options, replicated=False))
    if store.chain_head is not None:
        raise StorageFault("a replicated log cannot have a hash chain yet", path=directory)
    try:
        store.log.roll()
        store.commit_all()
        frame, first_seq, states = store.log.writer.frame_no, store.log.first_kept, store.journal.entries()
        applied = Applied(store.log.uid, frame, FIRST_TERM, first_seq, states)
        write_applied(disk, directory, applied, options.random64())
    except OSError as error:
        raise StorageFault(str(error), path=directory) from error
    finally:
        store.let_go()
    return frame
