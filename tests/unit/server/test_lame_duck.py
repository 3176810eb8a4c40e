"""How the closing of clients is spread."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.server.lame_duck import pauses
from slipstream.units import SECOND_NS


def test_few_clients_go_at_most_a_second_apart() -> None:
    assert pauses(2, 100 * SECOND_NS) == (1, SECOND_NS)
    assert pauses(0, 100 * SECOND_NS) == (1, 0)


def test_many_clients_go_several_at_a_time() -> None:
    at_a_time, gap_ns = pauses(1_000_000, 10 * SECOND_NS)
    assert at_a_time == 100
    assert gap_ns == 1_000_000


@given(st.integers(1, 2_000_000), st.integers(-5, 300).map(lambda s: s * SECOND_NS))
def test_everybody_is_gone_when_the_time_is_over(clients: int, duration_ns: int) -> None:
    at_a_time, gap_ns = pauses(clients, duration_ns)
    steps = -(-clients // at_a_time)
    assert at_a_time >= 1
    assert (steps - 1) * gap_ns <= max(duration_ns, SECOND_NS)
