"""`slipstream dashboard` finds the page, or says how to have one."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from slipstream.testing import ServerThread
from support.cli import Cli


def test_it_opens_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    with ServerThread(http_host="127.0.0.1", http_port=-1) as server:
        assert server.server.monitoring is not None
        address = server.server.monitoring.url
        cli = Cli(tmp_path, server.url)
        for given in (address, f"{address}/", f"{address}/ui"):
            assert cli.call("dashboard", "--http", given).stdout == f"{address}/ui/\n"
        assert opened == [f"{address}/ui/"] * 3
        assert cli.call("ui", "--http", address, "--print").stdout == f"{address}/ui/\n"
        assert len(opened) == 3


def test_without_a_browser_the_address_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    with ServerThread(http_host="127.0.0.1", http_port=-1) as server:
        assert server.server.monitoring is not None
        address = server.server.monitoring.url
        result = Cli(tmp_path, server.url).call("dashboard", "--http", address, status=1)
        assert f"{address}/ui/" in result.output and "no browser here" in result.output


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "nonsense"])
def test_where_there_is_none_it_says_what_to_do(tmp_path: Path, address: str) -> None:
    result = Cli(tmp_path).call("dashboard", "--http", address, status=1)
    assert "There is no dashboard at" in result.output and "dashboard: true" in result.output


def test_a_server_without_it(tmp_path: Path) -> None:
    with ServerThread(http_host="127.0.0.1", http_port=-1, dashboard=False) as server:
        assert server.server.monitoring is not None
        result = Cli(tmp_path, server.url).call("dashboard", "--http", server.server.monitoring.url, status=1)
        assert "There is no dashboard at" in result.output
