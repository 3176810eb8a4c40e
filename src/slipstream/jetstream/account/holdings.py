"""What the streams of an account have taken, made or in the making: subjects, and bytes by `max_bytes`.

Both are kept as running totals, so that making a stream costs the same whether there are ten others or ten thousand.

Invariant: no two streams that hold subjects here overlap, unless they were found like that on the disk. Nor do two
templates, which store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.resources import ServerBudget
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import is_template
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.subjects.collisions import COMPARE_STEPS_MAX, SubjectSet, TooManySteps

__all__ = ["Holdings"]

_ALL_STEPS: Final = 1 << 40  # one pattern against a set takes at most as many steps as the set has tokens


class Holdings:
    """Subjects and reservations of one account."""

    def __init__(self, server: Mapping[StorageType, ServerBudget]) -> None:
        """Nothing is taken yet; reservations count for the server too."""
        self._server = server
        self._of: dict[str, StreamConfig] = {}  # by the name of the stream
        self._subjects: SubjectSet[str] = SubjectSet()
        self._templates: SubjectSet[str] = SubjectSet()  # of streams that make others, which lie within
        self._reserved = dict.fromkeys(StorageType, 0)

    def reserved_bytes(self, storage: StorageType) -> int:
        """What all streams have reserved."""
        return self._reserved[storage]

    def reserved_by(self, config: StreamConfig) -> int:
        """What the stream of this name has reserved in the same storage."""
        own = self._of.get(config.name)
        return max(own.max_bytes, 0) if own is not None and own.storage is config.storage else 0

    def reserved_besides(self, config: StreamConfig) -> int:
        """What the other streams have reserved in the same storage."""
        return self._reserved[config.storage] - self.reserved_by(config)

    def take(self, config: StreamConfig) -> None:
        """A stream is being made, or was found on the disk."""
        self._of[config.name] = config
        self._reserve(config, 1)
        self._take_subjects(config)

    def give_back(self, name: str) -> None:
        """A stream is gone, or was not made after all. Nothing happens if it has nothing."""
        config = self._of.pop(name, None)
        if config is None:
            return
        self._reserve(config, -1)
        self._give_back_subjects(config)

    def change(self, config: StreamConfig) -> None:
        """A stream has another configuration."""
        old = self._of[config.name]
        self._of[config.name] = config
        self._reserve(old, -1)
        self._reserve(config, 1)
        if old.subjects != config.subjects:
            self._give_back_subjects(old)
            self._take_subjects(config)

    def check_overlap(self, config: StreamConfig) -> None:
        """Whether the subjects are free; those that the stream of this name has already are.

        Raises:
            TableError: 10065, or the subjects cannot be compared in time.
        """
        old = self._of.get(config.name)
        if old is not None and old.subjects == config.subjects:
            return
        wanted: SubjectSet[str] = SubjectSet()
        for subject in config.subjects:
            wanted.add(subject.encode(), config.name)
        if old is not None:
            self._give_back_subjects(old)
        try:
            taken = self._templates if is_template(config) else self._subjects
            if taken.overlap_with(wanted, COMPARE_STEPS_MAX + 2 * len(taken)) is not None:
                raise TableError(table.STREAM_SUBJECT_OVERLAP)
        except TooManySteps:
            raise invalid_config("subjects have wildcards in too many different places") from None
        finally:
            if old is not None:
                self._take_subjects(old)

    def touching(self, subject: str) -> set[str]:
        """Names of the streams that collect some of a pattern's messages."""
        return set(self._subjects.overlapping(subject.encode(), _ALL_STEPS))

    def collecting(self, subject: bytes) -> set[str]:
        """Names of the streams that collect what is published on a subject."""
        return set(self._subjects.matching(subject))

    def _take_subjects(self, config: StreamConfig) -> None:
        taken = self._templates if is_template(config) else self._subjects
        for subject in config.subjects:
            taken.add(subject.encode(), config.name)

    def _give_back_subjects(self, config: StreamConfig) -> None:
        taken = self._templates if is_template(config) else self._subjects
        for subject in config.subjects:
            taken.remove(subject.encode(), config.name)

    def _reserve(self, config: StreamConfig, sign: int) -> None:
        delta_bytes = sign * max(config.max_bytes, 0)
        self._reserved[config.storage] += delta_bytes
        self._server[config.storage].reserved_bytes += delta_bytes
