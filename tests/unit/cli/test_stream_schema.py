"""`slipstream stream schema`, through the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstream.testing import ServerThread
from support.cli import Cli

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("schemas"))) as running:
        yield running


@pytest.fixture
def cli(server: ServerThread, tmp_path: Path) -> Cli:
    return Cli(tmp_path, server.url)


def test_from_registering_to_forgetting(cli: Cli, tmp_path: Path) -> None:
    file, good, bad = tmp_path / "order.json", tmp_path / "good", tmp_path / "bad"
    file.write_text(json.dumps(ORDER))
    good.write_text('{"id": 7}')
    bad.write_text("{}")
    cli.call("stream", "add", "ORDERS", "--subjects", "orders.>", "--defaults")
    schema = ("stream", "schema")
    assert "has version 1" in cli.call(*schema, "add", "ORDERS", "order", str(file), "--subjects", "orders.*").stdout
    assert "has version 1" in cli.call(*schema, "add", "ORDERS", "order", str(file)).stdout  # the same once more
    assert "Fits" in cli.call(*schema, "check", "ORDERS", "orders.eu", str(good)).stdout
    assert "required" in cli.call(*schema, "check", "ORDERS", "orders.eu", str(bad), status=1).stderr
    assert "about other" in cli.call(*schema, "check", "ORDERS", "other", str(bad), status=1).stderr

    cli.call("pub", "--js", "orders.eu", "no JSON")  # nothing is checked yet
    cli.call(*schema, "enforce", "ORDERS", "reject")
    assert "does not fit the schema order" in cli.call("pub", "--js", "orders.eu", "no JSON", status=1).stderr
    cli.call(*schema, "enforce", "ORDERS", "deadletter", "--letters", "dead")
    cli.call("pub", "--js", "orders.eu", "no JSON")
    assert "dead.orders.eu" in cli.call("stream", "get", "ORDERS", "2").stdout

    file.write_text(json.dumps({**ORDER, "required": ["id", "note"]}))
    assert "not backward" in cli.call(*schema, "add", "ORDERS", "order", str(file), status=1).stderr
    file.write_text(json.dumps({**ORDER, "title": "an order"}))
    assert "has version 2" in cli.call(*schema, "add", "ORDERS", "order", str(file)).stdout
    (listed,) = cli.json(*schema, "ls", "ORDERS", "--json").values()
    assert (listed["subjects"], len(listed["versions"])) == (["orders.*"], 2)
    assert "order" in cli.call(*schema, "ls", "ORDERS").stdout
    assert "2 of 2" in cli.call(*schema, "info", "ORDERS", "order").stdout
    first = cli.call(*schema, "info", "ORDERS", "order", "--version", "1", "--definition").stdout
    assert json.loads(first) == ORDER
    assert "2 versions" in cli.call(*schema, "info", "ORDERS", "order", "--version", "3", status=1).stderr

    cli.call(*schema, "enforce", "ORDERS", "off")
    cli.call(*schema, "rm", "ORDERS", "order", "--force")
    assert cli.json(*schema, "ls", "ORDERS", "--json") == {}
    assert "no schema order" in cli.call(*schema, "info", "ORDERS", "order", status=1).stderr
