"""The class that stands for testcontainers' NatsContainer."""

from __future__ import annotations

import inspect
import json
import urllib.request
from pathlib import Path

import pytest

from slipstream.client.options import ServerRefused
from slipstream.sync import connect
from slipstream.testing import NatsContainer


def test_a_server_with_jetstream_whose_streams_go_with_it() -> None:
    for _ in range(2):
        with NatsContainer(jetstream=True) as nats, connect(nats.nats_uri()) as client:
            client.jetstream().create_stream("ORDERS", subjects=["orders"])
            assert client.jetstream().publish("orders", b"x").seq == 1


def test_ports_are_found_by_those_of_the_container() -> None:
    with NatsContainer("nats:2.10-alpine", client_port=4333) as nats:
        host, port = nats.nats_host_and_port()
        assert nats.nats_uri() == f"nats://{host}:{port}" == f"nats://127.0.0.1:{nats.get_exposed_port(4333)}"
        monitoring = nats.nats_management_uri().replace("nats://", "http://")
        with urllib.request.urlopen(f"{monitoring}/varz") as answer:
            assert json.load(answer)["port"] == port
        with pytest.raises(ValueError, match="port 4222 is neither 4333 nor 8222"):
            nats.get_exposed_port(4222)


def test_flags_and_files_of_nats_server(tmp_path: Path) -> None:
    with NatsContainer().with_command("--user app --pass secret") as nats:
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            connect(nats.nats_uri())
        connect(nats.nats_uri(), user="app", password="secret").close()
    config = tmp_path / "server.conf"
    config.write_text(f'port: 4222\nserver_name: named\njetstream {{ store_dir: "{tmp_path}/js" }}')
    with NatsContainer().with_command(["-c", str(config)]) as nats, connect(nats.nats_uri()) as client:
        client.jetstream().create_stream("KEPT", subjects=["kept"])
    with NatsContainer().with_command(f"-js -sd {tmp_path}/js") as nats, connect(nats.nats_uri()) as client:
        assert client.jetstream().stream("KEPT").info()["config"]["subjects"] == ["kept"]


def test_what_cannot_be_started_is_said() -> None:
    with pytest.raises(ValueError, match="flag provided but not defined: -nonsense"):
        NatsContainer().with_command("-nonsense").start()
    nats = NatsContainer()
    with pytest.raises(ValueError, match="not running"):
        nats.nats_uri()
    nats.stop()


def test_it_has_what_the_original_has_of_its_own() -> None:
    """Its methods besides those that every container has; `testcontainers` 4.15."""
    own = {"nats_uri", "nats_host_and_port", "nats_management_uri", "start", "stop", "with_command"}
    assert own <= {name for name, _ in inspect.getmembers(NatsContainer, inspect.isfunction)}
