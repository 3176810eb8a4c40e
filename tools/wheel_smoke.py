"""Uses an installed wheel: publish, consume, read; against a server by its URL, or one of its own.

Part of `tools/try_wheel.py`, and what cibuildwheel runs with each wheel it has built.
"""

from __future__ import annotations

import sys

import slipstream
from slipstream.testing import ServerThread


def use(url: str) -> None:
    """What a script does."""
    with slipstream.connect(url) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("ORDERS", subjects=["orders.>"])
        consumer = stream.create_consumer("billing")
        assert jetstream.publish("orders.us", b"42 apples").seq == 1
        (message,) = consumer.fetch(1)
        assert message.data == b"42 apples"
        message.ack(wait=True)
        assert [one.seq for one in stream.read()] == [1]


if len(sys.argv) > 1:
    use(sys.argv[1])
else:
    with ServerThread(jetstream=True) as server:
        use(server.url)
