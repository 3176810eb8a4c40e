"""The transforms of a mirror or source: the first whose pattern matches decides; without one the subject stays."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.jetstream.config.structs import SubjectTransformConfig
from slipstream.jetstream.ports import Ports
from slipstream.kernels.subjects.subject import is_subset
from slipstream.subjects.transform import SubjectTransform

__all__ = ["Transforms"]


class Transforms:
    """From a checked configuration. Entries without a destination only filter.

    There may be thousands, most of them never used: each is compiled when a subject matches it first.
    """

    __slots__ = ("_compiled", "_ports", "_sources", "any")

    def __init__(self, configs: Sequence[SubjectTransformConfig], ports: Ports) -> None:
        """Keep the patterns."""
        self._ports = ports
        self._sources = [(config.src.encode() or b">", config.dest.encode()) for config in configs if config.dest]
        self._compiled: dict[int, SubjectTransform] = {}
        self.any = bool(self._sources)  # whether `apply` can change anything

    def apply(self, subject: bytes) -> bytes:
        """What a subject becomes."""
        for number, (pattern, destination) in enumerate(self._sources):
            if is_subset(subject, pattern):
                transform = self._compiled.get(number)
                if transform is None:
                    transform = self._compiled[number] = SubjectTransform(pattern, destination)
                return transform.apply(subject, self._ports.random_below)
        return subject
