"""Too many API calls that wait for their answers: the next ones are dropped and counted, by kind."""

from __future__ import annotations

from support.jetstream_world import World


def test_calls_beyond_the_limit_are_dropped_and_reported() -> None:
    w = World(request_queue_limit=3, info_queue_limit=2)
    w.create("S")
    w.ports.jobs_held = True
    for number in range(5):
        w.ports.route(b"$JS.API.STREAM.CREATE.N%d" % number, b"made.%d" % number, None, b'{"name":"N%d"}' % number)
    assert w.dispatcher.load.waiting == 3
    assert w.dropped == [False, False]
    # What only looks is counted apart, and what is answered at once is not counted at all.
    assert w.api("STREAM.NAMES")["total"] == 1
    w.ports.jobs_held = False
    w.ports.settle()
    assert [sent[0] for sent in w.ports.sent if sent[0].startswith(b"made.")] == [b"made.0", b"made.1", b"made.2"]
    assert w.dispatcher.load.waiting == 0
    assert sorted(w.account.streams) == ["N0", "N1", "N2", "S"]
    w.create("N3")


def test_refusals_and_failures_free_their_place() -> None:
    w = World(request_queue_limit=1)
    for _ in range(5):
        assert "error" in w.api("STREAM.DELETE.NONE")
        assert "error" in w.api("STREAM.CREATE.X", {"name": "Y"})
        w.create("S")
        assert w.api("STREAM.PURGE.S")["success"]
        assert w.api("STREAM.DELETE.S")["success"]
    assert w.dispatcher.load.waiting == 0


def test_publishes_beyond_max_buffered_msgs_are_refused() -> None:
    w = World(disk_like=True, max_buffered_msgs=3)
    w.create("S", subjects=["s"])
    w.ports.jobs_held = True
    for number in range(8):
        w.ports.route(b"s", b"ack.%d" % number, None, b"x")
        w.ports.settle()
    refused = [sent for sent in w.ports.sent if sent[0].startswith(b"ack.")]
    assert refused and all(b'"err_code":10167' in sent[3] for sent in refused)
    w.ports.jobs_held = False
    w.ports.settle()
    assert len([sent for sent in w.ports.sent if sent[0].startswith(b"ack.")]) == 8
    assert w.state()["messages"] == 8 - len(refused) >= 4
