from typing import Protocol

from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Link

class ArrivalSink(Protocol):
    """Who decides about messages of a link; where they may be `addressed`, it has `on_addressed` as well."""

    def on_unknown_account(self, account: bytes, /) -> bool: ...
    def may_publish(self, account: bytes, subject: bytes, /) -> bool | None: ...
    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes | None,
        queues: tuple[bytes, ...] | None,
        origin: bytes | None,
        header_size: int,
        body: bytes,
        /,
    ) -> None: ...

class Arrivals:
    fast: bool
    restricted: bool
    addressed: bool
    traceparents: bool
    verdicts: dict[bytes, bool] | None
    def __init__(self, sink: ArrivalSink, link: Link, delivery: Delivery) -> None: ...
    def admit(self, account: bytes, interest: Interest, publisher: object) -> None: ...
    def expel(self, account: bytes) -> None: ...
    def stop(self) -> None: ...
