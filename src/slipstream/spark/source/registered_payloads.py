"""Payloads of a registered schema as structs (`slipstream.schemas.columns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slipstream.schemas.columns import arrow_columns, payload_decoder
from slipstream.spark.source.json_payloads import PayloadError, structs_of

if TYPE_CHECKING:
    from slipstream.schemas.registered import RegisteredSchema

__all__ = ["RegisteredPayloads"]


class RegisteredPayloads:
    """What reads payloads of one schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        """Make ready.

        Raises:
            SchemaProblem: its payloads cannot be columns.
        """
        self.columns = arrow_columns(schema)
        self._decode = payload_decoder(schema)

    def structs_of(self, array: pa.Array, wanted: pa.StructType, errors_fail: bool) -> pa.Array:
        """See `json_payloads.structs_of`."""
        if self._decode is None:
            return structs_of(array, wanted, errors_fail)
        rows = []
        for payload in array.to_pylist():
            members = None if payload is None else self._decode(payload)
            if members is None and payload is not None and errors_fail:
                raise PayloadError("a payload does not fit the registered schema; payloadErrors=null reads it as null")
            rows.append(members)
        try:
            return pa.array(rows, wanted)
        except pa.ArrowException:  # a value out of the range of its type: its row is found alone
            return pa.concat_arrays([_alone(row, wanted, errors_fail) for row in rows])


def _alone(row: object, wanted: pa.StructType, errors_fail: bool) -> pa.Array:
    try:
        return pa.array([row], wanted)
    except pa.ArrowException as error:
        if errors_fail:
            raise PayloadError(f"a payload does not fit its columns: {error}") from error
        return pa.nulls(1, wanted)
