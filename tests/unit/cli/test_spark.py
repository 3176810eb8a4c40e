"""What `slipstream spark` makes of Spark's errors."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from slipstream.cli.connection import Failure
from slipstream.cli.spark import running

LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most "
    "recent failure: Lost task 0.0 in stage 2.0 (TID 1) (localhost executor driver): java.io.IOException: Mkdirs failed"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Py4JError("org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat org.a"), "Could not parse"),
        (PySparkException(f"\n{LOST}\n\tat java.base/x"), "Mkdirs failed"),
        (Py4JNetworkError("Error while sending: nobody listens"), "Error while sending: nobody listens"),
        (Py4JError(""), "it failed without a word"),
    ],
)
def test_errors_of_spark_are_told_in_a_line(error: Exception, said: str) -> None:
    with pytest.raises(Failure) as caught, running._told_in_a_line():
        raise error
    assert caught.value.message.startswith(f"Spark: {said}")
    assert "\n" not in caught.value.message and "SparkException" not in caught.value.message
