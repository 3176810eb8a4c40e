"""Messages out of a stream and its table, without Spark; the record is that of `slipstream.spark.jobs.erase`.

The stream comes first: a writer that reads it afterwards does not bring them back, and one that has read it before
finds the table changed when it commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slipstream.lake.delta_table import DeltaStreamTable
from slipstream.lake.iceberg_table import IcebergStreamTable
from slipstream.spark.jobs.erase import erase as erase_job
from slipstream.spark.lake.base import LakeError

if TYPE_CHECKING:
    from slipstream.bulk import ConnectOptions
    from slipstream.lake.tables import LakeTable

__all__ = ["erase"]


def erase(
    table: LakeTable,
    subjects: Sequence[str],
    *,
    stream: str,
    reach: ConnectOptions | None,
    reason: str = "",
    record: str | None = None,
) -> dict[str, Any]:
    """Erase all messages whose subject matches.

    Args:
        table: of the stream.
        subjects: filters, with or without wildcards.
        stream: its name.
        reach: the server; None: the table alone.
        reason: kept in the record.
        record: directory of the record; by default with a Delta table, else `erasures` here.

    Returns:
        What was done.

    Raises:
        SlipstreamError: something could not be erased; a second call goes on.
    """
    live = stream if reach is not None else None
    if isinstance(table, DeltaStreamTable):
        done = erase_job(
            None, subjects, stream=live, location=table.place, reach=reach, reason=reason, record=record
        ).figures
        return {
            "stream_messages": done["stream_messages"],
            "table_messages": done["archive_messages"],
            "record": done["record"],
        }
    if not isinstance(table, IcebergStreamTable):
        raise LakeError(f"{table.place} is no table that messages can be erased in")
    if live is None:
        return {"stream_messages": 0, "table_messages": table.erase(subjects), "record": ""}
    done = erase_job(
        None, subjects, stream=live, reach=reach, reason=reason, record=record, note=table.note_erased
    ).figures
    return {
        "stream_messages": done["stream_messages"],
        "table_messages": table.erase(subjects),
        "record": done["record"],
    }
