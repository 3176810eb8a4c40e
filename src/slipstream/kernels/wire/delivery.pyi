from collections.abc import Callable

from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Link, Route, Subscription

class Delivery:
    def __init__(self, seed: int, failed: Callable[[Exception], None] | None = None) -> None: ...
    name: bytes | None
    @property
    def stalled(self) -> bool: ...
    @property
    def failed(self) -> Callable[[Exception], None] | None: ...
    def deliver(
        self, route: Route, publisher: object, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> int: ...
    def deliver_arrived(
        self,
        route: Route,
        link: Link,
        publisher: object,
        queues: tuple[bytes, ...] | None,
        origin: bytes | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> int: ...
    def deliver_traced(
        self,
        route: Route,
        link: Link | None,
        publisher: object,
        queues: tuple[bytes, ...] | None,
        origin: bytes | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
        hop: Callable[[Subscription], tuple[int, bytes] | None],
    ) -> int: ...
    def publish_acks(
        self, interest: Interest, acks: list[tuple[bytes, int]], start: int, end: int, prefix: bytes
    ) -> None: ...
    def publish_answer(self, interest: Interest, subject: bytes, payload: bytes) -> None: ...
    def take_stalled(self) -> bool: ...
