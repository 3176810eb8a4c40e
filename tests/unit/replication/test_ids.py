"""Numbers of nodes: the same for ever, different for different names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.replication.ids import NO_NODE, node_id


def test_a_name_has_one_number_for_ever() -> None:
    assert node_id("n1") == 18235861091803621825
    assert len({node_id(f"server-{n}") for n in range(10_000)}) == 10_000


@given(st.text())
def test_it_fits_and_is_somebody(name: str) -> None:
    assert NO_NODE < node_id(name) < 1 << 64
