"""Priority groups (ADR-42): which waiting request may have the next message.

overflow       only if enough is pending, or enough is unacknowledged
pinned client  one client gets everything until it stops asking for `priority_timeout`, or is unpinned
prioritized    the lowest number first; that order is kept by the queue itself
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from slipstream.jetstream.config.enums import PriorityPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.requests import PRIORITY_MAX, PullRequest
from slipstream.jetstream.ports import Cancel, Ports

__all__ = ["PriorityGroups", "PriorityVerdict"]


class PriorityVerdict(Enum):
    """The answer to a request whose turn it is."""

    SERVE = auto()
    LATER = auto()  # let the others go first
    WRONG_PIN = auto()  # it claims a pin that is not the present one
    PINNED = auto()  # serve it; it has just become the pinned client


class PriorityGroups:
    """The groups of one consumer, and its pinned client."""

    def __init__(self, ports: Ports, pinned: Callable[[str, str], None], unpinned: Callable[[str, str], None]) -> None:
        """Report `(group, pin id)` and `(group, reason)`."""
        self._ports = ports
        self._on_pinned = pinned
        self._on_unpinned = unpinned
        self._timer: Cancel | None = None
        self.pin_id = ""
        self.pinned_ns = 0
        self.kept_until_ns = 0  # when the pinned client loses its place unless it asks before

    def refusal(self, request: PullRequest, config: ConsumerConfig) -> bytes | None:
        """Why a request is not even queued: a status line."""
        policy = config.priority_policy
        if not request.grouped:
            return None
        if (request.min_pending or request.min_ack_pending) and policy is not PriorityPolicy.OVERFLOW:
            return b"400 Bad Request - Not a Overflow Priority consumer"
        if request.pin_id and policy is not PriorityPolicy.PINNED_CLIENT:
            return b"400 Bad Request - Not a Pinned Client Priority consumer"
        if not 0 <= request.priority <= PRIORITY_MAX:
            return b"400 Bad Request - Priority must be between 0 and 9"
        if policy is PriorityPolicy.NONE:
            return None
        if not request.group:
            return b"400 Bad Request - Priority Group missing"
        if request.group not in config.priority_groups:
            return b"400 Bad Request - Invalid Priority Group"
        if self.pin_id:
            if request.pin_id == self.pin_id:
                self._keep(config, request.group)
            elif request.pin_id:
                return b"423 Nats-Pin-Id mismatch"
        return None

    def verdict(
        self, request: PullRequest, config: ConsumerConfig, *, pending: int, ack_pending: int
    ) -> PriorityVerdict:
        """Whether a request may have the next message.

        Args:
            request: whose turn it is.
            config: the consumer's.
            pending: messages that could be delivered, the next one included.
            ack_pending: messages handed out and not acknowledged.
        """
        if config.priority_policy is PriorityPolicy.PINNED_CLIENT:
            if not self.pin_id:
                if request.pin_id:
                    return PriorityVerdict.WRONG_PIN
                return PriorityVerdict.PINNED
            if request.pin_id == self.pin_id:
                return PriorityVerdict.SERVE
            return PriorityVerdict.WRONG_PIN if request.pin_id else PriorityVerdict.LATER
        conditional = request.min_pending > 0 or request.min_ack_pending > 0
        if config.priority_policy is PriorityPolicy.OVERFLOW and conditional:
            enough = 0 < request.min_pending <= pending or 0 < request.min_ack_pending <= ack_pending
            return PriorityVerdict.SERVE if enough else PriorityVerdict.LATER
        return PriorityVerdict.SERVE

    def pin(self, request: PullRequest, config: ConsumerConfig) -> None:
        """The client behind this request gets everything from now on."""
        if not request.group:
            return
        self.pin_id = request.pin_id = self._ports.new_nuid()
        self.pinned_ns = self._ports.now_ns()
        self._keep(config, request.group)
        self._on_pinned(request.group, self.pin_id)

    def unpin(self, group: str, reason: str) -> None:
        """Let another client have its turn."""
        self.forget()
        self._on_unpinned(group, reason)

    def forget(self) -> None:
        """No client is pinned."""
        if self._timer is not None:
            self._timer()
            self._timer = None
        self.pin_id, self.pinned_ns = "", 0

    def _keep(self, config: ConsumerConfig, group: str) -> None:
        """The pinned client has shown itself."""
        if self._timer is not None:
            self._timer()
        self.kept_until_ns = self._ports.now_ns() + config.priority_timeout_ns
        self._timer = self._ports.call_later(config.priority_timeout_ns, lambda: self._lost(group))

    def _lost(self, group: str) -> None:
        self._timer = None
        if self.pin_id:
            self.unpin(group, "timeout")
