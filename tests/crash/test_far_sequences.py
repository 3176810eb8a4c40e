"""A mirror whose origin was made anew with a first sequence far up: after a restart everything is there."""

from __future__ import annotations

import time
from pathlib import Path

from campaigns.load import API, Connection
from support.sealing import both_forms
from support.server_process import ServerProcess
from support.servers import server_binary

at_rest = both_forms()

FAR = 2**40
CAUGHT_UP_S = 20.0


def state_of(connection: Connection, stream: str, last_seq: int) -> dict[str, int]:
    """When it has got that far."""
    deadline = time.monotonic() + CAUGHT_UP_S
    while True:
        state = dict(connection.ask(f"{API}STREAM.INFO.{stream}")["state"])
        if state["last_seq"] == last_seq or time.monotonic() > deadline:
            return state


def test_a_mirror_over_a_gap_of_2_to_the_40(tmp_path: Path) -> None:
    server = ServerProcess(server_binary("ours"), tmp_path, flags=("-js", "-sd", str(tmp_path / "store")))
    with server:
        connection = Connection(server.port)
        connection.ask(f"{API}STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
        connection.ask(f"{API}STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
        for body in (b"one", b"two"):
            connection.send("o", body)
            connection.receive()
        assert state_of(connection, "M", 2)["messages"] == 2
        assert connection.ask(f"{API}STREAM.DELETE.O")["success"]
        connection.ask(f"{API}STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "first_seq": FAR})
        connection.send("o", b"far")
        connection.receive()
        assert state_of(connection, "M", FAR)["messages"] == 3
        for _ in range(2):  # the second start reads what the first one wrote at its stop
            connection.close()
            server.stop()
            server.start()
            connection = Connection(server.port)
            state = state_of(connection, "M", FAR)
            assert (state["first_seq"], state["last_seq"], state["messages"]) == (1, FAR, 3)
        connection.close()
