"""A stream on a disk that loses power: what was acknowledged is there, nothing else is invented."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import FakePorts

SUBJECTS = ["s.a", "s.b"]
operations = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.binary(max_size=20)),
        st.tuples(st.just("id"), st.sampled_from(SUBJECTS), st.sampled_from(["1", "2", "3"])),
        st.tuples(st.just("delete"), st.integers(1, 12)),
        st.tuples(st.just("purge"), st.sampled_from(["", *SUBJECTS]), st.integers(0, 3)),
        st.tuples(st.just("truncate"), st.sampled_from(["after_seq", "newest"]), st.integers(0, 12)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("crash"), st.integers(0, 2**32), st.floats(0, 1)),
    ),
    max_size=30,
)


@given(operations)
def test_acknowledged_changes_survive(steps: list[tuple[Any, ...]]) -> None:
    disk = SimDisk()
    world = disk_world(disk)
    world.create("S", subjects=["s.*"])
    model: dict[int, tuple[bytes, bytes]] = {}
    ids: dict[str, int] = {}
    last = 0
    for step in steps:
        if step[0] in ("restart", "crash"):
            if step[0] == "restart":
                world.account.shutdown()
            else:
                disk = disk.crash(random.Random(step[1]), keep=step[2], torn=True)
            ports = FakePorts()
            ports.clock_ns = world.ports.clock_ns
            world = disk_world(disk, ports)
            world.ports.settle()
        elif step[0] == "publish":
            answer = world.publish(step[1], step[2])
            last += 1
            assert answer == {"stream": "S", "seq": last}
            model[last] = (step[1].encode(), step[2])
        elif step[0] == "id":
            answer = world.publish(step[1], b"id", Nats_Msg_Id=step[2])
            if step[2] in ids and ids[step[2]] in model | {answer["seq"]: ()}:
                assert answer == {"stream": "S", "seq": ids[step[2]], "duplicate": True}
            elif "duplicate" not in answer:
                last += 1
                assert answer["seq"] == last
                ids[step[2]] = last
                model[last] = (step[1].encode(), b"id")
        elif step[0] == "delete":
            answer = world.api("STREAM.MSG.DELETE.S", {"seq": step[1]})
            assert ("error" not in answer) == (step[1] in model)
            model.pop(step[1], None)
        elif step[0] == "truncate":
            behind = [seq for seq in sorted(model) if seq > step[2]]
            gone = behind if step[1] == "after_seq" else sorted(model)[len(model) - min(step[2], len(model)) :]
            assert world.api("STREAM.TRUNCATE.S", {step[1]: step[2]})["truncated"] == len(gone)
            for seq in gone:
                del model[seq]
        else:
            matching = [seq for seq, (subject, _) in sorted(model.items()) if step[1] in ("", subject.decode())]
            gone = matching[: max(len(matching) - step[2], 0)]
            answer = world.api("STREAM.PURGE.S", {"filter": step[1], "keep": step[2]})
            assert answer["purged"] == len(gone)
            for seq in gone:
                del model[seq]
        stream = world.account.streams["S"]
        stream.check_invariants()
        assert stream.store.last_seq == last
        stored = {}
        for seq in world.seqs():
            message = stream.store.get(seq)
            assert message is not None
            stored[seq] = (message.subject, message.payload)
        assert stored == model
