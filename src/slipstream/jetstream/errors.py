"""The concrete JetStream API error: a row of the generated table with its placeholders filled in.

What this is not: the table (`errors_table`), nor the family root (`slipstream.errors.ApiError`), which `except`
clauses outside JetStream name.
"""

from __future__ import annotations

from slipstream import errors
from slipstream.jetstream.errors_table import STREAM_INVALID_CONFIG, ErrorSpec

__all__ = ["TableError", "invalid_config"]


class TableError(errors.ApiError):
    """A JetStream request refused; `spec` is a row of the generated table, so text and code match nats-server."""

    def __init__(self, spec: ErrorSpec, **values: object) -> None:
        """Fill the placeholders of the text.

        Args:
            spec: a row of `slipstream.jetstream.errors_table`.
            values: one value per placeholder of `spec.text`.
        """
        text = spec.text.format(**values) if values else spec.text
        super().__init__(spec.code, spec.err_code, text)
        self.spec = spec


def invalid_config(reason: str) -> TableError:
    """The error of most configuration rules: 10052 with the rule's own text."""
    return TableError(STREAM_INVALID_CONFIG, err=reason)
