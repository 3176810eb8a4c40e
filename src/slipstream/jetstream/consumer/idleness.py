"""Time of a consumer apart from acks: when a pause ends, and when nobody has used it for too long.

A push consumer is in use while somebody listens. A pull consumer is in use when it was asked or answered recently, when
a request waits, or when the deadline of a delivery is not long past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.jetstream.consumer.limits import (
    CONSUMER_INACTIVE_NS,
    CONSUMER_INACTIVE_SLACK_NS,
    CONSUMER_INACTIVE_SPREAD_MS,
)
from slipstream.jetstream.ports import Cancel
from slipstream.units import MILLISECOND_NS

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer

__all__ = ["Idleness"]


class Idleness:
    """The slow timers of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing runs before `arm`."""
        self._consumer = consumer
        self._ports = consumer.ports
        self._timer: Cancel | None = None
        self._due_ns = 0  # when it fires
        self._pause_timer: Cancel | None = None
        self._spread_ns = consumer.ports.random_below(CONSUMER_INACTIVE_SPREAD_MS) * MILLISECOND_NS

    def close(self) -> None:
        """No more timers."""
        for timer in (self._timer, self._pause_timer):
            if timer is not None:
                timer()
        self._timer = self._pause_timer = None

    def arm_pause(self) -> None:
        """Wake the consumer when its pause ends."""
        if self._pause_timer is not None:
            self._pause_timer()
            self._pause_timer = None
        until_ns = self._consumer.config.pause_until_ns
        if until_ns is not None and self._consumer.is_paused():
            self._pause_timer = self._ports.call_later(until_ns - self._ports.now_ns(), self._pause_over)

    def _pause_over(self) -> None:
        self._pause_timer = None
        if self._consumer.is_paused():
            self.arm_pause()
            return
        self._consumer.events.paused(self._consumer.config.pause_until_ns)
        self._consumer.wake()

    def _threshold_ns(self) -> int:
        threshold_ns = self._consumer.config.inactive_threshold_ns
        if not threshold_ns and not self._consumer.config.durable_name:
            threshold_ns = CONSUMER_INACTIVE_NS
        by_default = threshold_ns == CONSUMER_INACTIVE_NS and not self._consumer.config.durable_name
        if threshold_ns and (self._consumer.pull is not None or by_default):
            return threshold_ns + CONSUMER_INACTIVE_SLACK_NS + self._spread_ns
        return threshold_ns  # somebody has chosen it, and a push consumer shows when nobody listens

    def arm(self, delay_ns: int = 0) -> None:
        """Look after a while whether the consumer is still in use."""
        if self._timer is not None:
            self._timer()
            self._timer = None
        threshold_ns = self._threshold_ns()
        push = self._consumer.push
        in_use = push is not None and push.listening
        if not threshold_ns or self._consumer.closed or in_use:
            return
        self._due_ns = self._ports.now_ns() + (delay_ns or threshold_ns)
        self._timer = self._ports.call_later(delay_ns or threshold_ns, self._due)

    def gone_ns(self) -> int:
        """When the consumer goes if nobody uses it until then; 0: it stays, or is in use."""
        pull = self._consumer.pull
        if self._timer is None or (pull is not None and pull.waiting):
            return 0
        now_ns = self._ports.now_ns()
        return max(self._due_ns, now_ns + self._busy_for_ns())

    def _due(self) -> None:
        self._timer = None
        remaining_ns = self._busy_for_ns()
        if remaining_ns > 0:
            self.arm(remaining_ns)
        else:
            self._consumer.owner.inactive(self._consumer)

    def _busy_for_ns(self) -> int:
        """How much longer a consumer without requests may still be in use; 0: it is not."""
        pull = self._consumer.pull
        if pull is None:
            return 0
        now_ns, threshold_ns = self._ports.now_ns(), self._threshold_ns()
        since_ns = now_ns - pull.last_active_ns
        if since_ns < threshold_ns:
            return threshold_ns - since_ns
        pull.drop_gone(now_ns)
        if pull.waiting:
            return threshold_ns
        last_ns = self._consumer.state.acks.last_deadline_ns()
        return max(last_ns + threshold_ns - now_ns, 0) if last_ns else 0
