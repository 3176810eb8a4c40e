"""Who answers a call, compared with what servers of a nats-server cluster do: one of them does, and never two."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from re import findall

import pytest

from slipstream.replication.meta.responsibility import Answers, StreamView, who_answers

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
    streams: dict[str, StreamView] = field(default_factory=dict)

    def stream(self, account: str, name: str) -> StreamView:
        assert account == "A"
        return self.streams.get(name, StreamView.MISSING)


def test_the_meta_leader_answers_for_the_cluster() -> None:
    for call in META_CALLS:
        assert who_answers(call, "A", View(is_meta_leader=True)) is Answers.HANDLE
        assert who_answers(call, "A", View()) is Answers.SILENT
        assert who_answers(call, "A", View(is_leaderless=True)) is Answers.UNAVAILABLE


@pytest.mark.parametrize("call", STREAM_CALLS)
def test_the_leader_of_a_stream_answers_for_it(call: str) -> None:
    for meta, leaderless in ((True, False), (False, False), (False, True)):

        def verdict(stream: StreamView, meta: bool = meta, leaderless: bool = leaderless) -> Answers:
            return who_answers(call, "A", View(meta, leaderless, {"S": stream}))

        others = Answers.UNAVAILABLE if leaderless else Answers.SILENT
        assert verdict(StreamView.LED_HERE) is Answers.HANDLE
        assert verdict(StreamView.ELSEWHERE) is Answers.SILENT
        assert verdict(StreamView.MISSING) is (Answers.NOT_FOUND if meta else others)
        assert verdict(StreamView.LEADERLESS) is (Answers.UNAVAILABLE if meta else others)


@pytest.mark.parametrize("call", [*META_CALLS, *STREAM_CALLS])
def test_one_server_answers(call: str) -> None:
    """In a cluster of three with a leader, whoever leads what."""
    for meta, leader in product(range(3), (0, 1, 2, None)):
        views = []
        for one in range(3):
            stream = StreamView.LED_HERE if one == leader else StreamView.ELSEWHERE
            views.append(View(one == meta, False, {"S": StreamView.LEADERLESS if leader is None else stream}))
        assert sum(who_answers(call, "A", view) is not Answers.SILENT for view in views) == 1


def test_calls_that_streams_listen_to_are_left_to_them() -> None:
    for call in ("DIRECT.GET.S", "CONSUMER.MSG.NEXT.S.c", "UNKNOWN.S", "STREAM.NAMES.X", "INFOX"):
        for stream in StreamView:
            assert who_answers(call, "A", View(True, False, {"S": stream})) is Answers.SILENT


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
    view = View(True, False, {"S": StreamView.LED_HERE})
    silent = {call for call in calls - left_alone if who_answers(call, "A", view) is Answers.SILENT}
    assert not silent
