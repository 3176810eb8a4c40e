"""The fast path into a stream in plain Python: what is appended, what goes to `slow`, what waits for the commit."""

from __future__ import annotations

from models.fast_batch import SUFFIX, Batch, parse_reply


class Intake:
    def __init__(self, bytes_max: int, msgs_max: int, payload_bytes_max: int) -> None:
        self.bytes_max, self.msgs_max, self.payload_bytes_max = bytes_max, msgs_max, payload_bytes_max
        self.full_msgs = self.full_bytes = 0  # what makes the stream full; 0: nothing
        self.is_open = False
        self.standing_by = False
        self.resumes = True  # what the stream says when a message ends a stand-by
        self.appended: list[tuple[int, int, bytes, bytes]] = []  # sequence, time, subject, payload
        self.slow: list[tuple[bytes, bytes | None, bytes | None, bytes]] = []
        self.acks: list[tuple[bytes, int]] = []
        self.buffered_bytes = 0
        self.last_ts_ns = 0
        self.batches: dict[bytes, Batch] = {}

    def take(self, now_ns: int, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> None:
        in_batch = reply is not None and len(reply) > len(SUFFIX) and reply.endswith(SUFFIX)
        batch = self._next_in_batch(reply) if in_batch and reply is not None else None
        if (
            not self.is_open
            or header
            or (in_batch and batch is None)
            or len(payload) > self.payload_bytes_max
            or self.buffered_bytes > self.bytes_max
            or len(self.acks) > self.msgs_max
        ):
            self.slow.append((subject, reply or None, header or None, payload))
            return
        if self.standing_by:
            if not self.resumes:
                self.is_open = False
                self.slow.append((subject, reply or None, header or None, payload))
                return
            self.standing_by = False
        if self._is_full(subject, payload):
            self.slow.append((subject, reply or None, header or None, payload))
            return
        self.last_ts_ns = max(now_ns, self.last_ts_ns)
        self.appended.append((len(self.appended) + 1, self.last_ts_ns, subject, payload))
        self.buffered_bytes += len(payload)
        if batch is not None:
            batch.seq = batch.stored = batch.seq + 1
            batch.stream_seq = len(self.appended)
            batch.last_active_ns = now_ns
        elif reply:
            self.acks.append((reply, len(self.appended)))

    def _is_full(self, subject: bytes, payload: bytes) -> bool:
        sizes = [30 + len(stored) + len(body) for _, _, stored, body in self.appended]
        if 0 < self.full_msgs <= len(sizes):
            return True
        return 0 < self.full_bytes < sum(sizes) + 30 + len(subject) + len(payload)

    def _next_in_batch(self, reply: bytes) -> Batch | None:
        """The batch to which a message is added without a word."""
        found = parse_reply(reply)
        batch = self.batches.get(found[0]) if found is not None else None
        return batch if found is not None and batch is not None and batch.is_next(found) else None
