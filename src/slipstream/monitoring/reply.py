"""What is answered over HTTP."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Reply"]


class Reply(NamedTuple):
    """An HTTP answer without its protocol."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
