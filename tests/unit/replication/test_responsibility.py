"""Who answers a call, compared with what servers of a nats-server cluster do: one of them does, and never two."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from re import findall

import pytest

from slipstream.replication.meta.responsibility import Responsibility, StreamRole, who_answers

META_CALLS = (
    *("INFO", "STREAM.CREATE.S", "STREAM.UPDATE.S", "STREAM.DELETE.S", "STREAM.NAMES", "STREAM.LIST"),
    *("STREAM.RESTORE.S", "STREAM.PEER.REMOVE.S"),
)
STREAM_CALLS = (
    *("STREAM.INFO.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S", "STREAM.MSG.DELETE.S", "STREAM.SNAPSHOT.S"),
    *("STREAM.LEADER.STEPDOWN.S", "CONSUMER.LEADER.STEPDOWN.S.c", "CONSUMER.CREATE.S", "CONSUMER.CREATE.S.c"),
    *("CONSUMER.CREATE.S.c.f.>", "CONSUMER.DURABLE.CREATE.S.c", "CONSUMER.INFO.S.c", "CONSUMER.DELETE.S.c"),
    *("CONSUMER.LIST.S", "CONSUMER.NAMES.S", "CONSUMER.PAUSE.S.c", "BULK.STAGE.S.1.2", "BULK.READ.S"),
)


@dataclass
class View:
    is_meta_leader: bool = False
    is_leaderless: bool = False
    streams: dict[str, StreamRole] = field(default_factory=dict)

    def stream(self, account: str, name: str) -> StreamRole:
        assert account == "A"
        return self.streams.get(name, StreamRole.MISSING)


def test_the_meta_leader_answers_for_the_cluster() -> None:
    for call in META_CALLS:
        assert who_answers(call, "A", View(is_meta_leader=True)) is Responsibility.HANDLE
        assert who_answers(call, "A", View()) is Responsibility.SILENT
        assert who_answers(call, "A", View(is_leaderless=True)) is Responsibility.UNAVAILABLE


@pytest.mark.parametrize("call", STREAM_CALLS)
def test_the_leader_of_a_stream_answers_for_it(call: str) -> None:
    for meta, leaderless in ((True, False), (False, False), (False, True)):

        def verdict(stream: StreamRole, meta: bool = meta, leaderless: bool = leaderless) -> Responsibility:
            return who_answers(call, "A", View(meta, leaderless, {"S": stream}))

        others = Responsibility.UNAVAILABLE if leaderless else Responsibility.SILENT
        assert verdict(StreamRole.LED_HERE) is Responsibility.HANDLE
        assert verdict(StreamRole.ELSEWHERE) is Responsibility.SILENT
        assert verdict(StreamRole.MISSING) is (Responsibility.NOT_FOUND if meta else others)
        assert verdict(StreamRole.LEADERLESS) is (Responsibility.UNAVAILABLE if meta else others)


@pytest.mark.parametrize("call", [*META_CALLS, *STREAM_CALLS])
def test_one_server_answers(call: str) -> None:
    """In a cluster of three with a leader, whoever leads what."""
    for meta, leader in product(range(3), (0, 1, 2, None)):
        views = []
        for one in range(3):
            stream = StreamRole.LED_HERE if one == leader else StreamRole.ELSEWHERE
            views.append(View(one == meta, False, {"S": StreamRole.LEADERLESS if leader is None else stream}))
        assert sum(who_answers(call, "A", view) is not Responsibility.SILENT for view in views) == 1


def test_calls_that_streams_listen_to_are_left_to_them() -> None:
    for call in ("DIRECT.GET.S", "CONSUMER.MSG.NEXT.S.c", "UNKNOWN.S", "STREAM.NAMES.X", "INFOX"):
        for stream in StreamRole:
            assert who_answers(call, "A", View(True, False, {"S": stream})) is Responsibility.SILENT


def test_every_call_of_the_api_has_somebody() -> None:
    """What handlers are registered for, somebody of the cluster answers."""
    api = Path(__file__).parents[3] / "src/slipstream/jetstream/api"
    calls = {
        found.replace("*", "S").replace(">", "f")
        for file in api.glob("*.py")
        for found in findall(r'"((?:STREAM|CONSUMER|BULK)(?:\.[A-Z_]+)*(?:\.[*>])+)"', file.read_text())
    }
    assert len(calls) > 30
    left_alone = {call for call in calls if call.startswith(("CONSUMER.MSG.NEXT", "DIRECT"))}
    view = View(True, False, {"S": StreamRole.LED_HERE})
    silent = {call for call in calls - left_alone if who_answers(call, "A", view) is Responsibility.SILENT}
    assert not silent
