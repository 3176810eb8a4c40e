from slipstream.kernels.wire.receivers import Link

class InterestLines:
    """Used by kernels alone."""

    def __init__(self, sink: object, link: Link) -> None: ...
