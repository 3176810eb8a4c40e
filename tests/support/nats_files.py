"""Files of nats-server written by hand, to damage them in places that a real server would not leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from models.natsblock import hash64, record

ERASED = 1 << 63
TOMBSTONE = 1 << 62
TIME_NS = 1_790_000_000_000_000_000

Written = tuple[int, bytes, bytes, bytes]
"""Sequence with flags, subject, headers, payload."""


def block(stream: str, number: int, messages: Iterable[Written]) -> bytes:
    """The bytes of a block."""
    key = hashlib.sha256(f"{stream}-{number}".encode()).digest()
    return b"".join(record(key, seq, TIME_NS + (seq & ~(ERASED | TOMBSTONE)), *rest) for seq, *rest in messages)


def write_meta(directory: Path, hashed: str, members: dict[str, object]) -> None:
    """A configuration with its checksum."""
    directory.mkdir(parents=True, exist_ok=True)
    content = json.dumps(members).encode()
    (directory / "meta.inf").write_bytes(content)
    (directory / "meta.sum").write_bytes(hash64(hashlib.sha256(hashed.encode()).digest(), content).hex().encode())


def write_stream(store: Path, name: str, blocks: dict[int, bytes], account: str = "$G", **config: object) -> Path:
    """A stream without an index, as a killed server leaves it."""
    directory = store / "jetstream" / account / "streams" / name
    members = {"Created": "2026-01-02T03:04:05Z", "name": name, "subjects": [f"{name.lower()}.>"], "storage": "file"}
    base = {
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "discard": "old",
        "num_replicas": 1,
    }
    write_meta(directory, name, {**members, **base, **config})
    (directory / "msgs").mkdir()
    for number, content in blocks.items():
        (directory / "msgs" / f"{number}.blk").write_bytes(content)
    return directory
