"""Peers on the gateway port that break the rules: answered and ended as nats-server does, and others are served on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.clusters import DEADLINE, HAS_NATS_SERVER, Node, connected
from support.ports import free_port

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")


def connect(**fields: object) -> bytes:
    told = {"verbose": False, "pedantic": False, "tls_required": False, "name": "PEER", "gateway": "G", **fields}
    return f"CONNECT {json.dumps(told)}\r\n".encode()


def info(**fields: object) -> bytes:
    told = {
        "server_id": "PEER",
        "server_name": "peer",
        "gateway": "G",
        "version": "2.15.1",
        "proto": 1,
        "host": "127.0.0.1",
        "port": 1,
        "headers": True,
        "gateway_nrp": True,
        "gateway_urls": ["127.0.0.1:1"],
        **fields,
    }
    return f"INFO {json.dumps(told)}\r\n".encode()


ACCOUNTS = "accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: a"
READY = connect() + info()
EARLY = {
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"RS+ A foo\r\n",
    b"RS- A foo\r\n",
    b"RMSG A foo 2\r\nhi\r\n",
    b"HMSG A foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"A+ A\r\n",
    b"A- A\r\n",
    b"LS+ foo\r\n",
    b"LMSG foo 2\r\nhi\r\n",
    b"SUB foo 1\r\n",
    b"UNSUB 1\r\n",
    b"PUB foo 2\r\nhi\r\n",
    b"MSG foo 1 2\r\nhi\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    info(),
}
SENT = {
    **{f"before CONNECT: {line[:6]!r}": line for line in sorted(EARLY)},
    "a client": b'CONNECT {"lang":"go","verbose":false}\r\n',
    "a route": b'CONNECT {"name":"PEER","cluster":"C"}\r\n',
    "no JSON": b"CONNECT {nope\r\n",
    "a list": b"CONNECT []\r\n",
    "a number for a name": b'CONNECT {"gateway": 7}\r\n',
    "INFO without sense": connect() + b"INFO {nope\r\n",
    "INFO twice": READY + info(),
    "INFO of another cluster later": READY + info(gateway="H"),
    "a server's own name": connect() + info(server_name="s0"),
    "interest": READY + b"RS+ A foo\r\n",
    "no interest": READY + b"RS- A foo\r\n",
    "interest of a leaf": READY + b"LS+ foo\r\n",
    "a leaf's message": READY + b"LMSG O A foo 2\r\nhi\r\n",
    "an account that is not there": READY + b"RMSG NOBODY foo 2\r\nhi\r\nRMSG NOBODY foo 2\r\nhi\r\n",
    "a command that nobody knows": READY + info(gateway_cmd=77),
    "a body that does not end": READY + b"RMSG A foo 2\r\nhixx",
    "a line that does not end": READY + b"RMSG " + b"x" * 300_000,
    "a CONNECT that does not end": b"CONNECT " + b"x" * 300_000,
    "a subject with a hole": READY + b"RMSG A foo..bar 2\r\nhi\r\n",
    "half an address": READY + b"RMSG A _GR_.x 2\r\nhi\r\n",
    "the address of another cluster": READY + b"RMSG A _GR_.abcdef.abcdef.foo 2\r\nhi\r\n",
}


async def heard(port: int, sent: bytes) -> tuple[bool, list[str]]:
    """Whether a peer that says this is ended, and what it is told apart from interest."""
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        assert (await reader.readline()).startswith(b"INFO ")
        writer.write(sent + b"PING\r\n")
        told: list[str] = []
        try:
            while line := await reader.readline():
                if line.startswith((b"-ERR", b"A-")):
                    told.append(line.decode().strip())
                elif line == b"PONG\r\n":
                    return False, told
        except ConnectionError:
            pass
        finally:
            writer.close()
        return True, told


async def test_what_a_peer_must_not_say(tmp_path: Path) -> None:
    found: list[dict[str, tuple[bool, list[str]]]] = []
    for kind in "no":
        node, port = Node(kind, 0, tmp_path), free_port()
        gateway = f'gateway {{ name: C, listen: "127.0.0.1:{port}" }}'
        await node.start(node.text([], more=f"{gateway}\n{ACCOUNTS}"))
        try:
            client = await connected(node.url)
            found.append({name: await heard(port, sent) for name, sent in SENT.items()})
            await client.flush(timeout=5)  # nobody else noticed
            await client.close()
        finally:
            await node.stop()
    theirs, ours = found
    assert {name: (ours[name], theirs[name]) for name in SENT if ours[name] != theirs[name]} == {}


@pytest.mark.parametrize("claims", ["H", "C", ""])
async def test_who_came_as_one_cluster_does_not_speak_for_another(claims: str, tmp_path: Path) -> None:
    """nats-server lets it in, and would dial the cluster that it made up, also with `reject_unknown_cluster`."""
    node, port = Node("o", 0, tmp_path), free_port()
    gateway = (
        f'gateway {{ name: C, listen: "127.0.0.1:{port}", reject_unknown_cluster: true\n'
        'gateways: [{ name: G, url: "nats://127.0.0.1:1" }] }\n'
    )
    await node.start(node.text([], more=gateway))
    try:
        assert node.server is not None and node.server.supercluster is not None
        assert (await heard(port, connect() + info(gateway=claims)))[0]
        assert set(node.server.supercluster.clusters.remotes) == {"G"} and not node.server.supercluster.inbound
        assert not (await heard(port, READY))[0]
    finally:
        await node.stop()
