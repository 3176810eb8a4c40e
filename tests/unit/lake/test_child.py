"""The process of `lake { … }`: what it is told, what it tells, and when it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slipstream.config.lake_options import LakeOptions
from slipstream.lake import child
from slipstream.server.jetstream.lake_writers import child_settings
from slipstream.testing import ServerThread
from support.spark_streams import Streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: Any) -> tuple[int, list[Any]]:
    """Status and lines of a process whose server asks for the end at once."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(settings) + "\n"))
    monkeypatch.setattr(child, "_NICENESS", 0)
    status = child.main()
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (LakeOptions("x", "iceberg", catalog={"type": "strange"}), "strange"),
        (LakeOptions("s3://bucket/x", "iceberg"), "name the catalogue"),
        (LakeOptions("x", "iceberg", streams=("A",), columns="id"), "no column such as"),
    ],
)
def test_what_cannot_be_is_one_line(
    options: LakeOptions,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status, lines = told(monkeypatch, capsys, child_settings(options, "nats://127.0.0.1:1"))
    assert status == 1 and len(lines) == 1 and said in lines[0]["error"]


def test_secrets_are_used_and_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slipstream.bulk import ConnectOptions
    from slipstream.config.account_options import AuthorizationOptions
    from slipstream.lake.service import LakeService, TurnReport

    seen: list[ConnectOptions] = []
    turns: list[TurnReport] = []

    def run(service: LakeService, _every: float, _stop: Any, tell: Any, _failed: Any) -> None:
        seen.append(service._reach)
        turns.append(service.turn())
        tell(turns[-1])

    monkeypatch.setattr(LakeService, "run", run)
    authorization = AuthorizationOptions(defined=True, user="u", password="hidden-password")
    with ServerThread(store_dir=str(tmp_path / "server"), authorization=authorization) as server:
        url = server.url.replace("nats://", "nats://u:hidden-password@")
        streams = Streams(url)
        streams.create("ORDERS")
        streams.fill("ORDERS", 5)
        options = LakeOptions(str(tmp_path / "lake"), user="u", password="hidden-password")
        status, lines = told(monkeypatch, capsys, child_settings(options, server.url))
    assert status == 0 and lines[0]["streams"][0]["upto"] == 5 and turns[0].written == 5
    assert "hidden" not in repr(seen) and "hidden" not in json.dumps(lines)
