from slipstream.kernels.wire.msgwriter import MessageWriter

class Forwarding:
    """Used by kernels alone."""

    def __init__(self, writer: MessageWriter) -> None: ...
