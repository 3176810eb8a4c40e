"""A server whose disk is full: an error at once, removals go on, and service resumes by itself."""

from __future__ import annotations

import json
import time
from pathlib import Path

from campaigns.forgetful_server import forgetful_program
from campaigns.load import API, Connection
from slipstream.jetstream.store.limits import STORE_RESERVE_BYTES
from support.server_process import ServerProcess

MESSAGES = 120  # that fit
BODY = b"x" * 50_000
CAPACITY = STORE_RESERVE_BYTES + MESSAGES * len(BODY)
RESUME_S = 20.0  # upkeep looks for space once a second


def publish(connection: Connection) -> dict[str, object]:
    number = connection.send("full", BODY)
    while True:
        found, _, answer = connection.receive()
        if found == number:
            return dict(json.loads(answer))


def fill(connection: Connection) -> set[int]:
    """Publish until a message is refused; the codes of that and some more refusals."""
    for _ in range(2 * MESSAGES):
        if "error" in publish(connection):
            return {publish(connection)["error"]["err_code"] for _ in range(3)}  # type: ignore[index]
    return set()


def test_a_full_disk(tmp_path: Path) -> None:
    server = ServerProcess(
        forgetful_program(tmp_path, CAPACITY=str(CAPACITY)), tmp_path, flags=("-js", "-sd", str(tmp_path / "store"))
    )
    with server:
        connection = Connection(server.port)
        connection.ask(f"{API}STREAM.CREATE.F", {"name": "F", "subjects": ["full"]})
        for turn in range(3):
            position = len(server.log_lines)
            assert fill(connection) == {10047}
            server.wait_for_log("Stream 'F' is out of storage", after=position, timeout_s=RESUME_S)
            info = connection.ask(f"{API}STREAM.INFO.F")["state"]
            consumer = {"stream_name": "F", "config": {"durable_name": f"C{turn}", "ack_policy": "explicit"}}
            assert "error" not in connection.ask(f"{API}CONSUMER.DURABLE.CREATE.F.C{turn}", consumer)
            assert connection.ask(f"{API}STREAM.MSG.DELETE.F", {"seq": info["last_seq"]})["success"]
            assert connection.ask(f"{API}STREAM.PURGE.F", {"keep": 2})["purged"] == info["messages"] - 3
            deadline = time.monotonic() + RESUME_S
            taken = 0
            while taken < MESSAGES // 2:
                taken += "error" not in publish(connection)
                assert time.monotonic() < deadline, f"only {taken} messages are taken though there is room"
        assert connection.ask(f"{API}STREAM.PURGE.F", {"keep": 3})["success"]
        connection.close()
        server.kill()
        server.start()
        connection = Connection(server.port)
        assert connection.ask(f"{API}STREAM.INFO.F")["state"]["messages"] == 3
        connection.close()
