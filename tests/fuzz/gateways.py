"""Targets: what a server of another cluster says over a gateway, from its first byte on, to both sides of it."""

from __future__ import annotations

import base64
import json

from fuzz.target import ACCOUNT_COST, Target, cut, option
from slipstream.links.gateways.addresses import Address, short_hash
from slipstream.links.gateways.inbound import InboundGateway
from slipstream.links.gateways.outbound import OutboundGateway
from slipstream.protocol.host import State
from support.gateway_world import GatewayWorld, gateway_connect, gateway_info, said


def gateway_session(data: bytes) -> None:
    """Whatever comes is answered or ends the connection; nothing stays of one that ended, and others are served on."""
    flags, stream = option(data)
    world = GatewayWorld(clustered=True, reject_unknown_cluster=bool(flags & 2))
    others = (world.inbound("B"), world.outbound("B", server_name="b"), world.route())
    before = {name: account.interest.count for name, account in world.hub.accounts.items()}
    link: InboundGateway | OutboundGateway = world.accepted()
    if flags & 1:
        remote = world.gateways.clusters.remotes.setdefault("C", type(world.gateways.clusters.remotes["B"])("C"))
        link = world.gateways.dialled(link.peer, remote, world.gateways.clusters.remotes["B"].configured[0])
    for piece in cut(stream):
        if link.end.state is not State.CLOSED:
            link.parser.feed(piece)
    said(link)
    if link.end.state is State.CLOSED:
        assert link.cid not in world.gateways.inbound
        assert link not in world.gateways.outbound.values()
        assert {name: account.interest.count for name, account in world.hub.accounts.items()} == before
    for other in others:
        assert other.end.state is State.READY
        said(other)
        other.parser.feed(b"PING\r\n")
        assert said(other) == b"PONG\r\n"


def gateway_seeds() -> list[bytes]:
    """Handshakes of both sides, with interest and messages behind them."""
    here = Address.prefix(short_hash("A"), short_hash("SELF"))
    peer = Address.prefix(short_hash("A"), short_hash("PEER"))
    messages = (
        b"RMSG $G a.b 2\r\nhi\r\nRMSG $G a.b + r q 2\r\nhi\r\nHMSG $G a.b | q 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        + b"RMSG NOBODY a 0\r\n\r\nRMSG $G %ba.b 2\r\nhi\r\nRMSG $G %ba.b 2\r\nhi\r\n" % (here, peer)
        + b"RMSG $G a.b %br 0\r\n\r\nPING\r\nPONG\r\n" % here
    )
    account = base64.b64encode(b"$G").decode()
    commands = [
        b"INFO "
        + json.dumps({"gateway": "C", "gateway_cmd": number, "gateway_cmd_payload": account}).encode()
        + b"\r\n"
        for number in (2, 3)
    ]
    interest = b"RS+ $G a.b\r\nRS+ $G a.* q 3\r\nRS- $G a.b\r\nRS+ NEW x\r\nA- $G\r\nA+ $G\r\n-ERR 'x'\r\n+OK\r\n"
    gossip = gateway_info(gateway="D", gateway_cmd=1, gateway_urls=["d.example:7222"])
    inbound = gateway_connect(gateway="C") + gateway_info(gateway="C", gateway_urls=["c:1"]) + messages
    outbound = gateway_info(gateway="C", gateway_iom=True) + commands[0] + interest + commands[1] + gossip
    older = gateway_info(gateway="C") + interest + commands[0] + interest + commands[1] + interest
    return [b"\0" + inbound, b"\2" + inbound, b"\1" + outbound, b"\1" + older, b"\3" + outbound]


GATEWAY_WORDS = (
    *(b"RS+ ", b"RS- ", b"A+ ", b"A- ", b"RMSG ", b"HMSG ", b"INFO {", b"CONNECT {", b"_GR_.", b" q 1\r\n", b"$G "),
    *(
        b'"gateway":"C"',
        b'"gateway_cmd":1',
        b'"gateway_cmd":2',
        b'"gateway_cmd_payload":"JEc="',
        b'"gateway_urls":["',
        b'"gateway_iom":true',
    ),
)

TARGETS = (Target("gateway-session", gateway_session, gateway_seeds, GATEWAY_WORDS, ACCOUNT_COST),)
