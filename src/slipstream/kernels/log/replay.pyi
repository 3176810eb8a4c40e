"""Types of the kernel that replays frames: see replay.pyx."""

from slipstream.kernels.index.subjectindex import MessageIndex

def frame_end(data: bytes, pos: int, salt: int, last_seq: int) -> tuple[int, int] | None: ...
def replay_frame(
    data: bytes, pos: int, salt: int, index: MessageIndex, segment: int, offset: int
) -> tuple[list[tuple[int, int, int, bytes, bytes]], list[tuple[int, int]]] | None: ...
