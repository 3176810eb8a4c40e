class ReadBuffer:
    paused: bool
    waiting_max: int
    held: int
