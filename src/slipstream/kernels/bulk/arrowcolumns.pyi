"""Types of the columns of Arrow that grow: see arrowcolumns.pyx."""

class Block:
    """Memory of one Arrow buffer."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
