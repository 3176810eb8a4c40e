from collections.abc import Callable
from typing import Any

from slipstream.kernels.wire.outbox import Outbox

ROUTE: int
HUB_LEAF: int
SPOKE_LEAF: int
GATEWAY: int

class Link:
    kind: int
    outbox: Outbox
    headers: bool
    cluster: bytes | None
    distance: int
    readdress: Callable[[Subscription, bytes], bytes] | None
    name: bytes | None
    def __init__(self, kind: int, outbox: Outbox, headers: bool = True, cluster: bytes | None = None) -> None: ...

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
    link: Link | None
    weight: int
    origin: bytes | None
    def __init__(
        self,
        subject: bytes,
        queue: bytes | None,
        sid: bytes,
        outbox: Outbox | None = None,
        client: object = None,
        callback: object = None,
        link: Link | None = None,
        weight: int = 1,
        origin: bytes | None = None,
    ) -> None: ...

class Elsewhere:
    queue: bytes
    local: int
    members: tuple[Subscription, ...]
    spare: tuple[Subscription, ...]
    spare_names: tuple[bytes | None, ...] | None
    beyond: tuple[Subscription, ...]
    weight: int
    def __init__(
        self,
        queue: bytes,
        local: int,
        members: tuple[Subscription, ...],
        spare: tuple[Subscription, ...],
        spare_names: tuple[bytes | None, ...] | None = None,
        beyond: tuple[Subscription, ...] = (),
    ) -> None: ...

class Route:
    subscriptions: tuple[Subscription, ...]
    queues: tuple[tuple[Subscription, ...], ...]
    renamed: tuple[bytes | None, ...] | None
    queue_renamed: tuple[tuple[bytes | None, ...], ...] | None
    subject: bytes | None
    dynamic: bool
    links: tuple[Subscription, ...] | None
    link_names: tuple[bytes | None, ...] | None
    elsewhere: tuple[Elsewhere, ...] | None
    via: bytes | None
    empty: bool
    def __init__(
        self,
        subscriptions: tuple[Subscription, ...] = (),
        queues: tuple[tuple[Subscription, ...], ...] = (),
        renamed: tuple[bytes | None, ...] | None = None,
        queue_renamed: tuple[tuple[bytes | None, ...], ...] | None = None,
        subject: bytes | None = None,
        dynamic: bool = False,
        links: tuple[Subscription, ...] | None = None,
        link_names: tuple[bytes | None, ...] | None = None,
        elsewhere: tuple[Elsewhere, ...] | None = None,
        via: bytes | None = None,
    ) -> None: ...
    def unnamed(self) -> Route: ...
    def unnamed_by(self, target: bytes) -> Route: ...
