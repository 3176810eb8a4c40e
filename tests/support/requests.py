"""Requests whose answers are JSON: sent by a raw peer, taken out of its record, shown by their form."""

from __future__ import annotations

import json

from support.normalise import Json
from support.transcript import Peer, Talk, pub

_INBOX = "in.json"


def request(peer: Peer, subject: str, payload: bytes = b"") -> Json:
    """The JSON answer to one request, or the text of its status header; nothing of it stays in the peer's record."""
    peer.send(b"SUB %b json\r\nUNSUB json 1\r\n" % _INBOX.encode() + pub(subject, payload, _INBOX))
    _, body = _next_message(peer)
    peer.sync()
    peer.received.clear()
    return body


def next_event(peer: Peer) -> tuple[str, Json]:
    """Subject and JSON of the next message; nothing of it stays in the peer's record."""
    event = _next_message(peer)
    peer.received.clear()
    return event


def note_json(talk: Talk, title: str, value: Json) -> None:
    """Adds a JSON value to the record, one key a line."""
    talk.note(f"{title}: {json.dumps(value, indent=1, sort_keys=True)}")


def _next_message(peer: Peer) -> tuple[str, Json]:
    head = peer.until(rb"H?MSG [^\r]*\r\n")
    if peer.closed:
        raise ConnectionError(f"closed instead of an answer: {head!r}")
    words = head.split(b"\r\n")[-2].split()
    payload = peer.client.read_exactly(int(words[-1]) + 2)[:-2]
    header_size = int(words[-2]) if words[0] == b"HMSG" else 0
    body = payload[header_size:]
    return words[1].decode(), json.loads(body) if body else payload.decode()
