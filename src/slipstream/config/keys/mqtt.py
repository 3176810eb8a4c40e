"""The keys of `mqtt`: checked like all others, then refused by `validate`. Loaded only when a file has them."""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, read_block, refusal
from slipstream.config.keys.listener import lazy_tls, simple_authorization
from slipstream.config.listener_options import MQTTOptions
from slipstream.config.parser import Value
from slipstream.config.readers import ADDRESS_KEYS, BOOLEAN, INTEGER, STRING, duration, duration_or, integer
from slipstream.limits import (
    MQTT_ACK_WAIT_NS,
    MQTT_JS_API_TIMEOUT_NS,
    MQTT_MAX_ACK_PENDING,
    MQTT_MAX_ACK_PENDING_CEILING,
)

__all__ = ["MQTT", "mqtt"]


def mqtt(checker: Checker, value: Value, _key: str) -> MQTTOptions:
    """The `mqtt` block."""
    fields = read_block(checker, value, MQTT, "mqtt")
    return MQTTOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _max_ack_pending(checker: Checker, value: Value, key: str) -> int:
    number = integer(checker, value, key)
    if not 0 <= number <= MQTT_MAX_ACK_PENDING_CEILING:
        raise refusal(value, f"invalid value {number}, should in [0..{MQTT_MAX_ACK_PENDING_CEILING}] range")
    return number or MQTT_MAX_ACK_PENDING


def _ignored_replicas(checker: Checker, value: Value, key: str) -> dict[str, object]:
    checker.warn(value, key, "consumer replicas setting ignored in this server version")
    return {}


MQTT: Final = KeyTable(
    *ADDRESS_KEYS,
    Key("tls", ("map", lazy_tls), "TLS of this listener."),
    Key("authorization authentication", ("map", simple_authorization), "User or token of this listener.", field=""),
    Key("no_auth_user", STRING, "User of clients without credentials on this listener."),
    Key(
        "ack_wait ackwait",
        ("duration", duration_or(MQTT_ACK_WAIT_NS, "ack_wait")),
        "Time before a message is sent again.",
        field="ack_wait_ns",
    ),
    Key(
        "js_api_timeout api_timeout",
        ("duration", duration_or(MQTT_JS_API_TIMEOUT_NS, "js_api_timeout")),
        "Time for a JetStream request.",
        field="js_api_timeout_ns",
    ),
    Key("max_ack_pending max_pending max_inflight", ("integer", _max_ack_pending), "Messages in flight to a client."),
    Key("js_domain", STRING, "JetStream domain to use."),
    Key("stream_replicas", INTEGER, "Replicas of the streams."),
    Key("consumer_replicas", ("integer", _ignored_replicas), "Ignored, with a warning.", field=""),
    Key("consumer_memory_storage", BOOLEAN, "Keep the state of consumers in memory."),
    Key(
        "consumer_inactive_threshold consumer_auto_cleanup",
        ("duration", duration("consumer_inactive_threshold")),
        "Remove consumers that are not used for this time.",
        field="consumer_inactive_threshold_ns",
    ),
    Key("reject_qos2_publish", BOOLEAN, "Refuse messages with QoS 2."),
    Key("downgrade_qos2_subscribe", BOOLEAN, "Answer subscriptions with QoS 2 as QoS 1."),
)
