"""Columns of the schema that is registered for a stream: those of its newest version, whenever that changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream.schemas.errors import SchemaProblem
from slipstream.spark.lake.base import LakeError
from slipstream.spark.lake.files import SCHEMA
from slipstream.spark.source.registered_payloads import RegisteredPayloads
from slipstream.spark.source.registered_schemas import find_schema

if TYPE_CHECKING:
    from slipstream.schemas.registered import RegisteredSchema

__all__ = ["RegisteredColumns"]


class RegisteredColumns:
    """What is registered now, and what reads payloads of it."""

    def __init__(self, name: str) -> None:
        """Nothing is known before `follow`; without a name it is the only schema of the stream."""
        self._name = name
        self._schema: RegisteredSchema | None = None
        self._payloads: RegisteredPayloads | None = None

    def follow(self, info: Mapping[str, Any]) -> bool:
        """Take what a stream's configuration says; whether that is something new.

        Raises:
            LakeError: there is no such schema, or it cannot be columns of this table.
        """
        try:
            found = find_schema(info, self._name)
            if found == self._schema:
                return False
            payloads = RegisteredPayloads(found)
        except SchemaProblem as error:
            raise LakeError(str(error)) from error
        taken = [name for name in payloads.columns.names if name.lower() in SCHEMA.names]
        if taken:
            raise LakeError(f"the table has a column {taken[0]!r} already; name the columns instead of the schema")
        self._schema, self._payloads = found, payloads
        return True

    @property
    def columns(self) -> pa.Schema:
        """Of the newest version that was seen."""
        assert self._payloads is not None
        return self._payloads.columns

    def structs_of(self, array: pa.Array, wanted: pa.StructType, errors_fail: bool) -> pa.Array:
        """See `json_payloads.structs_of`."""
        assert self._payloads is not None
        return self._payloads.structs_of(array, wanted, errors_fail)
