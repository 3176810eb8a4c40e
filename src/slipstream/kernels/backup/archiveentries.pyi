"""Types of the kernel for entries of backups: see archiveentries.pyx."""

from slipstream.kernels.fastpath.handout import Batch

def encode(batch: Batch) -> bytes: ...
