"""Streams judged against the assignments of their account."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from slipstream.errors import ApiError
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import Placement, StreamConfig
from slipstream.jetstream.config.validate import ConfigContext
from slipstream.jetstream.ports import AccountLimits
from slipstream.replication.meta.checks import AccountRules, changed_config, new_config
from slipstream.replication.meta.moves import wish
from slipstream.replication.meta.state import AccountStreams
from support.meta import assignment

PEERS = [1, 2, 3]


def rules(**limits: Any) -> AccountRules:
    return AccountRules(AccountLimits(**limits), ConfigContext(find_stream=lambda _: None))


def held(*streams: Any) -> AccountStreams:
    out = AccountStreams()
    for one in streams:
        out.put(one)
    return out


def ask(name: str, **fields: Any) -> StreamConfig:
    return StreamConfig(name=name, **{"subjects": [f"{name}.>"], **fields})


def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.err_code, caught.value.description


def test_a_new_stream() -> None:
    config, existing = new_config(ask("S", num_replicas=3), held(), rules())
    assert existing is None and config.num_replicas == 3 and config.max_msgs == -1
    assert config.metadata == {"_nats.req.level": "0"}


def test_the_same_again_is_found_and_another_refused() -> None:
    there = held()
    config, _ = new_config(ask("S", num_replicas=3), there, rules())
    made = msgspec.structs.replace(assignment("S", peers=PEERS), config=config)
    there.put(made)
    assert new_config(ask("S", num_replicas=3), there, rules()) == (config, made)
    assert refusal(lambda: new_config(ask("S", num_replicas=1), there, rules()))[0] == 10058
    assert refusal(lambda: new_config(ask("T", subjects=["S.x"]), there, rules()))[0] == 10065


def test_more_copies_than_allowed() -> None:
    assert refusal(lambda: new_config(ask("S", num_replicas=6), held(), rules())) == (10052, "maximum replicas is 5")


def test_limits_count_each_copy() -> None:
    there = held(assignment("S", peers=PEERS, max_bytes=10))
    assert refusal(lambda: new_config(ask("T", max_bytes=71), there, rules(max_storage=100)))[0] == 10047
    assert new_config(ask("T", max_bytes=70), there, rules(max_storage=100))[1] is None
    assert (
        refusal(lambda: new_config(ask("T", max_bytes=24, num_replicas=3), there, rules(max_storage=100)))[0] == 10047
    )
    memory = ask("T", max_bytes=101, storage=StorageType.MEMORY)
    assert refusal(lambda: new_config(memory, there, rules(max_memory=100)))[0] == 10028
    assert refusal(lambda: new_config(ask("T"), there, rules(max_streams=1)))[0] == 10027
    assert new_config(ask("T"), there, rules(max_streams=0)), "no number is no limit"
    assert refusal(lambda: new_config(ask("T", max_consumers=5), there, rules(max_consumers=4)))[0] == 10026


def test_tiers_have_limits_of_their_own() -> None:
    there = held(assignment("S", peers=PEERS, max_bytes=90), assignment("R", max_bytes=90))
    tiers = rules(tiers={"R3": AccountLimits(max_storage=100, max_streams=2), "R1": AccountLimits(max_streams=1)})
    assert refusal(lambda: new_config(ask("T", num_replicas=2), there, tiers))[0] == 10120
    assert refusal(lambda: new_config(ask("T"), there, tiers))[0] == 10027
    assert refusal(lambda: new_config(ask("T", num_replicas=3, max_bytes=11), there, tiers))[0] == 10047
    assert new_config(ask("T", num_replicas=3, max_bytes=10), there, tiers)[1] is None


def test_an_update() -> None:
    there = held(assignment("S", peers=PEERS), assignment("T"))
    config, existing = changed_config(ask("S", num_replicas=3, max_msgs=5), there, rules())
    assert config.max_msgs == 5 and existing is there.streams["S"]
    assert refusal(lambda: changed_config(ask("X"), there, rules()))[0] == 10059
    assert refusal(lambda: changed_config(ask("T", subjects=["S.q"]), there, rules()))[0] == 10065
    other_storage = ask("S", num_replicas=3, storage=StorageType.MEMORY)
    assert refusal(lambda: changed_config(other_storage, there, rules()))[0] == 10052
    assert refusal(lambda: changed_config(ask("T", max_bytes=9), there, rules(max_storage=8)))[0] == 10047


def test_other_servers_and_another_number_of_copies() -> None:
    there = held(assignment("S", peers=PEERS), assignment("T"))
    elsewhere = Placement(tags=["x"])
    assert changed_config(ask("S", num_replicas=5), there, rules())[0].num_replicas == 5
    assert changed_config(ask("S", num_replicas=3, placement=elsewhere), there, rules())[0].placement == elsewhere
    both = ask("S", num_replicas=5, placement=elsewhere)
    assert refusal(lambda: changed_config(both, there, rules()))[0] == 10123
    for asked in (ask("S", num_replicas=1), ask("T", num_replicas=3), ask("T", placement=elsewhere)):
        assert changed_config(asked, there, rules())[1].name == asked.name
    there.put(assignment("M", storage=StorageType.MEMORY))
    there.put(assignment("H", metadata={"slipstream.chain": "blake2b"}))
    for asked in (
        ask("M", num_replicas=3, storage=StorageType.MEMORY),
        ask("H", placement=elsewhere, metadata={"slipstream.chain": "blake2b"}),
    ):
        assert refusal(lambda asked=asked: changed_config(asked, there, rules()))[0] == 10036
    there.put(wish(there.streams["S"], [3, 4, 5]))
    moving = ask("S", num_replicas=3, placement=elsewhere)
    assert refusal(lambda: changed_config(moving, there, rules()))[0] == 10124
    assert changed_config(ask("S", num_replicas=5), there, rules())[0].num_replicas == 5


def test_what_streams_of_a_cluster_cannot_do_yet() -> None:
    there = held(assignment("S"))
    template = {"slipstream.template": "M_{2}"}
    idle = ask("M", subjects=["m.*"], metadata={**template, "slipstream.template.idle": "30m"})
    assert refusal(lambda: new_config(idle, there, rules()))[0] == 10052
    made = new_config(ask("M", subjects=["m.*"], num_replicas=3, metadata=template), there, rules())
    assert made[0].num_replicas == 3
    assert new_config(ask("M", storage=StorageType.MEMORY, allow_atomic=True), there, rules())[1] is None
