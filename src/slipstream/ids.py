"""Identifiers: unique, and not guessable when the random source is the system's."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

__all__ = ["new_nuid"]

_LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_NUID_LENGTH: Final = 22


def new_nuid(rng: random.Random) -> str:
    """A 22-character identifier, as NATS servers and clients make them."""
    return "".join(rng.choices(_LETTERS, k=_NUID_LENGTH))
