"""Which servers get a stream. The texts are those of nats-server 2.15.1, seen on a cluster of three."""

from __future__ import annotations

import random

import msgspec
import pytest

from slipstream.errors import ApiError
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import Placement, StreamConfig
from slipstream.replication.ids import node_id
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.placement import Placed, Surroundings, place, place_anywhere
from slipstream.replication.meta.state import MetaState
from support.meta import GB, assignment, config, node

N1, N2, N3 = map(node_id, ("n1", "n2", "n3"))
ALL = frozenset((N1, N2, N3))


def three() -> MetaState:
    state = MetaState()
    for number in (1, 2, 3):
        state.put(node(f"n{number}", tags=[f"az:a{number}", "disk:ssd"]))
    return state


def put(state: MetaState, asked: StreamConfig, around: Surroundings | None = None, cluster: str = "C1") -> Placed:
    return place(asked, cluster, state, around or Surroundings(ALL))


def refusal(state: MetaState, asked: StreamConfig, around: Surroundings | None = None) -> str:
    with pytest.raises(ApiError) as caught:
        put(state, asked, around)
    assert (caught.value.code, caught.value.err_code) == (400, 10005)
    return caught.value.description


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (config("S", num_replicas=5), "no suitable peers for placement"),
        (config("S", placement=Placement(cluster="OTHER")), "no suitable peers for placement"),
        (config("S", placement=Placement(tags=["az:b"])), "no suitable peers for placement, tags not matched ['az:b']"),
        (
            config("S", num_replicas=3, placement=Placement(tags=["az:a2"])),
            "no suitable peers for placement, tags not matched ['az:a2']",
        ),
        (
            config("S", placement=Placement(tags=["!disk:ssd"])),
            "no suitable peers for placement, tags excluded ['disk:ssd']",
        ),
        (config("S", max_bytes=2 * GB), "no suitable peers for placement, insufficient storage"),
        (
            config("S", max_bytes=2 * GB, num_replicas=3, storage=StorageType.MEMORY),
            "no suitable peers for placement, insufficient storage",
        ),
    ],
)
def test_what_stands_in_the_way(asked: StreamConfig, text: str) -> None:
    assert refusal(three(), asked) == text


def test_tags_are_wanted_or_not() -> None:
    assert put(three(), config("S", placement=Placement(tags=["AZ:a2 "]))).peers == [N2]
    assert N2 not in put(three(), config("S", num_replicas=2, placement=Placement(tags=["!az:a2", "disk:ssd"]))).peers


def test_a_server_that_wants_no_streams_gets_none() -> None:
    state = three()
    state.put(node("n1", tags=["!jetstream"]))
    assert set(put(state, config("S", num_replicas=2)).peers) == {N2, N3}
    assert refusal(state, config("S", num_replicas=3)) == "no suitable peers for placement, exclude tag set"


def test_a_majority_has_to_be_there() -> None:
    asked = config("S", num_replicas=3)
    placed = put(three(), asked, Surroundings({N1, N3}))
    assert set(placed.peers) == ALL and placed.peers[2] == N2 and placed.preferred in (N1, N3)
    assert refusal(three(), asked, Surroundings({N1})) == "no suitable peers for placement, peer offline"
    assert put(three(), config("S"), Surroundings({N3})).peers == [N3]


def test_tags_that_must_differ() -> None:
    state = three()
    state.put(node("n3", tags=["az:a1"]))
    around = Surroundings(ALL, unique_tag="az:")
    assert refusal(state, config("S", num_replicas=3), around) == (
        "no suitable peers for placement, server tag not unique"
    )
    assert N2 in put(state, config("S", num_replicas=2), around).peers
    explicit = config("S", num_replicas=2, placement=Placement(tags=["az:a1"]))
    assert set(put(state, explicit, around).peers) == {N1, N3}


def test_streams_and_leaders_are_spread() -> None:
    state = three()
    for number in range(30):
        asked = config(f"S{number}", num_replicas=1 + 2 * (number % 2))
        placed = put(state, asked)
        state.put(_assigned(asked, placed))
    loads = [state.load_of(one) for one in (N1, N2, N3)]
    assert {load.streams for load in loads} == {20} and {load.replicated for load in loads} == {15}
    assert max(load.preferred for load in loads) - min(load.preferred for load in loads) <= 2


def test_streams_go_where_room_is() -> None:
    state = three()
    state.put(assignment("big", peers=[N1, N2], max_bytes=GB // 2))
    assert put(state, config("S")).peers == [N3]
    used = Surroundings(ALL, {(N3, StorageType.FILE): GB - 5})
    assert put(state, config("S"), used).peers[0] != N3
    assert refusal(state, config("S", num_replicas=3, max_bytes=6), used).endswith("insufficient storage")


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_asked_for_is_given_or_refused(seed: int) -> None:
    """Of random clusters: what is chosen is allowed, and if nothing is, no choice of servers would be."""
    rng = random.Random(seed)
    state = MetaState()
    for number in range(rng.randrange(1, 8)):
        tags = rng.sample(["az:1", "az:2", "az:3", "ssd", "!jetstream"], rng.randrange(3))
        state.put(node(f"n{number}", cluster=rng.choice("CD"), tags=tags, max_storage=rng.choice((10, 1000))))
    around = Surroundings({one for one in state.nodes if rng.random() < 0.8}, unique_tag=rng.choice(("", "", "az:")))
    for number in range(20):
        tags = rng.sample(["ssd", "!ssd", "az:1"], rng.randrange(2))
        asked = config(
            f"S{number}",
            num_replicas=rng.choice((1, 2, 3)),
            max_bytes=rng.choice((-1, 5)),
            placement=Placement(tags=tags) if tags else None,
        )
        fitting = {one for one in state.nodes if _may_have(state, one, asked)}
        unique = around.unique_tag if "az:1" not in tags else ""
        kinds = {_az(state, one) for one in fitting} - {None} if unique else fitting
        try:
            placed = place(asked, "C", state, around)
        except ApiError:
            there = {_az(state, one) if unique else one for one in fitting.intersection(around.online)} - {None}
            assert len(kinds) < asked.num_replicas or len(there) < asked.num_replicas // 2 + 1
            continue
        assert len(set(placed.peers)) == asked.num_replicas and fitting.issuperset(placed.peers)
        assert placed.preferred in placed.peers and placed.preferred in around.online
        assert not unique or len({_az(state, one) for one in placed.peers}) == len(placed.peers)
        state.put(_assigned(asked, placed))


def _az(state: MetaState, one: int) -> str | None:
    return next((tag for tag in state.nodes[one].tags if tag.startswith("az:")), None)


def _may_have(state: MetaState, one: int, asked: StreamConfig) -> bool:
    tags = set(state.nodes[one].tags)
    wanted = asked.placement.tags if asked.placement is not None else []
    return (
        state.nodes[one].cluster == "C"
        and "!jetstream" not in tags
        and all((tag[1:] not in tags) if tag[0] == "!" else (tag in tags) for tag in wanted)
        and asked.max_bytes <= state.nodes[one].max_storage - state.load_of(one).reserved[asked.storage]
    )


def _assigned(asked: StreamConfig, placed: Placed) -> Assignment:
    made = assignment(asked.name, peers=placed.peers, max_bytes=asked.max_bytes)
    return msgspec.structs.replace(made, preferred=placed.preferred)


def test_another_cluster_has_room_where_that_of_who_asks_has_none() -> None:
    state = three()
    state.put(msgspec.structs.replace(node("m1"), cluster="C2"))
    around = Surroundings({*ALL, node_id("m1")})
    assert place_anywhere(config("S"), "C2", state, around).cluster == "C2"
    assert place_anywhere(config("S", num_replicas=3), "C2", state, around).cluster == "C1"
    assert place_anywhere(config("S"), "NONE", state, around).cluster == "C1", "there is no JetStream where it asks"
    named = config("S", num_replicas=3, placement=Placement(cluster="C2"))
    with pytest.raises(ApiError) as caught:
        place_anywhere(named, "C1", state, around)
    assert caught.value.err_code == 10005
