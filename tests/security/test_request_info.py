"""`Nats-Request-Info` tells a service who asks. Only the server writes it, whatever a client sends."""

from __future__ import annotations

import email.parser
import json

import pytest

from support.hub_world import HubClient, HubWorld

CHAIN = """
accounts {
  C: { users = [{ user: c, password: c }], exports = [{ service: deep }, { service: other }] }
  A: {
    users = [{ user: a, password: a }]
    imports = [{ service: { account: C, subject: deep } }]
    exports = [{ service: deep }, { service: svc, response_type: stream }]
  }
  B: {
    users = [{ user: b, password: b }]
    imports = [
      { service: { account: A, subject: svc } }
      { service: { account: A, subject: deep } }
      { service: { account: C, subject: other } }
    ]
  }
}
"""
SPOOF = b'Nats-Request-Info: {"acc":"SPOOFED"}'
SPELLINGS = {
    "as it is": b"NATS/1.0\r\n" + SPOOF + b"\r\n\r\n",
    "twice": b"NATS/1.0\r\n" + SPOOF + b"\r\n" + SPOOF + b"\r\n\r\n",
    "lower case": b"NATS/1.0\r\n" + SPOOF.replace(b"Nats-Request-Info", b"nats-request-info") + b"\r\n\r\n",
    "mixed case": b"NATS/1.0\r\n" + SPOOF.replace(b"Nats-Request-Info", b"nAtS-ReQuEsT-iNfO") + b"\r\n\r\n",
    "blank before the colon": b"NATS/1.0\r\n" + SPOOF.replace(b"Info:", b"Info :") + b"\r\n\r\n",
    "tab before the colon": b"NATS/1.0\r\n" + SPOOF.replace(b"Info:", b"Info\t:") + b"\r\n\r\n",
    "blank in front": b"NATS/1.0\r\n " + SPOOF + b"\r\n\r\n",
    "folded": b'NATS/1.0\r\nNats-Request-Info:\r\n {"acc":"SPOOFED"}\r\n\r\n',
    "behind a line feed": b"NATS/1.0\r\nA: b\n" + SPOOF + b"\r\n\r\n",
    "behind a carriage return": b"NATS/1.0\r\nA: b\r" + SPOOF + b"\r\n\r\n",
    "line feeds only": b"NATS/1.0\n" + SPOOF + b"\n\n",
    "no end of line": b"NATS/1.0\r\n" + SPOOF,
    "no end of line, two bytes to lose": b"NATS/1.0\r\n" + SPOOF + b"\nXX",
    "no blank line": b"NATS/1.0\r\n" + SPOOF + b"\r\n",
    "no version": SPOOF + b"\r\n\r\n",
    "between others": b"NATS/1.0\r\nA: b\r\n" + SPOOF + b"\r\nC: d\r\n\r\n",
}


def _hpub(subject: str, block: bytes, reply: str = "") -> bytes:
    return f"HPUB {subject} {reply} {len(block)} {len(block) + 1}\r\n".encode() + block + b"x\r\n"


def _user(world: HubWorld, name: str, ops: bytes = b"") -> HubClient:
    return world.connect(user=name, **{"pass": name}).send(ops)


def _block(received: bytes) -> bytes:
    """The header block of the only message."""
    line, _, rest = received.partition(b"\r\n")
    assert line.startswith(b"HMSG ") and received.count(b"HMSG ") == 1, received
    return rest[: int(line.split()[-2])]


def _says_only(account: str, block: bytes) -> bool:
    """Whether this is what readers find: one that knows CRLF and exact keys only, and a lenient one."""
    exact = [
        line[len(b"Nats-Request-Info:") :] for line in block.split(b"\r\n") if line.startswith(b"Nats-Request-Info:")
    ]
    # nats-py reads headers like those of a mail: any line end, any case, folded lines.
    mail = email.parser.BytesParser().parsebytes(block.split(b"NATS/1.0", 1)[-1].lstrip(b"\r\n"))
    lenient = [value.encode() for key, value in mail.items() if key.strip().lower() == "nats-request-info"]
    named = [json.loads(value)["acc"] for value in exact + lenient]
    return b"SPOOFED" not in block and len(exact) == 1 and set(named) == {account}


@pytest.mark.parametrize("block", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_client_cannot_say_who_it_is(block: bytes) -> None:
    """CVE-2026-33246, CVE-2026-33223: the header is taken off in every spelling and written anew."""
    world = HubWorld(CHAIN)
    service = _user(world, "a", b"SUB svc 1\r\n")
    _user(world, "b", _hpub("svc", block))
    assert _says_only("B", _block(service.take()))


@pytest.mark.parametrize("block", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_nor_through_a_chain_of_imports(block: bytes) -> None:
    """CVE-2026-33223: the second hop does not believe the header but knows who asked."""
    world = HubWorld(CHAIN)
    service = _user(world, "c", b"SUB deep 1\r\n")
    _user(world, "b", _hpub("deep", block))
    assert _says_only("B", _block(service.take()))


@pytest.mark.parametrize("block", [*SPELLINGS.values(), b'NATS/1.0\r\nNats-Request-Info: {"acc\r\n\r\n'])
def test_nor_by_an_answer_that_becomes_a_request(block: bytes) -> None:
    """CVE-2026-33246: an answer is published by the server, yet its headers are those of the client that answered."""
    world = HubWorld(CHAIN)
    service = _user(world, "c", b"SUB other 1\r\n")
    helper = _user(world, "a", b"SUB svc 1\r\n")
    _user(world, "b", b"PUB svc other 0\r\n\r\n")
    way_back = helper.take().split()[3].decode()
    helper.send(_hpub(way_back, block))
    received = service.take()
    assert received and b"SPOOFED" not in received and b'"acc' not in received


def test_other_headers_stay_as_they_are() -> None:
    world = HubWorld(CHAIN)
    service = _user(world, "a", b"SUB svc 1\r\n")
    _user(world, "b", _hpub("svc", b"NATS/1.0\r\nA:  b \r\na: c\r\nNats-Request-Infos: x\r\n\r\n"))
    assert _block(service.take()).startswith(
        b"NATS/1.0\r\nA:  b \r\na: c\r\nNats-Request-Infos: x\r\nNats-Request-Info: {"
    )
