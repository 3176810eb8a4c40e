"""Delivery to a fixed subject: whether anybody listens, flow control, heartbeats.

Flow control: the window begins at a sixteenth of its largest size and doubles with every answer. When more than half of
it is unconfirmed, a request with a reply subject follows the message; nothing is delivered beyond the window.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from slipstream.jetstream.config.enums import AckPolicy
from slipstream.jetstream.consumer.limits import (
    CONSUMER_CAREFUL_MSGS,
    CONSUMER_SLICE_MSGS,
    FLOW_WINDOW_BYTES_MAX,
    FLOW_WINDOW_START,
)
from slipstream.jetstream.consumer.plan import DeliveryPlan
from slipstream.jetstream.consumer.sink import Expected, SinkOwner
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.kernels.subjects.subject import matches
from slipstream.subjects.outside import outside_only, unmarked

__all__ = ["PushSink"]

_LETTERS = (string.digits + string.ascii_uppercase + string.ascii_lowercase).encode()
_ID_LENGTH = 4


class PushSink:
    """The deliver subject of one consumer."""

    def __init__(self, owner: SinkOwner, ports: Ports, flow_prefix: bytes) -> None:
        """Deliver for `owner`; flow control replies begin with `flow_prefix`."""
        self._owner = owner
        self._ports = ports
        self._flow_prefix = flow_prefix
        self._watch: Cancel | None = None
        self._beat_timer: Cancel | None = None
        self._beat_ns = 0  # when the next heartbeat is due unless something is delivered first
        self._window = FLOW_WINDOW_BYTES_MAX // FLOW_WINDOW_START
        self._unconfirmed = 0  # bytes delivered and not confirmed
        self._asked_bytes = 0  # of these, what the outstanding request covers
        self._cyclic = False  # the stream was changed so that it collects the deliver subject
        self.flow_id = b""  # subject of the outstanding flow control request
        self.target = b""
        self.listening = False
        self.last_active_ns = 0  # last ack; a push consumer lives as long as somebody listens

    def start(self) -> None:
        """Watch the deliver subject, and beat."""
        config = self._owner.config
        self.target = config.deliver_subject.encode()
        if config.outside:
            self.target = outside_only(self.target)
        queue = config.deliver_group.encode() or None
        self._watch = self._ports.watch_interest(self.target, queue, self._changed)
        self.listening = self._ports.is_bound(self.target, queue)
        if config.idle_heartbeat_ns:
            self._beat_ns = self._ports.now_ns() + config.idle_heartbeat_ns
            self._arm_beat()

    def close(self, status: bytes, *, counts: bool) -> None:
        """Watch and beat no more; nobody has asked, so nobody is told."""
        self._stop()

    def _stop(self) -> None:
        for cancel in (self._watch, self._beat_timer):
            if cancel is not None:
                cancel()
        self._watch = self._beat_timer = None

    def rebind(self) -> None:
        """The deliver subject or group has changed."""
        self._stop()
        self.start()

    def check_cycle(self, stream_subjects: Sequence[str]) -> bool:
        """Whether the stream would collect what is delivered; then nothing is."""
        self._cyclic = any(matches(subject.encode(), unmarked(self.target)) for subject in stream_subjects)
        return self._cyclic

    @property
    def is_cyclic(self) -> bool:
        """Whether the stream would collect what is delivered."""
        return self._cyclic

    @property
    def stalled_bytes(self) -> int:
        """What was delivered and is not confirmed, if that fills the window; else 0."""
        return self._unconfirmed if self._unconfirmed > self._window else 0

    # --- messages ---

    def demand(self) -> int:
        """How many messages to read now; 0: nobody listens, or the window is full."""
        if not self.listening or self._cyclic:
            return 0
        if not self._owner.config.flow_control:
            return CONSUMER_SLICE_MSGS
        return CONSUMER_CAREFUL_MSGS if self._unconfirmed <= self._window else 0

    def plan(self, most: int) -> DeliveryPlan | None:
        """Where the next messages go. With flow control up to the one that makes a request due, or fills the window."""
        if not self._owner.config.flow_control:
            return DeliveryPlan(self.target, most)
        limit = self._window if self.flow_id else self._window // 2
        return DeliveryPlan(self.target, most, limit - self._unconfirmed)

    def took(self, plan: DeliveryPlan, count: int, size: int, last_size: int) -> None:
        """So many went to the deliver subject."""
        self._went(size, last_size)

    def take(self, size: int, pending: int) -> bytes | None:
        """The deliver subject, if one more message may go."""
        return self.target if self.listening and self._unconfirmed <= self._window else None

    def sent(self, size: int) -> None:
        """One message went."""
        self._went(size, size)

    def expect(self) -> Expected | None:
        """Messages go to whoever listens when they are there."""
        return None

    def on_end(self) -> None:
        """Nobody waits for an answer."""

    def _went(self, size: int, last_size: int) -> None:
        """Messages of this size together went; only the last of them may have exceeded a limit."""
        self._quiet_from_now()
        config = self._owner.config
        if not config.flow_control:
            return
        self._unconfirmed += size
        if not self.flow_id:
            acks_by_flow = config.ack_policy is AckPolicy.FLOW_CONTROL
            full = acks_by_flow and 0 < config.max_ack_pending <= self._owner.ack_pending()
            if self._unconfirmed > self._window // 2 or full:
                self.ask()
        elif self._unconfirmed - self._asked_bytes >= self._window:
            self._asked_bytes += last_size

    def ask(self) -> None:
        """Send a flow control request."""
        suffix = bytes(_LETTERS[self._ports.random_below(len(_LETTERS))] for _ in range(_ID_LENGTH))
        self.flow_id = self._flow_prefix + suffix
        self._asked_bytes = self._unconfirmed
        block = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
        self._owner.out.append((self.target, self.target, self.flow_id, block, b""))

    def on_flow_reply(self, subject: bytes) -> bool:
        """The client has caught up. False: not the answer to the last request."""
        if subject != self.flow_id:
            return False
        self._window = min(self._window * 2, FLOW_WINDOW_BYTES_MAX)
        self._unconfirmed = max(self._unconfirmed - self._asked_bytes, 0)
        self.flow_id, self._asked_bytes = b"", 0
        self._owner.wake()
        return True

    # --- interest and heartbeats ---

    def _changed(self, listening: bool) -> None:
        if listening == self.listening:
            return
        self.listening = listening
        self._owner.on_listening(listening)
        if listening:
            self._owner.wake()

    def _quiet_from_now(self) -> None:
        interval_ns = self._owner.config.idle_heartbeat_ns
        if interval_ns:
            self._beat_ns = self._ports.now_ns() + interval_ns

    def _arm_beat(self) -> None:
        delay_ns = max(self._beat_ns - self._ports.now_ns(), 0)
        self._beat_timer = self._ports.call_later(delay_ns, self._beat)

    def _beat(self) -> None:
        config = self._owner.config
        if self._ports.now_ns() >= self._beat_ns:
            if self.listening:
                self._owner.out.append((self.target, self.target, None, self._owner.heartbeat(), b""))
                if config.ack_policy is AckPolicy.FLOW_CONTROL and self._owner.ack_pending() and not self.flow_id:
                    self.ask()
                self._owner.wake()
            self._beat_ns = self._ports.now_ns() + config.idle_heartbeat_ns
        self._arm_beat()
