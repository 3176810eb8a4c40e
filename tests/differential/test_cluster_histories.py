"""Clusters live through random histories as the model says, of this server, of nats-server, and mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.links.routes.interest import Wanted
from slipstream.links.routes.telling import InterestTelling
from support.cluster_history import ClusterHistory, history_cluster, history_leafs, leaked_interest, make_history
from support.clusters import HAS_NATS_SERVER


async def live(kinds: str, directory: Path, seed: int, length: int, *, breaks: bool = True) -> ClusterHistory:
    async with history_cluster(kinds, directory) as history:
        await history.run(make_history(seed, len(kinds), length, breaks=breaks))
        assert not leaked_interest(history), "interest leaks"
        return history


@pytest.mark.parametrize(("kinds", "seed"), [("ooo", 1), ("oo", 2), ("noo", 3), ("onn", 4), ("nnn", 1)])
async def test_a_history_goes_as_the_model_says(kinds: str, seed: int, tmp_path: Path) -> None:
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    history = await live(kinds, tmp_path, seed, 25)
    assert history.delivered > 0


@pytest.mark.parametrize(("kinds", "seed"), [("ooo", 1), ("oo", 2), ("noo", 3), ("onn", 4), ("ono", 5), ("nnn", 1)])
async def test_a_hub_and_its_leafs_live_as_the_model_says(kinds: str, seed: int, tmp_path: Path) -> None:
    if "n" in kinds and not HAS_NATS_SERVER:
        pytest.skip("nats-server is not installed")
    async with history_leafs(kinds, tmp_path) as history:
        await history.run(make_history(seed, len(kinds), 25))
        assert not leaked_interest(history), "interest leaks"
        assert history.delivered > 0


# --- controls: what the test is there to find -------------------------------------------------------------------------


@pytest.fixture
def without_announcement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interest is not told again when a link comes back."""

    monkeypatch.setattr(InterestTelling, "_announced", lambda *_: iter(()))


@pytest.fixture
def without_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last subscription goes, and nobody is told."""
    tell = InterestTelling._tell

    def silent(telling: InterestTelling, account: str, wanted: Wanted, count: int) -> None:
        if count:
            tell(telling, account, wanted, count)

    monkeypatch.setattr(InterestTelling, "_tell", silent)


@pytest.mark.usefixtures("without_farewell")
async def test_interest_that_stays_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="interest leaks"):
        await live("oo", tmp_path, 5, 12, breaks=False)


@pytest.mark.usefixtures("without_announcement")
async def test_interest_that_is_not_told_again_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.cluster_history.SETTLE_SECONDS", 4.0)
    with pytest.raises(AssertionError, match=r"never heard of each other|came 0 times|0 members"):
        await live("oo", tmp_path, 6, 12)
