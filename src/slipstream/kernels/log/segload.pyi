"""Types of the kernel that puts a segment into a stream's index: see segload.pyx."""

from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.segscan import SegmentScan

def load_into(scan: SegmentScan, index: MessageIndex, seg: int) -> None: ...
def replace_in(scan: SegmentScan, index: MessageIndex, old: set[int], seg: int) -> None: ...
