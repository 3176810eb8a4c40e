"""Short forms of the campaigns in `campaigns`, and their controls. `tools/prove.py` runs the long forms."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from campaigns import at_rest, disk_errors
from campaigns.at_rest import damage
from campaigns.deaths import SHORT_WINDOW_NS, Deaths, readable
from campaigns.disk_errors import every_call, without_syncs
from campaigns.edge import edge_days
from campaigns.figures import Campaign, Figures, Parts, in_one
from campaigns.hostile import ATTACKS, Hostile
from campaigns.partitions import control_is_noticed, part_and_heal
from campaigns.runs import CAMPAIGNS
from campaigns.searching import Searched
from slipstream.jetstream.store.sealed.keys import AtRestCipher
from support.sealing import sealed_stores, watched_disks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_deaths_cost_nothing_that_was_acknowledged(tmp_path: Path, power: bool, encrypted: bool) -> None:
    found = Deaths(tmp_path, power=power, encrypted=encrypted).run(3, least_acks=50)
    assert found.broken == []
    assert found.cycles == 3 and found.acked > 100


def test_the_checks_find_what_a_server_without_syncs_loses(tmp_path: Path) -> None:
    found = Deaths(tmp_path, power=True, drops_syncs=True).run(1)
    assert len(found.lost) == found.acked > 0
    assert found.streams_lost


def test_the_search_finds_what_is_plain(tmp_path: Path) -> None:
    """The control of the encrypted form."""
    assert Deaths(tmp_path, power=False).run(1, least_acks=10).broken == []
    assert readable(tmp_path)


def test_the_checks_find_messages_stored_twice(tmp_path: Path) -> None:
    """A server that forgets ids before it is back stores again what is sent again."""
    found = Deaths(tmp_path, power=False, window_ns=SHORT_WINDOW_NS).run(10)
    assert found.duplicates and not found.lost


def test_damage_at_rest_is_contained_and_reported() -> None:
    found = damage({"flip": 60, "cut": 15, "zero": 15, "swap": 10, "remove": 8}, seed=1)
    assert found.violations == []
    assert found.lost["flip"] > 0 and found.lost_most["flip"] == 1


def test_damage_to_encrypted_files_is_contained_and_reported() -> None:
    """A publish is a frame here: what a flipped bit hits is one message again."""
    search = Searched(at_rest.WORDS)
    with sealed_stores(), watched_disks(search):
        found = damage({"flip": 60, "cut": 15, "zero": 15, "swap": 10, "remove": 14}, seed=1)
    assert found.violations == []
    assert found.lost["flip"] > 0 and found.lost_most["flip"] == 1
    assert search.files > 500 and search.found == []


def test_silent_loss_would_be_noticed() -> None:
    assert damage({"flip": 60}, seed=1, report=False).violations


def test_errors_of_the_disk_are_refused_and_pass() -> None:
    found = every_call(rounds=2)
    assert found.violations == []
    assert found.runs == 2 * found.calls > 100 and found.refusals > 50


def test_errors_of_the_disk_under_encrypted_files() -> None:
    """At some calls; the campaign takes all of them. What the crash at the end leaves is searched."""
    search = Searched(disk_errors.WORDS)
    with sealed_stores(AtRestCipher.CHACHA), watched_disks(search):
        found = every_call(rounds=1, only=range(0, 400, 9))
    assert found.violations == []
    assert found.runs > 10 and found.refusals > 5
    assert search.files > 30 and search.found == []


def test_the_search_of_disks_finds_what_is_plain() -> None:
    """Its control."""
    control = Searched(disk_errors.WORDS).controlled(Figures({}, control_found=True), lambda: without_syncs(rounds=1))
    assert control.control_found and "finds 0 places" not in control.control


def test_false_acks_would_be_noticed() -> None:
    assert without_syncs(rounds=2)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_tenant_costs_little(tmp_path: Path, name: str) -> None:
    assert Hostile(tmp_path).attacked(ATTACKS[name]).broken == []


def test_what_a_tenant_costs_would_be_noticed(tmp_path: Path) -> None:
    assert Hostile(tmp_path, limited=False).attacked(ATTACKS["open_batches"]).broken


def prove_tool() -> ModuleType:
    tool = importlib.util.spec_from_file_location("prove", ROOT / "tools" / "prove.py")
    assert tool is not None and tool.loader is not None
    prove = importlib.util.module_from_spec(tool)
    tool.loader.exec_module(prove)
    return prove


def test_parts_add_up_until_their_sources_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prove = prove_tool()
    for name, value in (("ROOT", tmp_path), ("FIGURES", tmp_path / "f.json"), ("PAGE", tmp_path / "f.md")):
        monkeypatch.setattr(prove, name, value)
    controls: list[int] = []

    def part(seeds: range) -> Figures:
        return Figures({"seeds": len(seeds), "sum": sum(seeds), "slowest, s": float(max(seeds))})

    def control() -> Figures:
        controls.append(1)
        return Figures({}, [], "broken on purpose: noticed", True)

    def commit(content: str) -> str:
        (tmp_path / "source.py").write_text(content)
        words = ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x"]
        subprocess.run(["git", "add", "source.py"], cwd=tmp_path, check=True)
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
        return prove._git("rev-parse", "--short", "HEAD")  # type: ignore[no-any-return]

    def run(count: int) -> dict[str, Any]:
        entry: dict[str, Any] = prove._next_part("x", campaign, count, 1)
        prove._keep("x", entry, ["x"])
        return entry

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    campaign = Campaign("X", "It holds.", in_one(part, control), 10, Parts(part, control, ("source.py",)))
    first = commit("one")
    assert run(3)["counts"] == {"seeds": 3, "sum": 0 + 1 + 2, "slowest, s": 2.0}
    second = commit("one")  # of something else
    entry = run(2)
    assert entry["counts"] == {"seeds": 5, "sum": 3 + 3 + 4, "slowest, s": 4.0}
    assert entry["commit"] == f"{first}, {second}" and entry["control_found"] and len(controls) == 1
    assert f"{first}, {second}" in (tmp_path / "f.md").read_text()

    (tmp_path / "source.py").write_text("two")
    with pytest.raises(click.ClickException, match="not committed"):
        run(1)
    third = commit("two")
    entry = run(1)
    assert entry["counts"]["seeds"] == 1 and entry["commit"] == third and len(controls) == 2


def test_the_page_of_proofs_is_made_from_the_figures() -> None:
    prove = prove_tool()
    figures = json.loads((ROOT / "docs" / "proofs.json").read_text())
    assert (ROOT / "docs" / "proofs.md").read_text() == prove.page(figures)
    assert set(figures) <= set(CAMPAIGNS)
    for name, entry in figures.items():
        assert entry["broken"] == [] and entry["control_found"], name


@pytest.mark.parametrize("world", ["routes", "leaf links", "gateways"])
async def test_what_was_parted_converges_and_leaves_nothing(world: str) -> None:
    found = await part_and_heal(world, 4, seed=7)
    assert found.broken == []
    assert found.partitions == 4 and found.delivered > 0


def test_interest_that_is_not_told_again_after_a_partition_is_found() -> None:
    assert control_is_noticed()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_day_at_the_edge_loses_and_doubles_nothing() -> None:
    found = await edge_days(1, seed=3)
    assert found.broken == []
    assert found.hours_alone > 10 and found.orders > 200
