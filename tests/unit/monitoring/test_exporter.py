"""The exporter's metrics where there is too much of everything, and in names that are hostile."""

from __future__ import annotations

import re

import pytest

from monitoring.test_jetstream_facts import Account, JetStream, Stream
from monitoring.world import World, two_accounts
from slipstream.config.jetstream_options import JetStreamOptions
from slipstream.config.options import Options
from slipstream.monitoring.endpoints import exporter
from slipstream.monitoring.endpoints.table import Endpoints
from slipstream.monitoring.worker import finished


def _page(world: World) -> str:
    return finished(Endpoints(world.facts).reply("/metrics", "")).body.decode()


def _many(streams: int, consumers: int) -> World:
    class Many(JetStream):
        def accounts(self) -> list[Account]:
            return [Account("A", [Stream(f"s{number}", 1, consumers) for number in range(streams)])]

    world = World(Options(server_name="unit", jetstream=JetStreamOptions(enabled=True)))
    world.facts.jetstream = Many()
    return world


def test_streams_beyond_the_limit_are_counted_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MONITOR_METRICS_STREAMS_MAX", 3)
    page = _page(_many(streams=5, consumers=1))
    assert len(re.findall(r"^jetstream_stream_total_messages\{", page, re.MULTILINE)) == 3
    assert 'slipstream_metrics_left_out{kind="stream"} 2' in page
    assert 'slipstream_metrics_left_out{kind="consumer"} 2' in page


def test_consumers_beyond_the_limit_are_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MONITOR_METRICS_CONSUMERS_MAX", 3)

    def never(*_: object, **__: object) -> list[object]:
        raise AssertionError("a stream with more consumers than may be shown is asked for all of them")

    monkeypatch.setattr(Stream, "consumers", never)
    page = _page(_many(streams=2, consumers=4))
    assert "jetstream_consumer_" not in page
    assert 'slipstream_metrics_left_out{kind="consumer"} 8' in page


def test_many_streams_are_shown_in_steps() -> None:
    steps = Endpoints(_many(streams=300, consumers=0).facts).reply("/metrics", "")
    assert sum(1 for _ in steps) >= 300 // 32


def test_accounts_beyond_the_limit_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MONITOR_METRICS_ACCOUNTS_MAX", 2)
    page = _page(World(two_accounts()))
    assert len(re.findall(r"^gnatsd_accstatz_subscriptions\{", page, re.MULTILINE)) == 2


def test_words_of_the_operator_do_not_become_names() -> None:
    page = _page(World(Options(server_name='a"\n} 1', server_metadata={"name": "x", "evil\n# TYPE": "1"})))
    for line in page.splitlines():
        assert re.match(r'#|[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z_]+="(?:[^"\\]|\\.)*",?)*\})? \S+$', line), line
    assert "metadata" not in page


def test_without_jetstream_there_is_only_that() -> None:
    page = _page(World())
    assert re.search(r"^jetstream_server_jetstream_disabled\{.*\} 1$", page, re.MULTILINE)
    assert "jetstream_stream_" not in page
