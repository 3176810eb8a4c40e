"""Which order a consumer delivers in, as its metadata ask for it: any client can (ADR 93).

    slipstream.delivery        key-shared, fair, priority or rate; without it, the order of the stream
    slipstream.delivery.key    what a message is looked at by: subject, token:<n> of it, or header:<name>
    slipstream.delivery.rate   <n>/s, /m or /h: most messages of one key in this time
    slipstream.delivery.ahead  how many messages are looked at ahead of their turn

What this is not: the orders themselves (`key_queues`), nor where messages come from (`source`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import AckPolicy, DeliverPolicy, ReplayPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.limits import AHEAD_MSGS, AHEAD_MSGS_MAX, ORDERED_ACK_PENDING_MAX
from slipstream.jetstream.errors import invalid_config
from slipstream.units import HOUR_NS, MINUTE_NS, SECOND_NS

__all__ = ["DELIVERY_KEY", "KeyFrom", "OrderKind", "Ordering", "check_ordering", "order_keys", "ordering_of"]

DELIVERY_KEY: Final = "slipstream.delivery"
_KEY: Final = f"{DELIVERY_KEY}.key"
_RATE: Final = f"{DELIVERY_KEY}.rate"
_AHEAD: Final = f"{DELIVERY_KEY}.ahead"
_KNOWN: Final = (DELIVERY_KEY, _KEY, _RATE, _AHEAD)
_UNITS: Final = {"s": SECOND_NS, "m": MINUTE_NS, "h": HOUR_NS}
_RATE_FORM: Final = re.compile(r"([1-9][0-9]{0,8})/([smh])")
_TOKEN_FORM: Final = re.compile(r"token:([1-9][0-9]{0,2})")
_HEADER_FORM: Final = re.compile(r"header:([!-9;-~]{1,128})")


class OrderKind(Enum):
    """What decides whose turn it is."""

    KEY_SHARED = "key-shared"  # one message of a key in flight at a time
    FAIR = "fair"  # a message of each key in turn
    PRIORITY = "priority"  # the lowest number first
    RATE = "rate"  # so many of a key in some time


@dataclass(frozen=True, slots=True)
class KeyFrom:
    """Where the key of a message is: in its subject, in one token of it, or in a header."""

    token: int = 0  # the n-th; 0: the whole subject
    header: bytes = b""

    def of_subject(self, subject: bytes) -> bytes:
        """The key; a subject without this token has the empty one."""
        if not self.token:
            return subject
        tokens = subject.split(b".", self.token)
        return tokens[self.token - 1] if len(tokens) >= self.token else b""

    def of_headers(self, block: bytes) -> bytes:
        """The key; a message without this header has the empty one."""
        return (headers.find(block, self.header) or b"").strip() if block else b""


@dataclass(frozen=True, slots=True)
class Ordering:
    """What was asked for, checked."""

    kind: OrderKind
    key: KeyFrom
    interval_ns: int  # least time between two messages of a key; 0: any
    ahead: int  # messages that are looked at ahead of their turn, at most


def order_keys(metadata: Mapping[str, str]) -> dict[str, str]:
    """The part of a consumer's metadata that this is about."""
    return {key: value for key, value in metadata.items() if key.startswith(DELIVERY_KEY)}


def ordering_of(metadata: Mapping[str, str]) -> Ordering | None:
    """The order that a consumer asks for; None: that of the stream.

    Raises:
        TableError: 10052, something of it is unknown or contradicts the rest.
    """
    asked = order_keys(metadata)
    if not asked:
        return None
    for name in asked:
        if name not in _KNOWN:
            raise invalid_config(f"unknown metadata {name}, known are {', '.join(_KNOWN)}")
    try:
        kind = OrderKind(asked.get(DELIVERY_KEY, ""))
    except ValueError:
        names = ", ".join(kind.value for kind in OrderKind)
        raise invalid_config(f"{DELIVERY_KEY} must be one of {names}") from None
    key = _key(asked.get(_KEY, "subject"))
    if kind is OrderKind.PRIORITY and not (key.token or key.header):
        raise invalid_config(f"{DELIVERY_KEY} {kind.value} needs {_KEY} token:<n> or header:<name>, a number in it")
    rate = asked.get(_RATE)
    if (kind is OrderKind.RATE and rate is None) or (kind is OrderKind.PRIORITY and rate is not None):
        raise invalid_config(f"{DELIVERY_KEY} {kind.value} {'needs' if rate is None else 'has no'} {_RATE}")
    return Ordering(kind, key, _interval_ns(rate), _ahead(asked.get(_AHEAD)))


def check_ordering(config: ConsumerConfig) -> None:
    """Whether a consumer can have the order that it asks for.

    Raises:
        TableError: 10052.
    """
    if ordering_of(config.metadata) is None:
        return
    if config.ack_policy is not AckPolicy.EXPLICIT:
        raise invalid_config(f"{DELIVERY_KEY} needs explicit acks")
    if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
        raise invalid_config(f"{DELIVERY_KEY} is not for deliver policy last_per_subject")
    if config.replay_policy is ReplayPolicy.ORIGINAL:
        raise invalid_config(f"{DELIVERY_KEY} is not for replay policy original")
    if not 0 < config.max_ack_pending <= ORDERED_ACK_PENDING_MAX:
        raise invalid_config(f"{DELIVERY_KEY} needs max_ack_pending between 1 and {ORDERED_ACK_PENDING_MAX}")


def _key(text: str) -> KeyFrom:
    if text == "subject":
        return KeyFrom()
    if found := _TOKEN_FORM.fullmatch(text):
        return KeyFrom(token=int(found[1]))
    if found := _HEADER_FORM.fullmatch(text):
        return KeyFrom(header=found[1].encode())
    raise invalid_config(f"{_KEY} must be subject, token:<n> or header:<name>")


def _interval_ns(text: str | None) -> int:
    if text is None:
        return 0
    found = _RATE_FORM.fullmatch(text)
    if found is None:
        raise invalid_config(f"{_RATE} must be a number and a unit, such as 10/s, 100/m or 5/h")
    return -(-_UNITS[found[2]] // int(found[1]))


def _ahead(text: str | None) -> int:
    if text is None:
        return AHEAD_MSGS
    if not text.isascii() or not text.isdecimal() or not 1 <= len(text) <= 9 or not 1 <= int(text) <= AHEAD_MSGS_MAX:
        raise invalid_config(f"{_AHEAD} must be a number between 1 and {AHEAD_MSGS_MAX}")
    return int(text)
