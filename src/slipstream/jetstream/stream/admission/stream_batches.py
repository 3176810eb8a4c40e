"""Publish batches of one stream: which messages belong to one, and to which kind.

`takes` recognises messages of atomic and fast batches before anything else looks at them; the two kinds decide
(`batches`, `fast_batches`).
"""

from __future__ import annotations

from slipstream.errors import ApiError
from slipstream.jetstream import headers
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Ports, ServerFacts
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.admission.batches import AtomicBatches
from slipstream.jetstream.stream.admission.fast_batches import FAST_SUFFIX, FastBatches
from slipstream.jetstream.stream.commit.answers import Answers

__all__ = ["StreamBatches"]


class StreamBatches:
    """The open batches of a stream."""

    def __init__(self, appends: Appends, answers: Answers, ports: Ports, facts: ServerFacts) -> None:
        """Store by `appends`; limits are shared by all streams of the server."""
        self.atomic = AtomicBatches(appends, answers, ports, Advisories(ports, facts), facts.batches)
        self.fast = FastBatches(appends, answers, ports, facts.batches)

    def takes(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> bool:
        """Whether the message belongs to a batch; then it was taken care of."""
        if reply is not None and reply.endswith(FAST_SUFFIX) and len(reply) > len(FAST_SUFFIX):
            self.fast.on_message(subject, reply, header, payload)
            return True
        batch_id = _batch_id(header)
        if batch_id:
            self.atomic.on_message(batch_id, subject, reply, header, payload)
        return bool(batch_id)

    def refusal(self, subject: bytes, header: bytes, payload: bytes) -> ApiError | None:
        """Why a message would not be taken into the atomic batch that it belongs to, if it does to one."""
        batch_id = _batch_id(header)
        return self.atomic.refusal(batch_id, subject, header, payload)[0] if batch_id else None

    def configure(self, config: StreamConfig) -> None:
        """Open batches of a kind that is no longer allowed are forgotten."""
        if not config.allow_atomic or config.sealed:
            self.atomic.drop_all()
        if not config.allow_batched or config.sealed:
            self.fast.drop_all()

    def stop(self) -> None:
        """Forget all batches."""
        self.atomic.drop_all()
        self.fast.drop_all()


def _batch_id(header: bytes) -> bytes | None:
    if not header or header.find(b"\r\nNats-Batch-Id:") < 0:
        return None
    return headers.find(header, b"Nats-Batch-Id")
