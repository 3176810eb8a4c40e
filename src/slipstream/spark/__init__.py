"""Streams as Spark tables: `spark.read.format("slipstream")`, `spark.readStream`, `df.write`, and a session that fits.

    import slipstream.spark

    spark = slipstream.spark.session()
    orders = spark.read.format("slipstream").option("stream", "ORDERS").load()

Spark finds the format by itself in every session: the package `pyspark_slipstream` is on its path. Importing this
package needs neither pyspark nor Java; using it says what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.spark.runtime.errors import DataLoss, OptionError, SchemaError, SetupError, SparkSideError
from slipstream.spark.runtime.session import configure, prepare, session
from slipstream.spark.runtime.target import Reach
from slipstream.spark.source.progress import lag, lag_listener

if TYPE_CHECKING:
    from slipstream.spark.stream_table import table as table

__all__ = [
    "DataLoss",
    "OptionError",
    "Reach",
    "SchemaError",
    "SetupError",
    "SparkSideError",
    "configure",
    "lag",
    "lag_listener",
    "prepare",
    "session",
    "table",
]


def __getattr__(name: str) -> object:
    if name == "table":  # its module needs pyspark
        from slipstream.spark.stream_table import table

        return table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
