"""The intake kernel against its plain model, through any history of messages, openings and commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from models.fast_batch import Batch
from models.intake import Intake as Model
from slipstream.kernels.fastpath.fastbatch import FastBatch
from slipstream.kernels.fastpath.intake import Intake
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter

SALT = 7
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"

message = st.tuples(
    st.integers(1, 50),
    st.sampled_from([b"a", b"a.b", b"orders.new"]),
    st.one_of(
        st.sampled_from([None, b"", b"_INBOX.1", b"_INBOX.1", b".$FI", b"_INBOX.FI"]),
        st.builds(
            lambda batch, seq, kind: b"_INBOX.%b.10.ok.%d.%d.$FI" % (batch, seq, kind),
            st.sampled_from([b"f", b"f", b"g", b"unknown"]),
            st.sampled_from([2, 2, 3, 3, 4, 5]),
            st.sampled_from([1, 1, 1, 2, 3, 4]),
        ),
    ),
    st.sampled_from([b"", b"", b"", HEADER]),
    st.binary(max_size=12),
)
steps = st.lists(st.one_of(message, st.sampled_from(["open", "close", "commit", "stand by", "change"])), max_size=60)


@given(steps=steps, full_msgs=st.sampled_from([0, 0, 3]), full_bytes=st.sampled_from([0, 0, 150]))
def test_kernel_agrees_with_model(
    steps: list[tuple[int, bytes, bytes | None, bytes, bytes] | str], full_msgs: int, full_bytes: int
) -> None:
    now = [0]
    slow: list[tuple[bytes, bytes | None, bytes | None, bytes]] = []
    seen: list[tuple[int, bytes, int]] = []
    writer = LogWriter(MessageIndex(1))
    writer.open_segment(1, SALT, 0, 1 << 20, 0)
    model = Model(30, 3, 10)

    def resume() -> bool:
        if not model.resumes:
            kernel.close()
        return model.resumes

    kernel = Intake(lambda *what: slow.append(what), resume, lambda: now[0], 30, 3)
    kernel.payload_bytes_max = 10
    kernel.full_msgs = model.full_msgs = full_msgs
    kernel.full_bytes = model.full_bytes = full_bytes
    kernel.appended = lambda seq, subject, expires: seen.append((seq, subject, expires))
    for batch_id, ack_at in ((b"f", 5), (b"g", 3)):
        known = kernel.batches[batch_id] = FastBatch(True, 10)
        known.seq = known.stored = 1
        known.ack_at = ack_at
        model.batches[batch_id] = Batch(ack_at)
    for step in steps:
        if step == "open":
            kernel.open(writer)
            model.is_open, model.standing_by = True, False
        elif step == "close":
            kernel.close()
            model.is_open = False
        elif step == "stand by":
            kernel.stand_by()
            model.standing_by = True
        elif step == "change":
            model.resumes = not model.resumes
        elif step == "commit":
            assert kernel.take_acks() == model.acks
            model.acks, model.buffered_bytes = [], 0
        else:
            assert not isinstance(step, str)
            now[0], subject, reply, header, payload = step
            kernel(None, subject, reply, len(header), header + payload)
            model.take(now[0], subject, reply, header, payload)
        assert kernel.is_open == model.is_open
        assert kernel.acks == model.acks
        assert kernel.buffered_bytes == model.buffered_bytes
        for batch_id, batch in kernel.batches.items():
            expected_batch = model.batches[batch_id]
            assert (batch.seq, batch.stored) == (expected_batch.seq, expected_batch.stored)
            assert batch.stream_seq == expected_batch.stream_seq
            assert batch.last_active_ns == expected_batch.last_active_ns
        assert (kernel.last_seq, kernel.last_ts_ns) == (len(model.appended), model.last_ts_ns)
    assert slow == model.slow
    assert seen == [(seq, subject, 0) for seq, _, subject, _ in model.appended]
    expected = LogWriter(MessageIndex(1))
    expected.open_segment(1, SALT, 0, 1 << 20, 0)
    for seq, ts_ns, subject, payload in model.appended:
        assert expected.append(seq, ts_ns, subject, b"", payload)
    assert writer.take() == expected.take()
    assert writer.last_ts == expected.last_ts
