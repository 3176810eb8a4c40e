from collections.abc import Callable
from typing import Any

from slipstream.kernels.wire.outbox import Outbox

class Presence:
    left: bool
    def __init__(self) -> None: ...

class Subscription:
    subject: bytes
    queue: bytes | None
    sid: bytes
    outbox: Outbox | None
    client: Any
    callback: Any
    delivered: int
    max_msgs: int
    headers: bool
    echo: bool
    watched: bool
    checked: bool
    closed: bool
    cost: int
    presence: Presence | None
    def __init__(
        self,
        subject: bytes,
        queue: bytes | None,
        sid: bytes,
        outbox: Outbox | None = None,
        client: object = None,
        callback: object = None,
    ) -> None: ...

class Route:
    subscriptions: tuple[Subscription, ...]
    queues: tuple[tuple[Subscription, ...], ...]
    renamed: tuple[bytes | None, ...] | None
    queue_renamed: tuple[tuple[bytes | None, ...], ...] | None
    subject: bytes | None
    dynamic: bool
    empty: bool
    def __init__(
        self,
        subscriptions: tuple[Subscription, ...] = (),
        queues: tuple[tuple[Subscription, ...], ...] = (),
        renamed: tuple[bytes | None, ...] | None = None,
        queue_renamed: tuple[tuple[bytes | None, ...], ...] | None = None,
        subject: bytes | None = None,
        dynamic: bool = False,
    ) -> None: ...
    def unnamed(self) -> Route: ...

class Interest:
    planner: Callable[[bytes], Route] | None
    count: int
    inserts: int
    removes: int
    matches: int
    misses: int
    cached_routes: int
    def __init__(self, routes_max: int = 32768) -> None: ...
    def insert(self, sub: Subscription) -> None: ...
    def remove(self, sub: Subscription) -> bool: ...
    def leave(self, presence: Presence, count: int) -> None: ...
    def take_out(self, subscriptions: dict[bytes, Subscription], most: int) -> tuple[int, int]: ...
    def match(self, subject: bytes) -> list[Subscription]: ...
    def find_route(self, subject: bytes) -> Route: ...
    def find_answer_route(self, subject: bytes) -> Route: ...
    def reaches(self, subject: bytes) -> bool: ...
    def forget_all(self) -> None: ...
    def routes(self) -> list[Route]: ...
    def subscriptions(self) -> list[Subscription]: ...
