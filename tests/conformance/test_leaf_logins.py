"""Leaf nodes that somebody else decides about: auth callouts ask what nats-server asks, OpenID tokens let leafs in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conformance.test_auth_callout import CONFIG, SEALED, let_in
from slipstream.auth.callout.keys import ServerKeys
from support.callout_service import XKEYS, Answer, Service, normalised
from support.leaf_world import LeafWorld, until, until_shown
from support.normalise import Json
from support.openid_issuer import Issuer
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both

_LEAF_PORT = re.compile(r"Listening for leafnode connections on \S+:(\d+)")


def by_leaf(
    server: ServerProcess, service: Service, answer: Answer | None, said: dict[str, Json]
) -> tuple[str, bool, str, Json]:
    """The request, whether the leaf came in, what it was refused with, and the rights that it was told of."""
    found = _LEAF_PORT.search(server.wait_for_log(_LEAF_PORT))
    assert found is not None
    with RawClient(int(found[1])) as client:
        client.read_until(rb"INFO .*\r\n")
        about = {"name": "leaf", "server_id": "LEAF", "cluster": "leaf", "headers": True, "version": "2.15.1"}
        client.send(b"CONNECT " + json.dumps(about | said).encode() + b"\r\n")
        asked = ""
        if answer is not None:
            request = service.request()
            asked = normalised(request)
            service.decide(request, answer)
        lines, _ = client.read_until_or_close(rb"(INFO [^\r]*|-ERR [^\r]*)\r\n")
        info = re.search(rb"INFO ([^\r]*)\r\n", lines)
        told = json.loads(info[1]) if info is not None else {}
        rights = {name: told.get(name) for name in ("remote_account", "import", "export")}
        refused = re.search(rb"-ERR [^\r]*", lines)
        return asked, info is not None, "" if refused is None else refused[0].decode(), rights


@pytest.mark.parametrize("xkeys", [None, XKEYS])
def test_auth_callouts_are_asked_about_leaf_nodes(both: Both, xkeys: ServerKeys | None) -> None:
    pair = both(CONFIG % (SEALED if xkeys else "") + 'leafnodes { listen: "127.0.0.1:-1", compression: off }')
    services = [Service(server.port, xkeys=xkeys) for server in (pair.real, pair.ours)]
    rights: dict[str, Json] = {"pub": {"allow": ["p.>"], "deny": ["p.no"]}, "sub": {"allow": ["s.>"]}}
    cases: list[tuple[dict[str, Json], Answer | None]] = [
        ({"user": "u", "pass": "p"}, let_in("FOO")),
        ({"auth_token": "x"}, let_in("BAR")),
        ({}, let_in("FOO", **rights)),
        ({"user": "u"}, let_in("FOO", allowed_connection_types=["LEAFNODE"])),
        ({"user": "u"}, let_in("NOBODY")),
        ({"user": "u"}, lambda request: request.answer(error="NO")),
        ({"user": "auth", "pass": "pwd"}, None),
        ({"user": "auth", "pass": "no"}, None),
    ]
    for said, answer in cases:
        outcomes = [
            by_leaf(server, service, answer, said)
            for server, service in zip((pair.real, pair.ours), services, strict=True)
        ]
        if said.get("user") == "auth":
            # What nobody may publish in the account of a callout is told to leafs here, and kept silent there.
            outcomes = [(*outcome[:3], None) for outcome in outcomes]
        assert outcomes[0] == outcomes[1], said
    # Where nats-server lets it in: a user for clients of another kind alone.
    answer = let_in("FOO", allowed_connection_types=["WEBSOCKET"])
    assert by_leaf(pair.ours, services[1], answer, {"user": "u"})[1:3] == (False, "-ERR 'Authorization Violation'")
    for service in services:
        service.close()


@pytest.mark.parametrize("stops", [False, True])
async def test_a_token_of_an_openid_issuer_lets_a_leaf_in(stops: bool, tmp_path: Path) -> None:
    """The leaf has the account that its claims map to; keys that cannot be had let nobody in."""
    with Issuer() as issuer:
        block = f'issuer: "{issuer.url}", audience: nats'
        rules = "rules: [{ match { team: edge }, account: EDGE }]"
        config = f"accounts {{ EDGE {{}}, OTHER {{}} }}\nauthorization {{ oidc {{ {block}, {rules} }} }}"
        token = issuer.token(sub="leaf", aud="nats", team="edge")
        stranger = issuer.token(sub="leaf", aud="nats", team="other")
        if stops:
            issuer.behave("down")
        async with LeafWorld(tmp_path) as world:
            hub = await world.hub("o", more=config)
            refused = await world.leaf("o", hub, url=f"nats-leaf://{stranger}@127.0.0.1:{hub.leaf_port}")
            leaf = await world.leaf("o", hub, url=f"nats-leaf://{token}@127.0.0.1:{hub.leaf_port}")
            await until(lambda: "Authorization Violation" in refused.text())
            if stops:
                await until(lambda: "Authorization Violation" in leaf.text())
                assert (await hub.shown("/leafz"))["leafnodes"] == 0
                return
            shown = await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
            assert (shown["leafs"][0]["account"], shown["leafs"][0]["name"]) == ("EDGE", leaf.name)
