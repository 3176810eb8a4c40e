"""Types of the kernel that chooses from the index: see bulkchoose.pyx."""

from collections.abc import Sequence

from slipstream.kernels.index.subjectindex import MessageIndex, Selection

def pick(
    index: MessageIndex,
    filters: Sequence[bytes],
    from_seq: int,
    up_to: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    out: Selection,
) -> int: ...
def name_places(
    index: MessageIndex,
    filters: Sequence[bytes],
    from_seq: int,
    up_to: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    place_max: int,
    places_max: int,
    places: list[tuple[int, int, int, int, int]],
) -> tuple[int, int]: ...
def measure(
    index: MessageIndex,
    filters: Sequence[bytes],
    from_seq: int,
    up_to: int,
    every: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    marks: list[tuple[int, int, int]],
    marks_max: int,
) -> tuple[int, bool]: ...
