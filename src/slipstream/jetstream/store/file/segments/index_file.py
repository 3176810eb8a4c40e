"""What the index file beside a segment says."""

from __future__ import annotations

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.limits import STORE_SCAN_STEP_RECORDS
from slipstream.kernels.log.segindex import decode_index
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["read_index_file"]


def read_index_file(disk: Disk, path: str, *, salt: int, first_seq: int) -> SegmentScan | None:
    """All that it says of the segment with this salt; None if it cannot be read, or speaks of another."""
    try:
        found = decode_index(disk.read(path, 0, disk.size(path)), salt)
    except OSError:
        return None
    if found is None or found[0].first_seq != first_seq:
        return None
    scan, controls = found
    decoded = SegmentScan(controls, 0, 0, 0, 0)
    while decoded.step(STORE_SCAN_STEP_RECORDS):
        pass
    scan.controls.extend(decoded.controls)
    return scan
