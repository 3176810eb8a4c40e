"""Weighted mappings: which share of the messages goes where."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.config.account_options import MappingDestination, MappingOptions
from slipstream.errors import ConfigError
from slipstream.subjects.mapping import AccountMappings, Mapping


def _mapping(source: str, *destinations: tuple[str, int] | tuple[str, int, str], cluster: str = "") -> Mapping:
    return Mapping(MappingOptions(source, tuple(MappingDestination(*d) for d in destinations)), cluster)


def _shares(mapping: Mapping, subject: bytes) -> Counter[bytes | None]:
    """What becomes of a hundred messages when every roll comes up once."""

    def rolled(roll: int) -> Callable[[int], int]:
        def below(limit: int) -> int:
            assert limit == 100
            return roll

        return below

    return Counter(mapping.choose(subject, rolled(roll)) for roll in range(100))


def test_one_destination_for_all_is_static() -> None:
    mapping = _mapping("a.*", ("b.$1", 100))
    assert mapping.is_static
    assert mapping.destination(b"a.x") == b"b.x"
    assert mapping.choose(b"a.x", lambda _limit: 99) == b"b.x"


def test_partitions_are_static_and_random_numbers_are_not() -> None:
    assert _mapping("a.*", ("b.{{partition(9,1)}}", 100)).is_static
    mapping = _mapping("a", ("b.{{random(9)}}", 100))
    assert not mapping.is_static
    assert mapping.choose(b"a", lambda limit: limit - 1) == b"b.8"


def test_what_is_left_goes_to_the_original_subject() -> None:
    mapping = _mapping("a.*", ("b.$1", 20), ("c.$1", 30))
    assert not mapping.is_static
    assert _shares(mapping, b"a.x") == {b"b.x": 20, b"c.x": 30, b"a.x": 50}


def test_what_is_left_is_dropped_when_the_source_is_listed() -> None:
    assert _shares(_mapping("a", ("a", 40), ("b", 10)), b"a") == {b"a": 40, b"b": 10, None: 50}
    assert _shares(_mapping("a", ("a", 0)), b"a") == {None: 100}


def test_no_destination_changes_nothing() -> None:
    assert _shares(_mapping("a"), b"a") == {b"a": 100}
    assert _shares(_mapping("a", ("b", 0)), b"a") == {b"a": 100}


def test_destinations_of_a_cluster_replace_the_general_ones_there() -> None:
    destinations = (("b", 100), ("east", 30, "EAST"), ("west", 100, "WEST"))
    assert _shares(_mapping("a", *destinations, cluster="EAST"), b"a") == {b"east": 30, b"a": 70}
    assert _mapping("a", *destinations, cluster="WEST").destination(b"a") == b"west"
    for other in ("NORTH", ""):
        assert _mapping("a", *destinations, cluster=other).destination(b"a") == b"b"


@given(weights=st.lists(st.integers(0, 40), max_size=5))
def test_shares_are_the_weights(weights: list[int]) -> None:
    if sum(weights) > 100:
        return
    mapping = _mapping("a.*", *((f"d{index}.$1", weight) for index, weight in enumerate(weights)))
    expected = Counter({b"d%d.x" % index: weight for index, weight in enumerate(weights) if weight})
    if sum(weights) < 100:
        expected[b"a.x"] = 100 - sum(weights)
    assert _shares(mapping, b"a.x") == expected


@pytest.mark.parametrize(
    ("destinations", "text"),
    [
        ((("b", 60), ("c", 50)), "total weight needs to be <= 100"),
        ((("b", 101),), "individual weights need to be <= 100"),
        ((("b", -1),), "individual weights need to be <= 100"),
        ((("b", 10), ("b", 10, "x")), 'duplicate entry for "b"'),
        ((("b.$1", 100),), "invalid mapping destination: wildcard index out of range in $1"),
    ],
)
def test_refusals(destinations: tuple[tuple[str, int], ...], text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        _mapping("a", *destinations)
    assert str(refusal.value) == text


def test_a_bad_source_is_refused() -> None:
    with pytest.raises(ConfigError, match="invalid subject"):
        _mapping("a..b", ("c", 100))


def test_literals_come_before_patterns_and_patterns_in_order() -> None:
    def options(source: str, destination: str) -> MappingOptions:
        return MappingOptions(source, (MappingDestination(destination),))

    mappings = AccountMappings(
        [options("a.*", "first"), options("a.b", "literal"), options("*.*", "second"), options("a.b", "later")]
    )
    found = {subject: mappings.find(subject) for subject in (b"a.b", b"a.c", b"c.d", b"a", b"a.b.c")}
    destinations = {subject: mapping and mapping.destination(subject) for subject, mapping in found.items()}
    assert destinations == {b"a.b": b"later", b"a.c": b"first", b"c.d": b"second", b"a": None, b"a.b.c": None}
    assert mappings and not AccountMappings([])
