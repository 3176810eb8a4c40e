"""Notes: a few small facts a store keeps beside its messages, written in the same log.

A note is set alone or by the unit that it belongs to; then it is there exactly if the unit is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slipstream.jetstream.store.limits import STORE_NOTE_BYTES_MAX, STORE_NOTES_MAX

__all__ = ["OTHER_SUBJECTS", "RESTORING", "check_notes"]

RESTORING: Final = b"restoring"
"""The note of a store that is being filled from a backup and not complete yet."""
OTHER_SUBJECTS: Final = b"other subjects"
"""The note of a store with messages that came before its stream had the subjects it has now."""


def check_notes(present: Mapping[bytes, bytes], changes: Mapping[bytes, bytes]) -> None:
    """Hold notes to their limits.

    Raises:
        ValueError: there would be too many, or one is too long.
    """
    if len({**present, **changes}) > STORE_NOTES_MAX:
        raise ValueError(f"more than {STORE_NOTES_MAX} notes")
    if any(not 0 < len(key) + len(value) <= STORE_NOTE_BYTES_MAX or not key for key, value in changes.items()):
        raise ValueError(f"a note has a key and at most {STORE_NOTE_BYTES_MAX} bytes")
