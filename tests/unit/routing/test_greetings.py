"""INFO is remembered, and is what it would be if it were not."""

from __future__ import annotations

import json

from slipstream.protocol.info import ServerInfo, encode_info
from support.config_loading import loaded
from support.hub_world import HubClient, HubWorld


def _info(world: HubWorld, client: HubClient, **how: bool) -> dict[str, object]:
    line = world.hub.info_line(client.connection, **how)
    assert line.startswith(b"INFO {") and line.endswith(b"} \r\n")
    found: dict[str, object] = json.loads(line[5:])
    return found


def test_each_client_has_its_own_and_the_rest_is_the_same() -> None:
    world = HubWorld("accounts { A { users [ { user: a, password: a } ] } }")
    first, second = (world.open(ip=ip) for ip in ("192.0.2.7", "::1"))
    ours, theirs = _info(world, first), _info(world, second)
    assert (ours.pop("client_id"), ours.pop("client_ip")) == (1, "192.0.2.7")
    assert (theirs.pop("client_id"), theirs.pop("client_ip")) == (2, "::1")
    assert ours == theirs
    assert ours["auth_required"] is True


def test_fields_come_in_their_order() -> None:
    world = HubWorld("")
    client = world.open()
    client.connection.nonce = "abc"
    line = world.hub.info_line(client.connection)
    assert line == encode_info(ServerInfo(**json.loads(line[5:])))
    assert b'"client_id":1,"client_ip":"192.0.2.7","nonce":"abc"' in line


def test_what_changes_is_said() -> None:
    world = HubWorld("accounts { A { users [ { user: a, password: a } ] } }")
    client = world.open()
    assert "ldm" not in _info(world, client)
    assert _info(world, client, lame_duck=True)["ldm"] is True
    world.hub.connect_urls.append("192.0.2.1:4222")
    assert _info(world, client)["connect_urls"] == ["192.0.2.1:4222"]
    world.hub.cluster_name = "C"
    world.hub.jetstream = True
    assert (_info(world, client)["cluster"], _info(world, client)["jetstream"]) == ("C", True)
    client.connect(user="a", **{"pass": "a"})
    after = _info(world, client, after_connect=True)
    assert (after["connect_info"], after["remote_account"]) == (True, "A")
    client.connection.parser.max_payload = 77
    assert _info(world, client)["max_payload"] == 77


def test_other_options_make_other_lines() -> None:
    world = HubWorld("")
    client = world.open()
    assert "auth_required" not in _info(world, client)
    world.hub.reload(loaded("authorization { user: a, password: b }").options)
    assert _info(world, client)["auth_required"] is True


def test_a_websocket_has_its_own_place() -> None:
    world = HubWorld("")
    world.hub.websocket_host, world.hub.websocket_port = "ws.example", 443
    world.hub.websocket_urls.append("ws.example:443")
    plain, browser = world.open(), world.open(kind="websocket")
    assert "connect_urls" not in _info(world, plain)
    found = _info(world, browser)
    assert (found["host"], found["port"], found["connect_urls"]) == ("ws.example", 443, ["ws.example:443"])
