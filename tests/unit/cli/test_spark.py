"""What `slipstream spark` makes of Spark's errors."""

from __future__ import annotations

import click
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from slipstream.cli.connection import Failure
from slipstream.cli.spark import running
from slipstream.spark.jobs import Report

ERASED = """\
Erase done

   Record: lake/_erasures/20261115T123703Z-7990c35387b6be2e.json
    Bytes: 14 KiB
  SHA-256:
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
     Took: 3.42s
"""

NOTHING = """\
Archive done

          Stream: ORDERS
  Archived up to: 5,630
        Messages: 0
"""

LETTERS = """\
Count of dead letters done

  Letters: 3

╭──────────────────────────╮
│         By cause         │
├────────────────┬─────────┤
│ Reason         │ Letters │
├────────────────┼─────────┤
│ max deliveries │       3 │
╰────────────────┴─────────╯
"""

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


def test_masters_that_are_not_there_are_named() -> None:
    with pytest.raises(Failure, match="spark://box:7077 does not answer"), running._told_in_a_line("spark://box:7077"):
        raise Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat org.a")


def test_hashes_and_records_stay_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    record = "lake/_erasures/20261115T123703Z-7990c35387b6be2e.json"
    figures = {"record": record, "bytes": 14 << 10, "sha256": "0123456789abcdef" * 4, "seconds": 3.42}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")
    running._print(Report("erase", figures))
    assert click.unstyle(capsys.readouterr().out) == ERASED


def test_where_nothing_was_done_there_is_no_first_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    running._print(Report("archive", {"stream": "ORDERS", "first_seq": 5631, "archived_upto": 5630, "messages": 0}))
    assert capsys.readouterr().out == NOTHING


def test_columns_in_which_nothing_stands_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    cause = {"stream": "", "consumer": "", "reason": "max deliveries", "letters": 3}
    running._print(Report("dlq", {"letters": 3}, {"by_cause": [cause]}))
    assert capsys.readouterr().out == LETTERS
