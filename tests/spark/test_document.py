"""The example in the documentation runs, in the session of these tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.server_process import ServerProcess

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "features" / "spark.md"


def test_the_example(own_node: ServerProcess, spark: SparkSession) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for code in blocks:
        names: dict[str, object] = {}
        exec(compile(code.replace("nats://127.0.0.1:4222", own_node.url), str(DOCUMENT), "exec"), names)
        assert names["spark"] is spark
