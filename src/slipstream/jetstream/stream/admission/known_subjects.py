"""Whether the subjects of a stream's configuration are those of all its messages.

They are not if messages come from elsewhere (mirrors, sources), are stored under another subject (a transform), or came
when the stream had other subjects; that last one is a fact of the past, and so a note in the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.notes import OTHER_SUBJECTS
from slipstream.kernels.subjects.subject import is_literal, is_subset

__all__ = ["known_subjects", "remember_others"]

# Subjects compared one by one when a configuration changes; beyond that the worse is assumed, which costs only speed.
_COMPARED_MAX = 4_096


def known_subjects(config: StreamConfig, store: Store) -> Sequence[str]:
    """What all messages that are or will be in a stream are published on; empty: that is not known."""
    if _is_fed_otherwise(config) or store.notes().get(OTHER_SUBJECTS):
        return ()
    return config.subjects


def remember_others(old: StreamConfig, new: StreamConfig, store: Store) -> None:
    """Note that a stream has messages which its next configuration does not tell of."""
    if (
        store.assigned.messages
        and not store.notes().get(OTHER_SUBJECTS)
        and (_is_fed_otherwise(old) or not _cover(new, old))
    ):
        store.put_note(OTHER_SUBJECTS, b"1")


def _is_fed_otherwise(config: StreamConfig) -> bool:
    return bool(config.mirror or config.sources or config.subject_transform)


def _cover(new: StreamConfig, old: StreamConfig) -> bool:
    missing = set(old.subjects) - set(new.subjects)
    wide = [subject.encode() for subject in new.subjects if not is_literal(subject.encode())]
    if len(missing) * len(wide) > _COMPARED_MAX:
        return False
    return all(any(is_subset(subject.encode(), own) for own in wide) for subject in missing)
