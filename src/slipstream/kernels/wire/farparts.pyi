from collections.abc import Mapping

from slipstream.kernels.wire.receivers import Elsewhere, Subscription

def distance_of(sub: Subscription) -> int: ...
def far_parts(
    far: list[tuple[Subscription, bytes | None]], groups: Mapping[bytes, object]
) -> tuple[tuple[Subscription, ...] | None, tuple[bytes | None, ...] | None, tuple[Elsewhere, ...] | None]: ...
