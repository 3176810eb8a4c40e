"""Types of the segment scan kernel: see segscan.pyx."""

class Region:
    """A stretch of bytes that could not be read."""

    start: int
    end: int
    frame_no: int
    messages: int
    controls: int
    unit: tuple[int, int, int] | None
    frame: tuple[int, int, int] | None

    def __init__(
        self,
        start: int,
        end: int,
        frame_no: int,
        messages: int,
        controls: int,
        unit: tuple[int, int, int] | None,
        frame: tuple[int, int, int] | None = None,
    ) -> None: ...

class SegmentScan:
    """Content of one segment."""

    base_seq: int
    first_seq: int
    last_seq: int
    first_ts: int
    last_ts: int
    first_frame_no: int
    last_frame_no: int
    said_frame_no: int
    vouched_end: int
    synced_upto: int
    epoch: int
    good_end: int
    unit_ended: bool
    controls: list[tuple[int, int, int, bytes, bytes]]
    expiries: list[tuple[int, int]]
    holes: list[tuple[int, int]]
    regions: list[Region]

    def __init__(self, data: bytes, start: int, salt: int, first_seq: int, last_frame_no: int) -> None: ...
    def __len__(self) -> int: ...
    def step(self, records: int) -> bool: ...
    def place(self, seq: int) -> int | None: ...
    def seqs_from(self, messages: int) -> tuple[int, int] | None: ...
    def cut(self, region: Region) -> int: ...
    def cut_frame(self, region: Region) -> int: ...
    @property
    def unit_continues(self) -> bool: ...
    def open_unit(self) -> Region | None: ...
