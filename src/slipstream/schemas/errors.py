"""What is wrong with a schema."""

from __future__ import annotations

from slipstream.errors import SlipstreamError

__all__ = ["SchemaProblem"]


class SchemaProblem(SlipstreamError):
    """A definition that cannot be used, or a version that does not follow the one before."""
