"""Options of the block `declared`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.config.record import Record

if TYPE_CHECKING:
    from slipstream.config.parser import Value

__all__ = ["DeclaredOptions"]


class DeclaredOptions(Record, uncompared=("block",)):
    """`declared` of `jetstream`, of the server or of an account: checked, but read where the API is known."""

    text: str  # what is written, as JSON: two blocks with the same declare the same
    block: Value
