"""A stream as a dictionary: what a publish, a removal and the passing of time do to it. The specification, not fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OVERHEAD_FILE = 30
OVERHEAD_HEADER = 4


@dataclass(frozen=True)
class StoredModel:
    """One message."""

    subject: str
    header: bytes
    payload: bytes
    ts_ns: int
    message_id: str

    @property
    def size_bytes(self) -> int:
        """Size by nats-server's formula for files."""
        header = OVERHEAD_HEADER + len(self.header) if self.header else 0
        return OVERHEAD_FILE + len(self.subject) + len(self.payload) + header


@dataclass
class StreamModel:
    """Messages by sequence, remembered ids, and one consumer that takes everything in order, if there is one."""

    config: dict[str, Any]
    consumer: bool = False
    last_seq: int = 0
    messages: dict[int, StoredModel] = field(default_factory=dict)
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)  # id -> sequence, time
    written: set[int] = field(default_factory=set)  # sequences in the log, removed messages too
    delivered: int = 0  # highest sequence the consumer got

    # --- looking ---

    @property
    def first_seq(self) -> int:
        """Of the oldest message, or of the next one."""
        return min(self.messages, default=self.last_seq + 1)

    @property
    def size_bytes(self) -> int:
        """Of all messages."""
        return sum(message.size_bytes for message in self.messages.values())

    def of(self, subject: str) -> list[int]:
        """Sequences under a literal subject; all for the empty one."""
        return [seq for seq, message in sorted(self.messages.items()) if subject in ("", message.subject)]

    # --- changing ---

    def publish(
        self,
        message: StoredModel,
        *,
        expected_last: int | None = None,
        expected_subject_last: int | None = None,
        rollup: str = "",
    ) -> tuple[str, int]:
        """What is answered: ("stored" or "duplicate", sequence), or (why not, error code)."""
        subject, own = message.subject, self.of(message.subject)
        if expected_subject_last is not None and expected_subject_last != max(own, default=0):
            return f"wrong last sequence: {max(own, default=0)}", 10071
        if expected_last is not None and expected_last != self.last_seq:
            return f"wrong last sequence: {self.last_seq}", 10071
        known = self.ids.get(message.message_id) if message.message_id else None
        if known is not None:
            return "duplicate", known[0]
        if self.config["retention"] == "interest" and not self.consumer:
            self._assign(message)
            if rollup:
                self._remove(self.of(subject if rollup == "sub" else ""))
            return "stored", self.last_seq
        refusal = self._discarded(message, own, rollup=bool(rollup))
        if refusal is not None:
            return refusal, 10077
        self._assign(message)
        self.written.add(self.last_seq)
        self.messages[self.last_seq] = message
        self.enforce()
        if rollup:
            self._remove(self.of(subject if rollup == "sub" else "")[:-1])
        return "stored", self.last_seq

    def _assign(self, message: StoredModel) -> None:
        self.last_seq += 1
        if message.message_id:
            self.ids[message.message_id] = (self.last_seq, message.ts_ns)

    def _discarded(self, message: StoredModel, own: list[int], *, rollup: bool) -> str | None:
        config = self.config
        if config["discard"] != "new":
            return None
        full = 0 < config["max_msgs_per_subject"] <= len(own)
        if full and config["discard_new_per_subject"] and not rollup:
            return "maximum messages per subject exceeded"
        if 0 < config["max_msgs"] <= len(self.messages) and not full:
            return "maximum messages exceeded"
        grows = 0 < config["max_bytes"] < self.size_bytes + message.size_bytes
        if grows and not (full and self.messages[own[0]].size_bytes >= message.size_bytes):
            return "maximum bytes exceeded"
        return None

    def enforce(self) -> None:
        """Drop the oldest until the limits hold: those per subject always, those of the stream if it discards old."""
        config = self.config
        if config["max_msgs_per_subject"] > 0:
            for subject in {message.subject for message in self.messages.values()}:
                self._remove(self.of(subject)[: -config["max_msgs_per_subject"]])
        if config["discard"] == "old":
            while 0 < config["max_msgs"] < len(self.messages) or (
                0 < config["max_bytes"] < self.size_bytes and self.messages
            ):
                del self.messages[min(self.messages)]

    def delete(self, seq: int, *, erase: bool = False) -> bool:
        """Remove one, with every trace of it if it is erased; whether there was one."""
        if erase and seq in self.messages:
            self.written.discard(seq)
        return self.messages.pop(seq, None) is not None

    def purge(self, subject: str = "", *, below: int = 0, keep: int = 0) -> int:
        """Remove what matches, below a sequence or all but the newest; how many went."""
        before = len(self.messages)
        if not subject and below > self.last_seq + 1:
            self.last_seq = below - 1
        matching = [seq for seq in self.of(subject) if not below or seq < below]
        self._remove(matching[: max(len(matching) - keep, 0)])
        return before - len(self.messages)

    def take_next(self) -> int:
        """The consumer gets its next message and acknowledges it; 0 when there is none."""
        waiting = [seq for seq in sorted(self.messages) if seq > self.delivered]
        if not waiting:
            return 0
        self.delivered = waiting[0]
        if self.config["retention"] != "limits":
            del self.messages[waiting[0]]
        return waiting[0]

    def pass_time(self, now_ns: int) -> None:
        """Forget what is too old."""
        age = self.config["max_age"]
        if age:
            self._remove([seq for seq, message in self.messages.items() if message.ts_ns <= now_ns - age])
        window = self.config["duplicate_window"]
        self.ids = {key: known for key, known in self.ids.items() if known[1] > now_ns - window}

    def restart(self, now_ns: int) -> None:
        """Ids are read back from what was ever written, unless it was erased."""
        self.ids = {key: known for key, known in self.ids.items() if known[0] in self.written}
        self.pass_time(now_ns)

    def _remove(self, seqs: list[int]) -> None:
        for seq in seqs:
            del self.messages[seq]
