from collections.abc import Callable
from typing import Any

from slipstream.kernels.wire.interest import Interest, Route

class Listener:
    def __call__(
        self, publisher: object, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> None: ...

class Delivery:
    stalled: bool
    failed: Callable[[Exception], None] | None
    def __init__(self, seed: int) -> None: ...
    def deliver(
        self, route: Route, publisher: object, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> int: ...
    def publish_answers(self, interest: Interest, answers: list[Any], start: int, prefix: bytes) -> int: ...
    def take_stalled(self) -> bool: ...
