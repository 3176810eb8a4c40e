"""A replicated stream on three processes in trouble: the short form of the campaign, and its control."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("slipstream_raft")

from campaigns.replicated import Trial, control_run, power_run
from campaigns.replicated_readers import Readers
from support.cut_disk import can_cut_disks
from support.network_namespaces import can_have_namespaces

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not can_have_namespaces(), reason="network namespaces cannot be made here"),
]


async def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    found = await Trial("o", tmp_path).run(6.0, ("kill leader", "split leader", "pause leader"), least=100)
    assert found.broken == []
    assert found.acked >= 100 and len(found.history.events) >= 100 and len(found.troubles) >= 1
    assert found.readers.confirmed and found.readers.payloads
    assert found.searched and found.plain


async def test_nothing_acknowledged_is_lost_by_a_power_cut_of_all_five(tmp_path: Path) -> None:
    found = await Trial("o", tmp_path, nodes=5, power=True).run(4.0, ("kill all", "clock leader"), least=20)
    assert found.broken == []
    assert found.acked >= 20 and found.troubles


def test_readers_notice_what_is_missing_or_comes_again() -> None:
    readers = Readers("S", watched={1: 0, 2: 0})
    for server, seq, payload in [(1, 1, b"a"), (1, 2, b"b"), (2, 1, b"a"), (2, 2, b"b")]:
        readers.seen(server, seq, payload)
    assert readers.check({1: b"a", 2: b"b"}) == []
    assert readers.check({1: b"a"}) == ["1 messages were read that are not there, as [2]"]
    for seq, payload in [(4, b"d"), (4, b"e")]:
        readers.seen(1, seq, payload)
    assert readers.broken == [
        "the reader of server 1 got 4 behind 2",
        "the reader of server 1 got 4 behind 4",
        "the reader of server 1 got b'e' as 4, and another b'd'",
    ]


async def test_the_checks_find_what_is_lost() -> None:
    found = await control_run()
    assert found.broken


@pytest.mark.long
async def test_a_power_cut_of_all_loses_nothing_here_and_much_at_nats_server() -> None:
    if not can_cut_disks():
        pytest.skip("file systems cannot be mounted here")
    ours = await power_run("o")
    assert ours.broken == [] and ours.acked > 0
    theirs = await power_run("n")
    assert theirs.lost > 0, "the same disks under a server that does not sync have to show it"
