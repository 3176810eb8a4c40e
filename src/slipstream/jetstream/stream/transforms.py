"""The transforms of a mirror or source: the first whose pattern matches decides; without one the subject stays."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.jetstream.config.structs import SubjectTransformConfig
from slipstream.jetstream.ports import Ports
from slipstream.subjects.transform import SubjectTransform

__all__ = ["Transforms"]


class Transforms:
    """Compiled from a checked configuration. Entries without a destination only filter."""

    __slots__ = ("_compiled", "_ports", "any")

    def __init__(self, configs: Sequence[SubjectTransformConfig], ports: Ports) -> None:
        """Compile."""
        self._ports = ports
        self._compiled = [
            SubjectTransform(config.src.encode(), config.dest.encode()) for config in configs if config.dest
        ]
        self.any = bool(self._compiled)  # whether `apply` can change anything

    def apply(self, subject: bytes) -> bytes:
        """What a subject becomes."""
        for transform in self._compiled:
            changed = transform.find(subject, self._ports.random_below)
            if changed is not None:
                return changed
        return subject
