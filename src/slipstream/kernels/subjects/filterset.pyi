"""Types of the filter set kernel: see filterset.pyx."""

from collections.abc import Iterable

class FilterSet:
    """A set of filters, asked at once."""

    literals: tuple[bytes, ...]
    patterns: int

    def __init__(self, filters: Iterable[bytes], seed: int) -> None: ...
    def matches(self, subject: bytes) -> bool: ...
