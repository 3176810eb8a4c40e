"""Feature flags: names under which nats-server introduces changes of its wire and of its clusters.

Those about replicas change nothing on a server that is alone, set or not. Those about the wire cannot be turned on
here: they are told as unsupported and stay off, in the log and in what monitoring says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FEATURE_FLAGS", "effective_flags", "flag_lines"]

# name → on by default, as in nats-server
FEATURE_FLAGS: Final = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}
_NOT_HERE: Final = frozenset({"js_ack_fc_v2", "js_api_reply_v2"})
_STATES: Final = {  # (by default, wanted)
    (True, True): "enabled",
    (True, False): "opt-out",
    (False, True): "opt-in",
    (False, False): "disabled",
}


def effective_flags(wanted: Mapping[str, bool]) -> dict[str, bool]:
    """What is on and off, by name."""
    return {
        name: default if name in _NOT_HERE else wanted.get(name, default) for name, default in FEATURE_FLAGS.items()
    }


def flag_lines(wanted: Mapping[str, bool]) -> list[str]:
    """What the log says about the flags of a configuration."""
    if not wanted:
        return []
    configured, unsupported = [], []
    for name, value in sorted(wanted.items()):
        if name not in FEATURE_FLAGS or (value and name in _NOT_HERE):
            unsupported.append(name)
        else:
            configured.append(f"{name} ({_STATES[FEATURE_FLAGS[name], value]})")
    lines = ["  Feature flags:", f"    Configured:    {', '.join(configured) or 'none'}"]
    return [*lines, f"    Unsupported:   {', '.join(unsupported)}"] if unsupported else lines
