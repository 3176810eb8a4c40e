"""Types of the kernel behind publishes: see publishing.pyx."""

from slipstream.kernels.wire.interest import Interest

class Publishing:
    """Publishes of one client."""

    fast: bool
    no_responders: bool
    restricted: bool
    traceparents: bool
    verdicts: dict[bytes, bool] | None
    interest: Interest
    msgs: int
    msg_bytes: int
    dead: bool
    def rebind(self, interest: Interest) -> None: ...
