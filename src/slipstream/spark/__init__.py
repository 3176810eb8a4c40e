"""Streams as Spark tables: `spark.read.format("slipstream")`, `spark.readStream`, `df.write`, and a session that fits.

    import slipstream.spark

    spark = slipstream.spark.session()
    orders = spark.read.format("slipstream").option("stream", "ORDERS").load()

Spark finds the format by itself in every session: the package `pyspark_slipstream` is on its path. Importing this
package needs neither pyspark nor Java; using it says what is missing.
"""

from __future__ import annotations

from slipstream.spark.errors import DataLoss, OptionError, SchemaError, SetupError, SparkSideError
from slipstream.spark.session import configure, prepare, session
from slipstream.spark.union import table

__all__ = [
    "DataLoss",
    "OptionError",
    "SchemaError",
    "SetupError",
    "SparkSideError",
    "configure",
    "prepare",
    "session",
    "table",
]
