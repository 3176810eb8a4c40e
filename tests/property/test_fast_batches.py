"""Fast batches through the intake's kernel, against the same stream message by message.

Two worlds get the same messages. In one of them the kernel never takes any: each goes through all rules. Answers,
stored messages and open batches must be the same, whatever is mixed and however messages fall into commits.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipstream.units import SECOND_NS
from support.jetstream_world import World

HEADERS = {
    "": None,
    "plain": b"NATS/1.0\r\nA: b\r\n\r\n",
    "id": b"NATS/1.0\r\nNats-Msg-Id: same\r\n\r\n",
    "last": b"NATS/1.0\r\nNats-Expected-Last-Sequence: 3\r\n\r\n",
}

names = st.sampled_from(["f", "f", "f", "g"])
gaps = st.sampled_from(["ok", "fail"])
# Many in a row are what the kernel is for; the rest is what may come between.
run = st.tuples(st.just("run"), names, gaps, st.integers(1, 15).map(str))
batch_message = st.tuples(
    st.just("batch"),
    names,
    st.sampled_from(["next", "next", "next", "skip", "again"]),
    st.sampled_from(["1", "1", "1", "2", "3", "4", "7"]),
    gaps,
    st.sampled_from(["", "", *HEADERS]),
)
plain_message = st.tuples(st.just("plain"), st.sampled_from(["", "id"]))
steps = st.lists(
    st.one_of(run, run, batch_message, plain_message, st.just(("settle",)), st.just(("wait",))), min_size=1, max_size=25
)
configs = st.sampled_from(
    [
        {},
        {},
        {},
        {"max_msgs": 5},
        {"max_msgs": 5, "discard": "new"},
        {"max_msg_size": 8},
        {"retention": "interest"},
        {"subject_transform": {"src": "s.>", "dest": "t.>"}},
        {"storage": "memory"},
    ]
)


class Side:
    """One of the worlds."""

    def __init__(self, config: dict[str, Any], flow: int, *, by_kernel: bool, disk_like: bool) -> None:
        self.world = World(disk_like=disk_like)
        self.world.create(subjects=["s.>"], allow_batched=True, **config)
        self.stream = self.world.account.streams["S"]
        self._before = len(self.world.ports.sent)
        self._flow = flow
        self._by_kernel = by_kernel
        self._sent = 0
        self._seqs: dict[str, int] = {}

    def take(self, step: tuple[str, ...]) -> None:
        match step:
            case ("settle",):
                self.world.ports.settle()
            case ("wait",):
                self.world.ports.advance(6 * SECOND_NS)
            case ("run", name, gap, count):
                for _ in range(int(count)):
                    self.take(("batch", name, "next", "1", gap, ""))
            case ("plain", header):
                self._send(f"_INBOX.{self._sent}", header)
            case ("batch", name, where, kind, gap, header):
                seq = self._seqs.get(name, 0) + {"next": 1, "skip": 2, "again": 0}[where]
                seq = max(seq, 1)
                operation = "0" if seq == 1 and kind == "1" else kind
                self._send(f"_INBOX.{self._sent}.{name}.{self._flow}.{gap}.{seq}.{operation}.$FI", header)
                self._seqs[name] = 0 if kind in ("2", "3") else seq
            case _:
                raise AssertionError(step)

    def _send(self, reply: str, header: str) -> None:
        self._sent += 1
        block, payload = HEADERS[header], b"x" * (self._sent % 12)
        if self._by_kernel:
            self.world.ports.route(b"s.a", reply.encode(), block, payload)
        else:
            self.stream.ingest.on_publish(b"s.a", reply.encode(), block, payload)

    def state(self) -> Any:
        """All that can be seen."""
        self.world.ports.settle()
        store = self.stream.store
        kept = [(m.seq, m.ts_ns, m.subject, m.headers, m.payload) for m in map(store.get, self.world.seqs()) if m]
        batches = {
            name: (one.seq, one.stored, one.acked, one.ack_every, one.stream_seq, one.last_active_ns)
            for name, one in self.stream.ingest.intake.batches.items()
        }
        sent = [(subject, payload) for subject, _, _, payload in self.world.ports.sent[self._before :]]
        return kept, batches, sent, store.last_seq, self.world.facts.batches.fast_open


@given(config=configs, flow=st.integers(1, 6), steps=steps, disk_like=st.booleans())
def test_the_kernel_does_what_the_rules_say(
    config: dict[str, Any], flow: int, steps: list[tuple[str, ...]], disk_like: bool
) -> None:
    short = Side(config, flow, by_kernel=True, disk_like=disk_like)
    whole = Side(config, flow, by_kernel=False, disk_like=disk_like)
    for step in steps:
        short.take(step)
        whole.take(step)
    assert short.state() == whole.state()
    short.stream.check_invariants()


def test_the_kernel_takes_what_needs_no_answer() -> None:
    side = Side({}, 100, by_kernel=True, disk_like=False)
    calls = []
    judge = side.stream.ingest.batches.fast.on_message

    def watching(*message: Any) -> None:
        calls.append(message)
        judge(*message)

    side.stream.ingest.batches.fast.__dict__["on_message"] = watching
    for _ in range(250):
        side.take(("batch", "f", "next", "1", "fail", ""))
    assert len(calls) == 3  # the first, and each hundredth
    kept, _, sent, *_ = side.state()
    assert len(kept) == 250
    assert sent == [
        (b"_INBOX.0.f.100.fail.1.0.$FI", b'{"type":"ack","seq":0,"msgs":100}'),
        (b"_INBOX.99.f.100.fail.100.1.$FI", b'{"type":"ack","seq":100,"msgs":100}'),
        (b"_INBOX.199.f.100.fail.200.1.$FI", b'{"type":"ack","seq":200,"msgs":100}'),
    ]
