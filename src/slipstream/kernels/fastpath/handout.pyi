"""Types of the hand-out kernel: see handout.pyx."""

from collections.abc import Sequence

from slipstream.kernels.index.subjectindex import MessageIndex, Selection
from slipstream.kernels.log.record import StoredMessage
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest

class Batch:
    """Messages found in a store, in order."""

    chosen: Selection
    record_bytes: int
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def choose(
        self,
        index: MessageIndex,
        filters: Sequence[bytes],
        from_seq: int,
        up_to: int,
        max_msgs: int,
        max_bytes: int,
        segment: int,
        base: int,
        data: bytes,
        salt: int,
    ) -> bool: ...
    def take(self, data: bytes, base: int, salt: int) -> int: ...
    def seq(self, i: int) -> int: ...
    def seqs(self, start: int, stop: int) -> list[int]: ...
    def head(self, i: int) -> tuple[bytes, bytes]: ...
    def message(self, i: int) -> StoredMessage: ...

def select_seqs(index: MessageIndex, seqs: list[int], max_bytes: int, out: Selection) -> None: ...
def subjects_between(index: MessageIndex, first: int, last: int) -> list[bytes]: ...
def subjects_from(
    index: MessageIndex, filters: Sequence[bytes], from_seq: int, up_to: int, max_msgs: int
) -> tuple[list[int], list[bytes]]: ...
def longest_record(index: MessageIndex, from_seq: int, up_to: int, limit: int) -> tuple[int, int]: ...
def is_congested(interest: Interest, target: bytes, most: int) -> bool: ...
def hand_out(
    delivery: Delivery,
    interest: Interest,
    targets: bytes | list[bytes],
    batch: Batch,
    start: int,
    count: int,
    prefix: bytes,
    dseq: int,
    pending: int,
    max_bytes: int,
    headers_only: bool = False,
) -> tuple[int, int, int]: ...
