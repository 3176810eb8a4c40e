"""Running totals of an account: subjects, reservations and bytes, the same as a walk over all streams would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.resources import AccountBudget, ServerBudget, StreamShare
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.consumer.partition import Partition
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import AccountLimits
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.kernels.subjects.subject import overlaps
from support.jetstream_world import World

SUBJECTS = st.lists(st.sampled_from(["a", "b", "a.*", "*.b", "a.>", "c.d", "*.*"]), min_size=1, max_size=3, unique=True)
CONFIGS = st.builds(
    StreamConfig,
    name=st.sampled_from("ABC"),
    subjects=SUBJECTS,
    storage=st.sampled_from(StorageType),
    max_bytes=st.sampled_from([-1, 10, 500]),
)


def _overlaps_others(config: StreamConfig, streams: dict[str, StreamConfig]) -> bool:
    return any(
        overlaps(one.encode(), two.encode())
        for name, other in streams.items()
        if name != config.name
        for one in config.subjects
        for two in other.subjects
    )


@given(st.lists(st.tuples(st.booleans(), CONFIGS), max_size=20))
def test_holdings_are_those_of_all_streams(history: list[tuple[bool, StreamConfig]]) -> None:
    server = {storage: ServerBudget(1 << 40) for storage in StorageType}
    holdings, streams = Holdings(server), dict[str, StreamConfig]()
    for keeps, config in history:
        old = streams.get(config.name)
        if not keeps:
            holdings.give_back(config.name)
            streams.pop(config.name, None)
            continue
        if old is not None and old.storage is not config.storage:
            continue
        try:
            holdings.check_overlap(config)
        except TableError as error:
            assert error.err_code == 10065
            assert _overlaps_others(config, streams)
            continue
        assert not _overlaps_others(config, streams)
        if old is None:
            holdings.take(config)
        else:
            holdings.change(config)
        streams[config.name] = config
    for storage in StorageType:
        expected = sum(max(one.max_bytes, 0) for one in streams.values() if one.storage is storage)
        assert holdings.reserved_bytes(storage) == server[storage].reserved_bytes == expected
    for asked in ("a", "a.b", ">", "c.*"):
        touched = {
            name for name, one in streams.items() if any(overlaps(own.encode(), asked.encode()) for own in one.subjects)
        }
        assert holdings.touching(asked) == touched


class TestShare:
    """A limit of the account holds for all its streams, to the message."""

    def _two(self) -> tuple[AccountBudget, MemoryStore, StreamShare, StreamShare]:
        budget = AccountBudget(ServerBudget(1 << 40), 100)
        store, other = (MemoryStore(b"{}", random64=lambda: 1) for _ in range(2))
        return budget, store, StreamShare(budget, store), StreamShare(budget, other)

    def test_what_one_was_allowed_the_other_cannot_have(self) -> None:
        budget, _, one, two = self._two()
        # Nothing is stored under these, so a look finds nothing; until then they count.
        assert not one.would_exceed(60)
        assert budget.known_bytes == 60
        assert not two.would_exceed(40)
        assert budget.known_bytes == 100

    def test_a_promise_that_was_not_kept_is_taken_back_before_anybody_is_refused(self) -> None:
        budget, _, one, two = self._two()
        assert not one.would_exceed(90)
        assert not two.would_exceed(90)
        assert budget.known_bytes == 90

    def test_what_is_reported_counts(self) -> None:
        budget, _, one, two = self._two()
        one.report(70)
        assert budget.used_bytes == budget.known_bytes == 70
        assert two.would_exceed(31)
        assert not two.would_exceed(30)
        one.report(-70)
        assert not two.would_exceed(100)


def test_a_limited_account_takes_exactly_what_fits() -> None:
    w = World(limits=AccountLimits(max_memory=1000))
    for name in "AB":
        w.create(name, storage="memory")
    taken = 0
    for number in range(100):
        answer = w.publish("AB"[number % 2], b"x" * 30)
        taken += "error" not in answer
    assert 0 < taken < 100
    assert w.api("INFO")["memory"] <= 1000
    assert w.api("INFO")["memory"] == sum(w.api(f"STREAM.INFO.{name}")["state"]["bytes"] for name in "AB")


def test_parts_of_a_work_queue() -> None:
    partition = Partition()
    partition.set("A", [b"a.*"])
    assert partition.is_free("B", [b"b.*"])
    assert not partition.is_free("B", [b"*.x"])
    assert partition.is_free("A", [b"a.x", b"*.x"])
    assert partition.is_free("B", [])
    partition.set("A", [b"c"])
    assert partition.is_free("B", [b"a.x"])
    partition.set("C", [])
    assert not partition.is_free("B", [b"a.x"])
    assert partition.is_free("C", [b"a.x"])
    partition.drop("C")
    assert partition.is_free("B", [b"a.x"])
