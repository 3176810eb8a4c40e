"""Makes Spark find the format `slipstream` by itself: it looks for `DefaultSource` in packages named `pyspark_*`."""

from __future__ import annotations

from slipstream.spark.data_source import SlipstreamSource as DefaultSource

__all__ = ["DefaultSource"]
