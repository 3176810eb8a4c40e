"""The ack kernel against the ack engine it stands in for: any answers to any deliveries end alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.jetstream.ack_subjects import ack_numbers
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.kernels.fastpath.ackintake import AckIntake

PREFIX = b"$JS.ACK.S.C."
answer = st.tuples(
    st.sampled_from([b"1", b"2", b"x", b""]),
    st.one_of(
        st.integers(0, 12).map(lambda seq: b"%d" % seq), st.sampled_from([b"", b"1x", b"-1", b"9" * 19, b"9" * 40])
    ),
    st.sampled_from([b"", b"+ACK", b"-NAK", b"+ACK "]),
    st.sampled_from([None, b"_INBOX.1"]),
    st.booleans(),
)
steps = st.lists(st.one_of(answer, st.integers(1, 4), st.sampled_from(["nak", "again", "take"])), max_size=40)


class Side:
    """An engine with or without the kernel before it."""

    def __init__(self, *, kernel: bool) -> None:
        self.engine = AckEngine(1)
        self.began = 0
        self.slow: list[tuple[bytes, bytes | None, bytes]] = []
        self.next_seq = 1
        self.intake = AckIntake(len(PREFIX), self._slow, self._began)
        self.engine.bind(self.intake)
        self.intake.plain = kernel

    def _began(self) -> None:
        self.began += 1

    def _slow(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """The long way round, for what the kernel would have taken too."""
        numbers = ack_numbers(subject)
        if numbers is None or payload not in (b"", b"+ACK") or numbers[0] not in self.engine.pending:
            self.slow.append((subject, reply, payload))
            return
        if not self.intake.acked and not self.intake.confirm:
            self._began()
        assert self.engine.ack(numbers[0])
        self.intake.acked.append(numbers[0])
        if reply:
            self.intake.confirm.append(reply)

    def state(self) -> object:
        self.engine.check_invariants()
        return self.engine.dump(), self.intake.acked, self.intake.confirm, self.slow, self.began


@given(steps=steps)
def test_the_fast_path_ends_where_the_slow_one_does(steps: list[object]) -> None:
    sides = Side(kernel=True), Side(kernel=False)
    for step in steps:
        for side in sides:
            engine = side.engine
            if isinstance(step, int):
                engine.delivered(range(side.next_seq, side.next_seq + step), 100)
                side.next_seq += step
            elif step == "nak":
                for seq in list(engine.pending)[:1]:
                    engine.queue(seq)
            elif step == "again":
                if seq := engine.next_redelivery():
                    engine.redelivered(seq, 200)
            elif step == "take":
                side.intake.acked, side.intake.confirm = [], []
            else:
                assert isinstance(step, tuple)
                deliveries, seq, payload, reply, with_header = step
                header = b"NATS/1.0\r\n\r\n" if with_header else b""
                subject = PREFIX + b"%b.%b.1.5.0" % (deliveries, seq)
                if deliveries.isdigit():
                    side.intake(None, subject, reply, len(header), header + payload)
        assert sides[0].state() == sides[1].state()
