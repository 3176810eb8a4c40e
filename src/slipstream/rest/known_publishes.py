"""Publishes that differ from an earlier one in their payload only (ADR 121).

The head of a request says all about its message but the payload: subject, headers, length, and who publishes. So once
a publish was taken, the exact bytes of its head stand for the exact bytes that NATS's protocol has before a payload.
"""

from __future__ import annotations

from typing import Final

from slipstream.client.frames import message_frame
from slipstream.rest.limits import KNOWN_HEAD_BYTES_MAX, KNOWN_LINES_MAX
from slipstream.rest.steps import PublishStep

__all__ = ["KnownPublishes"]

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"


class KnownPublishes:
    """Those of one connection, as long as it is the same client of the server."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, int]] = {}  # by a head: what comes before the payload, and its length

    def find(self, data: bytes) -> bytes | None:
        """What `data` publishes, in NATS's protocol; None unless it is one whole request with a known head."""
        end = data.find(_HEAD_END) + len(_HEAD_END)
        known = self._known.get(data[:end])
        if known is None or len(data) - end != known[1]:
            return None
        return known[0] + data[end:] + _LINE_END

    def learn(self, request: bytes, step: PublishStep) -> None:
        """A request, all of it, was taken as this publish, as any other with its head will be."""
        size = len(step.payload)
        head = request[: len(request) - size]
        if len(head) > KNOWN_HEAD_BYTES_MAX:
            return
        if len(self._known) >= KNOWN_LINES_MAX:
            self._known.clear()
        frame = message_frame(step.subject, step.payload, header=step.header)
        self._known[head] = frame[: len(frame) - size - len(_LINE_END)], size

    def forget(self) -> None:
        """The connection is another client from now on."""
        self._known.clear()
