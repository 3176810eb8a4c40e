"""How much a micro-batch takes, on a model of streams: each message has a size, some are not wanted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.spark.runtime.stream_state import Measured, StreamState
from slipstream.spark.source.admission import IDLE_SEQUENCES_MAX, BatchAdmission
from slipstream.spark.source.offsets import StreamPosition
from slipstream.spark.source.options import ReadLimits

SECOND = 1_000_000_000


class Streams:
    """Sizes of messages by stream; 0 is a gap or a message the query does not want."""

    def __init__(self, **sizes: list[int]) -> None:
        self.sizes = sizes

    def states(self) -> dict[str, StreamState]:
        return {name: StreamState(name, "id", 1, len(sizes)) for name, sizes in self.sizes.items()}

    def begin(self) -> dict[str, StreamPosition]:
        return {name: StreamPosition(1, "id") for name in self.sizes}

    def measure(self, stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None) -> Measured:
        messages = size = 0
        for seq in range(first, last + 1):
            one = self.sizes[stream][seq - 1]
            if not one:
                continue
            over = (max_messages is not None and messages == max_messages) or (
                max_bytes is not None and messages > 0 and size + one > max_bytes
            )
            if over:
                return Measured(seq - 1, messages, size)
            messages, size = messages + 1, size + one
        return Measured(last, messages, size)


def ends(streams: Streams, limits: ReadLimits, *, filtered: bool = False, **how: object) -> dict[str, int]:
    admission = BatchAdmission(limits, filtered=filtered, now_ns=0)
    offset = admission.next_end(streams.begin(), streams.states(), streams.measure, now_ns=0, **how)  # type: ignore[arg-type]
    return {name: at.seq for name, at in offset.positions.items()}


def test_without_limits_all_is_taken() -> None:
    assert ends(Streams(A=[1] * 10, B=[1] * 3, C=[]), ReadLimits()) == {"A": 11, "B": 4, "C": 1}


def test_messages_and_bytes_limit_together() -> None:
    streams = Streams(A=[10] * 100)
    assert ends(streams, ReadLimits(max_messages=7)) == {"A": 8}
    assert ends(streams, ReadLimits(max_bytes=30)) == {"A": 4}
    assert ends(streams, ReadLimits(max_messages=7, max_bytes=30)) == {"A": 4}
    assert ends(streams, ReadLimits(max_messages=2, max_bytes=30)) == {"A": 3}


def test_one_message_is_always_taken() -> None:
    assert ends(Streams(A=[1000, 1000]), ReadLimits(max_bytes=5)) == {"A": 2}


def test_a_trigger_that_wants_everything_gets_it() -> None:
    assert ends(Streams(A=[10] * 100), ReadLimits(max_messages=7, min_messages=500), everything=True) == {"A": 101}


def test_streams_share_a_limit_by_what_they_have() -> None:
    assert ends(Streams(A=[1] * 40, B=[1] * 10), ReadLimits(max_messages=25)) == {"A": 18, "B": 8}, "25 and 10 count"
    assert ends(Streams(A=[1] * 15, B=[1] * 5), ReadLimits(max_messages=10)) == {"A": 7, "B": 4}


def test_a_least_number_holds_the_batch_back_until_the_delay_is_over() -> None:
    streams = Streams(A=[1] * 5)
    admission = BatchAdmission(ReadLimits(min_messages=10, max_delay_ns=30 * SECOND), filtered=False, now_ns=0)

    def next_seq(now: int, may_wait: bool = True) -> int:
        offset = admission.next_end(
            streams.begin(), streams.states(), streams.measure, now_ns=now * SECOND, may_wait=may_wait
        )
        return offset.positions["A"].seq

    assert next_seq(1) == 1
    assert next_seq(29) == 1
    assert next_seq(2, may_wait=False) == 6
    assert next_seq(31) == 1, "the delay counts from the last batch"
    assert next_seq(33) == 6


def test_a_filter_that_finds_nothing_makes_no_batch_for_a_while() -> None:
    assert ends(Streams(A=[0] * 100), ReadLimits(), filtered=True) == {"A": 1}
    many = IDLE_SEQUENCES_MAX + 1
    assert ends(Streams(A=[0] * many), ReadLimits(), filtered=True) == {"A": many + 1}


@given(
    sizes=st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=1, max_size=3),
    max_messages=st.none() | st.integers(1, 20),
    max_bytes=st.none() | st.integers(1, 60),
)
def test_batches_cover_everything_once_and_keep_to_the_limits(
    sizes: list[list[int]], max_messages: int | None, max_bytes: int | None
) -> None:
    streams = Streams(**{f"S{number}": one for number, one in enumerate(sizes)})
    admission = BatchAdmission(ReadLimits(max_messages=max_messages, max_bytes=max_bytes), filtered=False, now_ns=0)
    begin = streams.begin()
    for _ in range(sum(map(len, sizes)) + 1):
        offset = admission.next_end(begin, streams.states(), streams.measure, now_ns=0)
        taken = {
            name: [size for size in streams.sizes[name][begin[name].seq - 1 : at.seq - 1] if size]
            for name, at in offset.positions.items()
        }
        assert all(offset.positions[name].seq >= begin[name].seq for name in begin)
        count = sum(map(len, taken.values()))
        if max_messages is not None:
            assert count <= max(max_messages, len(sizes))
        if offset.positions == begin:
            break
        begin = dict(offset.positions)
    wanted = {name: any(sizes[at.seq - 1 :]) for (name, at), sizes in zip(begin.items(), sizes, strict=True)}
    assert not any(wanted.values())
