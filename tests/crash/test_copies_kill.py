"""kill -9 while streams are copied: a mirror and sources end up equal to their origin, nothing lost, nothing twice."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.backups import BackupClient
from support.copies import Side
from support.jetstream_oracle import Oracle
from support.server_process import ServerProcess
from support.servers import server_binary

SUBJECTS = 5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(server_binary("ours"), tmp_path, flags=("-js", "-sd", str(tmp_path / "store")))
    process.start()
    yield process
    process.end()


def publish_until_killed(server: ServerProcess, first: int, count: int) -> None:
    """As fast as the server takes it; ends when the connection does."""
    client = Oracle(server.port)
    try:
        for number in range(first, first + count):
            header = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
            client.request(f"o.{number % SUBJECTS}", b"%d" % number, header, 1)
    except (OSError, IndexError):
        pass
    finally:
        client.close()


def kill_while_busy(server: ServerProcess, rounds: int, seed: int, check: Any) -> None:
    rng = random.Random(seed)
    first = 0
    for _ in range(rounds):
        publisher = threading.Thread(target=publish_until_killed, args=(server, first, 2000))
        publisher.start()
        publisher.join(timeout=rng.uniform(0.1, 0.6))
        server.kill()
        publisher.join()
        server.start()
        first += 2000
    side = Side(server)
    check(side)
    side.client.close()


def contents(side: Side, stream: str) -> list[Any]:
    last = side.api(f"STREAM.INFO.{stream}")["state"]["last_seq"]
    return side.messages(stream, last)


def test_a_mirror_equals_its_origin(server: ServerProcess) -> None:
    side = Side(server)
    side.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    side.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    side.client.close()

    def check(side: Side) -> None:
        last = side.api("STREAM.INFO.O")["state"]["last_seq"]
        assert last > 0
        side.until_last("M", last)
        assert contents(side, "M") == contents(side, "O")

    kill_while_busy(server, 2, 1, check)


@pytest.mark.parametrize("settings", [{}, {"max_msgs_per_subject": 1}], ids=["all", "last per subject"])
def test_sources_equal_their_origin(server: ServerProcess, settings: dict[str, Any]) -> None:
    """Also where messages go by themselves, which takes the record of how far a source was read with them."""
    side = Side(server)
    side.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    sources = [{"name": "O", "filter_subject": f"o.{number}"} for number in range(SUBJECTS - 1)]
    sources.append({"name": "O", "subject_transforms": [{"src": f"o.{SUBJECTS - 1}", "dest": "o.last"}]})
    side.api("STREAM.CREATE.S", {"name": "S", "sources": sources, **settings})
    side.client.close()

    def check(side: Side) -> None:
        state = side.api("STREAM.INFO.O")["state"]
        # As many sequences as the origin has: none is missing and none came twice.
        side.until("S", lambda info: info["state"]["last_seq"] >= state["last_seq"])
        origin: defaultdict[str, list[str]] = defaultdict(list)
        copy: defaultdict[str, list[str]] = defaultdict(list)
        for _, subject, _, data in contents(side, "O"):
            origin["o.last" if subject == f"o.{SUBJECTS - 1}" else subject].append(data)
        for _, subject, _, data in contents(side, "S"):
            copy[subject].append(data)
        if settings:
            origin = defaultdict(list, {subject: found[-1:] for subject, found in origin.items()})
        assert copy == origin
        assert side.api("STREAM.INFO.S")["state"]["last_seq"] == state["last_seq"]

    kill_while_busy(server, 2, 2, check)


def test_a_work_queue_is_moved_whole(server: ServerProcess) -> None:
    """The origin forgets a message only when it is safe in its copy."""
    side = Side(server)
    side.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "retention": "workqueue"})
    side.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    side.client.close()

    def check(side: Side) -> None:
        side.until("O", lambda info: info["state"]["messages"] == 0)
        last = side.api("STREAM.INFO.O")["state"]["last_seq"]
        found = contents(side, "S")
        assert len(found) == last
        assert len({data for _, _, _, data in found}) == last

    kill_while_busy(server, 2, 3, check)


def test_half_a_restore_leaves_nothing(server: ServerProcess) -> None:
    client = BackupClient(server.port)
    client.api("STREAM.CREATE.B", {"name": "B", "subjects": ["b.>"]})
    rng = random.Random(4)
    for number in range(100):
        client.request(f"b.{number % 3}", rng.randbytes(100_000), None, 1)
    answer, backup, _, _ = client.back_up("B")
    client.api("STREAM.DELETE.B")
    begun = client.api("STREAM.RESTORE.B", {"config": answer["config"], "state": answer["state"]})
    for at in range(0, len(backup) * 3 // 4, 500_000):
        client.request(begun["deliver_subject"], backup[at : at + 500_000], None, 1)
    server.kill()
    client.close()
    server.start()
    client = BackupClient(server.port)
    assert client.api("STREAM.NAMES")["streams"] is None
    restored = client.restore("B", answer, backup)
    assert restored["state"]["messages"] == 100
    client.close()
