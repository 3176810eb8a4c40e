"""What the load generator can do by itself: into a socket that throws everything away, and from one that only sends.

A server's number means something only while it stays well below these.
"""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slipstream.client.throughput import PublishLoad, Receiving
from slipstream.client.workers import run_together

__all__ = ["Ceiling", "measure_ceiling"]

SIZE = 128
_GREETING = b'INFO {"server_id":"sink","version":"0.0.0","max_payload":1048576,"headers":true} \r\n'
_PEER_TIMEOUT_S = 20.0
_CHUNK_MESSAGES = 800


@dataclass(frozen=True)
class Ceiling:
    """Messages a second of 128 bytes over one loopback connection, without a server."""

    publish_rate: float
    receive_rate: float


def measure_ceiling(messages: int = 5_000_000) -> Ceiling:
    """Measure both directions."""
    with _peer(_sink, messages) as url:
        job = PublishLoad(url=url, subjects=(("bench.one",),), messages=messages, size=SIZE)
        (published,) = run_together([job])
    with _peer(_source, messages) as url:
        (received,) = run_together([Receiving(url=url, subjects=(("bench.one",),), messages=messages)])
    return Ceiling(published.rate, received.rate)


@contextmanager
def _peer(target: Callable[[socket.socket, int], None], messages: int) -> Iterator[str]:
    """A process that plays the server for one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(target, listener, messages))
        process.start()
        try:
            yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.kill()
            process.join()
            process.close()


def _serve(target: Callable[[socket.socket, int], None], listener: socket.socket, messages: int) -> None:
    listener.settimeout(_PEER_TIMEOUT_S)
    connection, _ = listener.accept()
    connection.settimeout(None)
    connection.sendall(_GREETING)
    _read_to_ping(connection)
    connection.sendall(b"PONG\r\n")
    target(connection, messages)
    _read_to_ping(connection)  # until the client closes


def _sink(connection: socket.socket, _: int) -> None:
    _read_to_ping(connection)
    connection.sendall(b"PONG\r\n")


def _source(connection: socket.socket, messages: int) -> None:
    _read_to_ping(connection)
    connection.sendall(b"PONG\r\n")
    frame = b"MSG bench.one 1 %d\r\n%b\r\n" % (SIZE, b"x" * SIZE)
    chunk = frame * _CHUNK_MESSAGES
    for _ in range(messages // _CHUNK_MESSAGES):
        connection.sendall(chunk)
    connection.sendall(frame * (messages % _CHUNK_MESSAGES))


def _read_to_ping(connection: socket.socket) -> None:
    """Throw bytes away until a read ends in PING, which no payload does here, or nothing more comes."""
    buffer = bytearray(2**18)
    while size := connection.recv_into(buffer):
        if buffer.endswith(b"PING\r\n", 0, size):
            return
