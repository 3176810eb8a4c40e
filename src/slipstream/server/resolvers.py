"""Where the tokens of accounts come from: memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["MemoryResolver"]


class MemoryResolver:
    """Tokens of the configuration."""

    def __init__(self, preload: Mapping[str, str]) -> None:
        self._tokens = dict(preload)

    def fetch(self, name: str, done: Callable[[str, str], None]) -> None:
        """Look a token up."""
        text = self._tokens.get(name, "")
        done(text, "" if text else "account missing")
