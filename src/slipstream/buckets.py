"""Buckets of keys and values, and object stores, as streams: what all clients agree on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from slipstream.units import MINUTE_NS

__all__ = ["bucket_config", "is_bucket_name", "object_config"]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_DUPLICATES_NS: Final = 2 * MINUTE_NS


def is_bucket_name(name: str) -> bool:
    """Letters, digits, _ and -."""
    return _NAME.fullmatch(name) is not None


def bucket_config(bucket: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The stream of a bucket of keys and values, as all clients agree on it."""
    given = dict(fields)
    renamed = {"history": "max_msgs_per_subject", "max_value_size": "max_msg_size", "max_bucket_size": "max_bytes"}
    more = {field: given.pop(name) for name, field in renamed.items() if name in given}
    ttl = given.pop("ttl", 0)
    marker = given.pop("limit_marker_ttl", 0)
    if marker:
        more |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": marker}
    return {
        "name": f"KV_{bucket}",
        "subjects": [f"$KV.{bucket}.>"],
        "max_msgs_per_subject": 1,
        "max_age": ttl,
        "duplicate_window": min(ttl or _DUPLICATES_NS, _DUPLICATES_NS),
        "max_bytes": -1,
        "max_msg_size": -1,
        "max_msgs": -1,
        "max_consumers": -1,
        "storage": "file",
        "num_replicas": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        **more,
        **given,
    }


def object_config(bucket: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The stream of an object store, as all clients agree on it."""
    given = dict(fields)
    more = {"max_bytes": given.pop("max_bucket_size")} if "max_bucket_size" in given else {}
    return {
        "name": f"OBJ_{bucket}",
        "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
        "max_age": given.pop("ttl", 0),
        "max_bytes": -1,
        "max_msgs": -1,
        "max_consumers": -1,
        "storage": "file",
        "num_replicas": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        **more,
        **given,
    }
