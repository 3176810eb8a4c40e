"""A replicated stream on three processes in trouble: the short form of the campaign, and its control."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("slipstream_raft")

from campaigns.replicated import Trial, control_run
from support.network_namespaces import can_have_namespaces

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not can_have_namespaces(), reason="network namespaces cannot be made here"),
]


async def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    found = await Trial("o", tmp_path).run(6.0, ("kill leader", "split leader", "pause leader"))
    assert found.broken == []
    assert found.acked > 100 and len(found.history.events) > 50 and len(found.troubles) >= 1


async def test_the_checks_find_what_is_lost() -> None:
    found = await control_run()
    assert found.broken
