"""Clients that come in over different doors of one server, and what reaches them."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from typing import NamedTuple

from support.raw_client import RawClient
from wsclient import WebSocketClient


class Received(NamedTuple):
    """One delivery."""

    sid: int
    subject: str
    reply: str
    body: bytes


class Client:
    """A user of the protocol at one door; everything it was told is kept until it is asked for."""

    def __init__(self, port: int, user: str, *, door: str = "tcp", tls: ssl.SSLContext | None = None) -> None:
        self._raw = RawClient(port, timeout_s=60.0)
        self._web: WebSocketClient | None = None
        if door == "websocket":
            self._web = WebSocketClient(self._raw)
        elif door == "tls":
            assert tls is not None
            self._raw.read_until(rb"\r\n")
            self._raw._socket = tls.wrap_socket(self._raw._socket, server_hostname="127.0.0.1")
        said = {"user": user, "pass": "x", "verbose": False, "headers": True, "no_responders": True, "protocol": 1}
        self.send(b"CONNECT " + json.dumps(said).encode() + b"\r\n")

    def send(self, data: bytes) -> None:
        """Any lines of the protocol."""
        if self._web is not None:
            self._web.send(data)
        else:
            self._raw.send(data)

    def sync(self) -> tuple[list[Received], list[str]]:
        """What came since the last time: messages, and errors."""
        self.send(b"PING\r\n")
        if self._web is not None:
            while b"PONG\r\n" not in self._web.stream:
                self._web._read()
            data, self._web.stream = self._web.stream, b""
        else:
            data = self._raw.read_until(rb"PONG\r\n")
        return _parsed(data)

    def close(self) -> None:
        self._raw.close()


def _parsed(data: bytes) -> tuple[list[Received], list[str]]:
    messages, errors, at = [], [], 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        line, at = data[at:end], end + 2
        words = line.decode().split(" ")
        if words[0] in ("MSG", "HMSG"):
            size = int(words[-1])
            head = int(words[-2]) if words[0] == "HMSG" else 0
            reply = words[3] if len(words) - (words[0] == "HMSG") == 5 else ""
            messages.append(Received(int(words[2]), words[1], reply, data[at + head : at + size]))
            at += size + 2
        elif words[0] == "-ERR":
            errors.append(line.decode())
    return messages, errors


def http_publish(port: int, user: str, subject: str, body: bytes) -> int:
    """The status of a publish over HTTP."""
    login = base64.b64encode(f"{user}:x".encode()).decode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/publish/{subject}", body, method="POST")
    request.add_header("Authorization", f"Basic {login}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
