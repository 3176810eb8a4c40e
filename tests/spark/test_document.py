"""The examples of Spark, in the documentation and beside it, run in the session of these tests."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.server_process import ServerProcess

pytestmark = pytest.mark.timeout(300)
DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=str(path.relative_to(DOCUMENTS)))
    for path in sorted(DOCUMENTS.rglob("*.md"))
    for code in BLOCK.findall(path.read_text())
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_example(own_node: ServerProcess, spark: SparkSession, code: str) -> None:
    names: dict[str, object] = {}
    exec(compile(code.replace("nats://127.0.0.1:4222", own_node.url), "example", "exec"), names)
    assert names["spark"] is spark


def test_the_pipeline(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda session: session is spark)  # others go on with it
    runpy.run_path(str(DOCUMENTS.parent / "examples" / "spark_pipeline.py"))["main"]()
    assert "of 10000 orders" in capsys.readouterr().out


def test_state_by_key(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda session: session is spark)
    runpy.run_path(str(DOCUMENTS.parent / "examples" / "spark_state.py"))["main"]()
    assert "alarms, each once" in capsys.readouterr().out
