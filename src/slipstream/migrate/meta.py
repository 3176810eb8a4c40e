"""Stored configurations: `meta.inf`, its checksum in `meta.sum`, its key in `meta.key` if it is encrypted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.times import parse_time
from slipstream.kernels.backup.natsblock import hash64
from slipstream.migrate.errors import MigrationError, WrongKey
from slipstream.migrate.keys import AssetKey, Keys

__all__ = ["Meta", "read_meta", "stream_config"]


@dataclass(frozen=True, slots=True)
class Meta:
    """A stored configuration as JSON."""

    content: bytes
    key: AssetKey | None  # of what lies beside it
    damage: str  # why it should not be trusted, empty if it may be


def read_meta(read: Callable[[str], bytes | None], keys: Keys, *, hashed: str, context: str) -> Meta:
    """Read a configuration.

    Args:
        read: gives a file of its directory, None if it is not there.
        keys: of the account.
        hashed: what its checksum is keyed by.
        context: what its key is derived from.

    Raises:
        WrongKey: it is encrypted, and not with a key we have.
        MigrationError: there is none, or nothing of it can be read.
    """
    stored, checksum, sealed = read("meta.inf"), read("meta.sum"), read("meta.key")
    if not stored:
        raise MigrationError("there is no configuration (meta.inf)")
    damage = ""
    digest = hash64(hashlib.sha256(hashed.encode()).digest(), stored).hex()
    if checksum is None:
        damage = "the checksum of its configuration is missing (meta.sum)"
    elif checksum.strip() != digest.encode():
        damage = "the checksum of its configuration does not fit (meta.inf)"
    if sealed is None:
        return Meta(stored, None, damage)
    key = keys.open(sealed, context)
    content = key.open(stored)
    if content is None:
        raise WrongKey(damage or "its configuration does not fit its key (meta.inf)")
    return Meta(content, key, damage)


def stream_config(content: bytes) -> tuple[StreamConfig, int]:
    """The configuration of a stream and when it was made (nanoseconds).

    Raises:
        MigrationError: it is not one, or says what is not known here.
    """
    try:
        members = json.loads(content)
        created = members.pop("Created", "")
        config = STREAM_CONFIG.decode(json.dumps(members).encode())
        created_ns = parse_time(created) if created else 0
    except (JsonError, ValueError, AttributeError) as error:
        raise MigrationError(f"its configuration cannot be used here: {error}") from None
    return config, max(created_ns, 0)
