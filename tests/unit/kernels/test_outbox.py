"""Bytes that wait for a connection are handed over whole, or a part at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.kernels.wire.outbox import FlushQueue, Outbox

writes = st.lists(st.binary(max_size=700), max_size=12)


def outbox() -> Outbox:
    return Outbox(FlushQueue(lambda: None), None, 1 << 30)


@given(st.lists(st.tuples(writes, st.integers(1, 2_000)), max_size=8))
def test_parts_are_the_bytes_that_were_written(rounds: list[tuple[list[bytes], int]]) -> None:
    box = outbox()
    written = b""
    taken: list[bytes | memoryview] = []
    for datas, most in rounds:
        for data in datas:
            box.write(data)
            written += data
        before = box.waiting
        part = box.take(most)
        assert sum(map(len, part)) == min(most, before) == before - box.waiting
        taken += part
    taken += box.take()
    assert b"".join(taken) == written
    assert box.waiting == 0 and box.take() == []


def test_a_part_of_a_large_object_is_not_copied() -> None:
    box = outbox()
    box.write(bytes(200_000))
    parts = [part for _ in range(4) for part in box.take(50_000)]
    views = [part for part in parts if isinstance(part, memoryview)]
    assert len(views) == len(parts) == 4
    assert len({id(view.obj) for view in views}) == 1


def test_an_object_that_is_written_whole_is_handed_over_as_it_is() -> None:
    box, large = outbox(), bytes(100_000)
    box.write(b"before")
    box.write_whole(large)
    box.write(b"behind")
    taken = box.take()
    assert taken == [b"before", large, b"behind"] and taken[1] is large
    box.close()
    box.write_whole(large)
    assert box.waiting == 0


def test_much_is_flushed_before_the_turn_ends() -> None:
    flushed: list[Outbox] = []
    box = Outbox(FlushQueue(lambda: None, flushed.append), None, 1 << 30)
    box.early_at = 10
    box.write(b"x" * 10)
    box.flush_early()
    assert flushed == []
    box.write(b"x")
    box.flush_early()
    assert flushed == [box]
