"""Publishes at a steady rate; every payload begins with the time it was sent. Prints how many there were."""

from __future__ import annotations

import struct
import sys
import time

from slipstream.client.wire import WireClient
from slipstream.kernels.client.pubframes import encode_pubs

__all__ = ["main"]

_STEPS_A_SECOND = 200


def main(url: str, subject: str, rate: int, seconds: float) -> int:
    """Publish; the number of messages."""
    count = rate // _STEPS_A_SECOND
    sent = 0
    with WireClient(url) as client:
        began = time.monotonic()
        for step in range(int(seconds * _STEPS_A_SECOND)):
            wait = began + step / _STEPS_A_SECOND - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            payload = struct.pack("<q", time.time_ns()).ljust(128, b".")
            client.send(encode_pubs(subject.encode(), payload, count))
            sent += count
        client.flush(60 * 10**9)
    return sent


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
