"""The plain model of permissions: what a user may have, decided for one concrete subject at a time."""

from dataclasses import dataclass, field

from models import subject as subjects


@dataclass
class Rules:
    """Subscribe rules: (subject pattern, queue pattern or None)."""

    allow: list[tuple[bytes, bytes | None]] | None = None
    deny: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def grants(self, literal: bytes, queue: bytes | None) -> bool:
        """Whether a subscription to exactly this subject, with this queue, is granted."""
        return self._allowed(literal, queue) and not self._denied(literal, queue)

    def _allowed(self, literal: bytes, queue: bytes | None) -> bool:
        if self.allow is None:
            return True
        named = [name for pattern, name in self.allow if name is not None and subjects.matches(pattern, literal)]
        if queue is not None and named:
            return any(_same_queue(name, queue) for name in named)
        return any(name is None and subjects.matches(pattern, literal) for pattern, name in self.allow)

    def _denied(self, literal: bytes, queue: bytes | None) -> bool:
        return any(
            subjects.matches(pattern, literal) and (name is None or (queue is not None and _same_queue(name, queue)))
            for pattern, name in self.deny
        )

    def as_entries(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """The lists as a configuration file has them."""
        return (None if self.allow is None else tuple(map(_entry, self.allow))), tuple(map(_entry, self.deny))


def _same_queue(name: bytes, queue: bytes) -> bool:
    return name == queue or subjects.matches(name, queue)


def _entry(rule: tuple[bytes, bytes | None]) -> str:
    pattern, queue = rule
    return pattern.decode() if queue is None else f"{pattern.decode()} {queue.decode()}"
