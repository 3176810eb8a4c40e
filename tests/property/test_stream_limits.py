"""A stream with limits against a model that keeps a list: same acks, same messages, same sequence numbers."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipstream.jetstream.stream.admission.dedup import MessageIds
from slipstream.units import SECOND_NS
from support.jetstream_world import World

SUBJECTS = ["s.a", "s.b", "s.c"]
OVERHEAD = 16 + 3  # bytes a message in memory costs beside its payload: a constant and the subject


class Model:
    """What nats-server's documentation says, without an index."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.last = 0
        self.messages: dict[int, tuple[str, int, int]] = {}  # seq → subject, size, time

    def publish(self, subject: str, size: int, now_ns: int) -> str | None:
        """The error text, or None if it was stored."""
        config = self.config
        cost = size + OVERHEAD
        per_subject, own = config["max_msgs_per_subject"], self._of(subject)
        full = per_subject > 0 and len(own) >= per_subject
        if config["discard"] == "new":
            if full and config["discard_new_per_subject"]:
                return "maximum messages per subject exceeded"
            if 0 < config["max_msgs"] <= len(self.messages) and not full:
                return "maximum messages exceeded"
            total = sum(message[1] for message in self.messages.values())
            if 0 < config["max_bytes"] < total + cost and not (full and self.messages[own[0]][1] >= cost):
                return "maximum bytes exceeded"
        self.last += 1
        self.messages[self.last] = (subject, cost, now_ns)
        own = self._of(subject)
        if 0 < per_subject < len(own):
            for seq in own[: len(own) - per_subject]:
                del self.messages[seq]
        if config["discard"] == "old":
            while self.messages and (
                0 < config["max_msgs"] < len(self.messages)
                or 0 < config["max_bytes"] < sum(message[1] for message in self.messages.values())
            ):
                del self.messages[min(self.messages)]
        return None

    def expire(self, now_ns: int) -> None:
        """Drop what is too old."""
        age = self.config["max_age"]
        if age:
            self.messages = {seq: message for seq, message in self.messages.items() if message[2] > now_ns - age}

    def _of(self, subject: str) -> list[int]:
        return [seq for seq, message in sorted(self.messages.items()) if message[0] == subject]


limits = st.fixed_dictionaries(
    {
        "max_msgs": st.sampled_from([-1, 1, 3]),
        "max_bytes": st.sampled_from([-1, 40, 100]),
        "max_msgs_per_subject": st.sampled_from([-1, 1, 2]),
        "max_age": st.sampled_from([0, 2 * SECOND_NS]),
        "discard": st.sampled_from(["old", "new"]),
        "discard_new_per_subject": st.booleans(),
    }
).filter(
    lambda config: (
        not config["discard_new_per_subject"] or (config["discard"] == "new" and config["max_msgs_per_subject"] > 0)
    )
)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(SUBJECTS), st.integers(0, 40)),
        st.integers(1, 3 * SECOND_NS),
    ),
    max_size=40,
)


@given(limits, steps)
def test_stream_agrees_with_the_model(config: dict[str, Any], history: list[Any]) -> None:
    world = World()
    world.create("S", subjects=["s.*"], storage="memory", **config)
    model = Model(config)
    for step in history:
        if isinstance(step, int):
            world.ports.advance(step)
            # Timers are not finer than this; what is due by now must be gone a moment later.
            world.ports.advance(SECOND_NS // 10)
        else:
            subject, size = step
            expected = model.publish(subject, size, world.ports.clock_ns)
            answer = world.publish(subject, b"x" * size)
            if expected is None:
                assert answer == {"stream": "S", "seq": model.last}
            else:
                assert answer["error"]["description"] == expected
        model.expire(world.ports.clock_ns)
        if isinstance(step, int):
            assert world.seqs() == sorted(model.messages)
        world.account.streams["S"].check_invariants()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=60), st.integers(1, 8))
def test_ids_agree_with_a_list(arrivals: list[tuple[str, int]], window: int) -> None:
    ids = MessageIds(window)
    remembered: list[tuple[int, str, int]] = []
    now = 0
    for seq, (letter, pause) in enumerate(arrivals, start=1):
        now += pause
        remembered = [entry for entry in remembered if entry[0] > now - window]
        expected = next((entry[2] for entry in remembered if entry[1] == letter), None)
        assert ids.find(letter.encode(), now) == expected
        if expected is None:
            ids.add(letter.encode(), seq, now)
            remembered.append((now, letter, seq))
        ids.check_invariants()
        assert len(ids) == len(remembered)
