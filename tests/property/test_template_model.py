"""Templates, whatever comes: each publish is acknowledged once and stored in its stream; only what is empty goes."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.consumer_world import SECOND_NS, ConsumerWorld

LIMIT = 3
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.sampled_from("abcde"), min_size=1, max_size=5)),
        st.tuples(st.just("purge"), st.sampled_from("abcde")),
        st.tuples(st.just("delete"), st.sampled_from("abcde")),
        st.tuples(st.just("wait"), st.integers(1, 120)),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=20,
)


@settings(deadline=None)
@example([("publish", ["a"]), ("wait", 77), ("purge", "a"), ("wait", 1)])
@given(steps)
def test_streams_come_and_go_with_their_messages(taken: list[tuple[str, object]]) -> None:
    w = ConsumerWorld()
    metadata = {"slipstream.template": "S_{2}", "slipstream.template.max": str(LIMIT), "slipstream.template.idle": "1m"}
    w.stream("T", ["s.*"], metadata=metadata)
    held: dict[str, int] = {}  # stream that is there → its messages
    used_ns: dict[str, int] = {}
    emptied_ns: dict[str, int] = {}
    inboxes = 0
    for verb, what in taken:
        if verb == "publish":
            assert isinstance(what, list)
            first = inboxes
            for key in what:
                w.ports.route(f"s.{key}".encode(), b"_INBOX.m.%d" % inboxes, None, b"x")
                inboxes += 1
            w.ports.settle()
            for number, key in enumerate(what, first):
                (answer,) = [sent[3] for sent in w.ports.sent if sent[0] == b"_INBOX.m.%d" % number]
                if key in held or len(held) < LIMIT:
                    assert answer.startswith(b'{"stream":"S_%b","seq":' % key.encode()), answer
                    held[key] = held.get(key, 0) + 1
                    used_ns[key] = w.ports.now_ns()
                else:
                    assert b"30105" in answer
        elif verb == "purge" and what in held:
            w.api(f"STREAM.PURGE.S_{what}")
            held[str(what)] = 0
            emptied_ns[str(what)] = w.ports.now_ns()
        elif verb == "delete" and what in held:
            w.api(f"STREAM.DELETE.S_{what}")
            del held[str(what)]
        elif verb == "wait":
            assert isinstance(what, int)
            w.ports.advance(what * SECOND_NS)
            there = {name.removeprefix("S_") for name in w.account.streams if name != "T"}
            for key in [key for key in held if key not in there]:
                assert held.pop(key) == 0 and w.ports.now_ns() - used_ns[key] >= 60 * SECOND_NS
            before_ns = w.ports.now_ns() - what * SECOND_NS
            for key in [key for key in held if not held[key]]:  # looked at every quarter of the time
                assert before_ns <= max(used_ns[key] + 76 * SECOND_NS, emptied_ns[key] + 16 * SECOND_NS)
        elif verb == "restart":
            w = w.restart()
        stored = {name: stream.store.messages for name, stream in w.account.streams.items() if name != "T"}
        assert stored == {f"S_{key}": count for key, count in held.items()}
        w.check()
