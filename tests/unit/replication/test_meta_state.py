"""What the meta group has agreed on, as its messages say it."""

from __future__ import annotations

import random

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import RepublishConfig
from slipstream.replication.meta.entries import Assignment, Node, decode, encode, stream_key
from slipstream.replication.meta.state import MetaState
from support.meta import assignment, node


def test_an_entry_comes_back_as_it_was() -> None:
    made = assignment("S", account="a.b > *", peers=[1, 2, 3], max_bytes=5, metadata={"k": "v"}, created_ns=123_456_789)
    made.config.republish = RepublishConfig(src="S", dest="R", outside=True)
    for entry in (node("n1", tags=["az:1"]), made, assignment("T", storage=StorageType.MEMORY)):
        assert decode(*encode(entry)) == entry


def test_accounts_have_keys_of_their_own() -> None:
    names = ["A", "a.b", "a%2Eb", "a b", "*", ">", "é"]
    keys = {stream_key(name, "S") for name in names}
    assert len(keys) == len(names) and all(key.count(b".") == 2 for key in keys)


def test_a_message_under_the_wrong_subject_is_refused() -> None:
    subject, payload = encode(assignment("S"))
    for wrong in (subject + b"x", b"node.1", b"other"):
        with pytest.raises(StorageFault):
            decode(wrong, payload)
    with pytest.raises(StorageFault):
        decode(subject, payload[:-1])


def test_the_last_message_of_a_subject_counts() -> None:
    state = MetaState()
    first, second = assignment("S", subjects=["s.>"]), assignment("S", subjects=["t.>"], max_bytes=10)
    assert state.apply(*encode(first)) == (None, first)
    assert state.apply(*encode(second)) == (first, second)
    held = state.account("A")
    assert held.matching("t.1") == ["S"] and held.matching("s.1") == [] and held.matching("") == ["S"]
    assert state.apply(encode(first)[0], b"") == (second, None)
    assert state.find("A", "S") is None and not state.accounts and not state.keys()
    assert state.apply(encode(first)[0], b"") == (None, None)


@pytest.mark.parametrize("seed", range(20))
def test_sums_are_those_of_the_assignments(seed: int) -> None:
    rng = random.Random(seed)
    state = MetaState()
    for _ in range(200):
        name, account = f"S{rng.randrange(8)}", rng.choice("AB")
        if rng.random() < 0.3:
            state.remove(stream_key(account, name))
        else:
            peers = rng.sample([1, 2, 3, 4], rng.choice((1, 3)))
            storage = rng.choice((StorageType.FILE, StorageType.MEMORY))
            state.put(
                assignment(name, account=account, peers=peers, max_bytes=rng.choice((-1, 5, 70)), storage=storage)
            )
        for one in (state, state.copy()):
            _check_sums(one)
            assert one.keys() == state.keys()


def _check_sums(state: MetaState) -> None:
    everything: list[Assignment] = list(state.assignments())
    assert len(everything) == sum(not isinstance(entry, Node) for entry in state.keys().values())
    for peer in (1, 2, 3, 4):
        mine, load = [one for one in everything if peer in one.peers], state.load_of(peer)
        assert load.streams == len(mine)
        assert load.replicated == sum(len(one.peers) > 1 for one in mine)
        assert load.preferred == sum(one.preferred == peer for one in mine)
        for storage in StorageType:
            assert load.reserved[storage] == sum(
                max(one.config.max_bytes, 0) for one in mine if one.config.storage is storage
            )


def test_a_draft_leaves_what_is_agreed_alone() -> None:
    state = MetaState()
    state.put(node("n1"))
    state.put(assignment("S"))
    draft = state.copy()
    draft.put(assignment("T"))
    draft.remove(stream_key("A", "S"))
    assert state.account("A").matching("") == ["S"] and draft.account("A").matching("") == ["T"]
    assert state.load_of(1).streams == draft.load_of(1).streams == 1
