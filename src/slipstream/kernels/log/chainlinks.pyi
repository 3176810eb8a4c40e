"""Types of the kernel of the hash chain: see chainlinks.pyx."""

LEAF_PERSON: bytes
LINK_PERSON: bytes
NO_LINK: bytes

class ChainLinks:
    """The end of a chain, and what is not linked yet."""

    head: bytes
    count: int
    unlinked: int
    unlinked_seqs: tuple[int, int]
    gone: list[tuple[int, int]]
    broken: tuple[int, int, str] | None
    found: bytes | None
    start: tuple[int, bytes] | None

    def __init__(self, head: bytes, count: int, uid: bytes, blake2b: int = 0, many: bool = True) -> None: ...
    def seal(self, data: bytes, start: int, salt: int) -> None: ...
    def go_back(self) -> None: ...
    def resume(self, data: bytes, start: int, end: int, salt: int, erased: dict[int, bytes]) -> bool: ...
    def absorb(self, data: bytes, start: int, end: int, salt: int, erased: dict[int, bytes]) -> None: ...
    def check(
        self, data: bytes, start: int, end: int, salt: int, erased: dict[int, bytes], wanted: int = 0
    ) -> bool: ...

def leaf_of(data: bytes, at: int, salt: int) -> bytes | None: ...
def records_of(data: bytes, start: int, end: int, salt: int) -> list[tuple[int, int, int]] | None: ...
