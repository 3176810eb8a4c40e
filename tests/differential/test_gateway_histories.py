"""Superclusters live through random histories as the model says, of this server, of nats-server, and mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.links.gateways.interest import Asked
from slipstream.links.gateways.telling import ClusterTelling
from support.cluster_history import (
    ClusterHistory,
    history_pair,
    history_supercluster,
    leaked_interest,
    make_history,
)
from support.clusters import HAS_NATS_SERVER


async def live(kinds: str, directory: Path, seed: int, length: int, *, breaks: bool = True) -> ClusterHistory:
    parted = "-" not in kinds
    async with (history_pair if parted else history_supercluster)(kinds, directory) as history:
        await history.run(make_history(seed, len(history.nodes), length, breaks=breaks, cuts=parted))
        assert not leaked_interest(history), "interest leaks"
        return history


@pytest.mark.parametrize(
    ("kinds", "seed"),
    [("oo", 1), ("on", 2), ("no", 3), ("nn", 1), ("o-o-o", 4), ("oo-no", 5), ("on-o-n", 6), ("nn-nn", 5)],
)
async def test_a_history_goes_as_the_model_says(kinds: str, seed: int, tmp_path: Path) -> None:
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    history = await live(kinds, tmp_path, seed, 20)
    assert history.delivered > 0


# --- controls: what the test is there to find -------------------------------------------------------------------------


@pytest.fixture
def without_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last subscription goes, and no cluster is told."""
    tell = ClusterTelling._tell

    def silent(telling: ClusterTelling, account: str, asked: Asked, wanted: bool) -> None:
        if wanted:
            tell(telling, account, asked, wanted)

    monkeypatch.setattr(ClusterTelling, "_tell", silent)


@pytest.mark.usefixtures("without_farewell")
async def test_interest_that_stays_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="interest leaks"):
        await live("oo", tmp_path, 5, 12, breaks=False)


async def test_interest_that_is_not_told_again_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.cluster_history.SETTLE_SECONDS", 4.0)
    monkeypatch.setattr(ClusterTelling, "_all", lambda *_: iter(()))
    with pytest.raises(AssertionError, match=r"never heard of each other|came 0 times|0 members"):
        await live("oo", tmp_path, 6, 12)
