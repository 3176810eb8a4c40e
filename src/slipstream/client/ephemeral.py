"""Consumers that a program makes for itself to read a stream, and makes again where it was when one is gone."""

from __future__ import annotations

from typing import Any

__all__ = ["ephemeral_config"]


def ephemeral_config(wanted: dict[str, Any], last_seq: int, idle_ns: int) -> dict[str, Any]:
    """The configuration of such a consumer.

    Args:
        wanted: what the reader asks for; it counts more than what is usual here.
        last_seq: the last sequence that was read; 0: nothing was.
        idle_ns: how long it stays when nobody asks it.
    """
    config = {
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": idle_ns,
        **wanted,
    }
    if config.get("deliver_policy") == "last_per_subject" and not config.get("filter_subjects"):
        config.setdefault("filter_subject", ">")  # servers want to be told
    if last_seq:
        config.pop("opt_start_time", None)
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": last_seq + 1}
    return config
