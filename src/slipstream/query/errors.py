"""What goes wrong in a query."""

from __future__ import annotations

from slipstream.errors import SlipstreamError

__all__ = ["QueryError", "StatementError"]


class QueryError(SlipstreamError):
    """A query was not answered: a stream that is not there, a limit, a server that went away."""


class StatementError(QueryError):
    """The text is not one SELECT that DuckDB understands."""
