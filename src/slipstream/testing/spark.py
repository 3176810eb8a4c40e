"""A Spark session for tests, as pytest fixtures; a plugin module for `pytest_plugins`.

    pytest_plugins = ["slipstream.testing.spark"]

    def test_orders(spark, nats_server):
        frame = spark.read.format("slipstream").options(servers=nats_server.url, stream="ORDERS").load()

One session serves the whole run. With pytest-xdist keep tests that use it in one file or directory and use
`--dist loadfile` or a scheduler of your own, or every worker starts a Java machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from slipstream.spark.runtime.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark", "spark_arguments"]


@pytest.fixture(scope="session")
def spark_arguments() -> dict[str, Any]:
    """Arguments of `slipstream.spark.session`; override the fixture to add some."""
    return {}


@pytest.fixture(scope="session")
def spark(spark_arguments: dict[str, Any]) -> Iterator[SparkSession]:
    """A session with the profile `test`: quick to start, two cores."""
    running = session("test", **spark_arguments)
    yield running
    running.stop()
