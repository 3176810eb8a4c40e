"""Chunks of encrypted streams: they end where a frame does, so that no frame is opened for two of them.

A frame is opened as a whole, whatever is wanted of it, and a chunk is as many messages as there is room for. So the
last frame of a chunk mostly goes on behind it, and would be opened again for the next one, to which it is left instead.

What this is not: how frames are found and opened (`jetstream.store.sealed`).
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from slipstream.jetstream.bulk.limits import BULK_LEFT_BYTES_MAX
from slipstream.jetstream.store.bulk import ReadJob
from slipstream.jetstream.store.contract import BulkAccess
from slipstream.kernels.index.subjectindex import Selection

__all__ = ["end_with_a_frame", "is_opened"]

_STRETCH = struct.Struct("=QQ")


def is_opened(job: ReadJob) -> bool:
    """Whether what a chunk is made of has to be opened."""
    return job.disk is not None and not job.disk.seal.direct


def end_with_a_frame(job: ReadJob, selection: Selection, access: BulkAccess) -> None:
    """Leave what the chunk has of its last frame to the next one, if the frame goes on and it is not the only one."""
    if sum(len(one.places) for one in job.stretches) <= _STRETCH.size:
        return
    last = job.stretches[-1]
    offset, length = _STRETCH.unpack_from(last.places, len(last.places) - _STRETCH.size)
    behind = access.index.place(job.next_seq)
    if length > BULK_LEFT_BYTES_MAX or behind is None or behind[2] != offset + length:
        return
    cut = bisect_left(range(last.stop), offset, lo=last.first, key=lambda at: selection.place(at)[2])
    if cut == last.stop or selection.place(cut)[2] != offset:
        return
    if len(last.places) == _STRETCH.size:
        job.stretches.pop()
    else:
        last.places, last.stop = last.places[: -_STRETCH.size], cut
        last.length -= length
    job.next_seq, job.picked = selection.place(cut)[0], cut
