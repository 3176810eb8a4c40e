"""Push delivery: interest, flow control, heartbeats, pacing."""

from support.consumer_world import SECOND_NS, ConsumerWorld, Inbox, status

MS = 1_000_000


def world(**config: object) -> tuple[ConsumerWorld, Inbox]:
    made = ConsumerWorld()
    made.stream()
    inbox = made.listen()
    made.add(deliver_subject="dlv", **config)
    return made, inbox


def test_nothing_goes_without_a_listener() -> None:
    w = ConsumerWorld()
    w.stream()
    w.fill(2)
    w.add(deliver_subject="dlv")
    assert w.ports.delivered == [] and "push_bound" not in w.info()
    inbox = w.listen()
    assert inbox.seqs() == [1, 2] and w.info()["push_bound"]
    inbox.subscription.close()
    w.fill(1)
    assert inbox.take() == []


def test_a_listener_gets_what_is_published() -> None:
    w, inbox = world(ack_policy="none")
    w.fill(3)
    assert inbox.seqs() == [1, 2, 3]
    assert w.numbers() == (3, 3, 0, 0, 0)


def test_flow_control_opens_the_window_step_by_step() -> None:
    w, inbox = world(ack_policy="none", flow_control=True, idle_heartbeat=SECOND_NS)
    w.fill(40, payload=b"x" * 100_000)
    first = inbox.take()
    requests = [message for message in first if status(message) == "100 FlowControl Request"]
    assert len(requests) == 1 and requests[0][2] is not None
    assert len(first) - 1 == 21, "two mebibytes, and the message that crossed the line"
    w.ports.advance(SECOND_NS)
    (beat,) = inbox.take()
    assert b"Nats-Consumer-Stalled: %b\r\n" % requests[0][2] in (beat[3] or b"")
    w.ports.route(b"$JS.FC.S.C.nope", None, None, b"")
    assert inbox.take() == []
    w.ports.route(requests[0][2], None, None, b"")
    assert len(inbox.seqs()) == 19


def test_heartbeats_follow_silence() -> None:
    w, inbox = world(ack_policy="none", idle_heartbeat=SECOND_NS)
    w.ports.advance(900 * MS)
    w.fill(1)
    w.ports.advance(900 * MS)
    assert inbox.statuses() == []
    w.ports.advance(200 * MS)
    assert inbox.statuses() == ["100 Idle Heartbeat"]


def test_original_speed() -> None:
    w = ConsumerWorld()
    w.stream()
    for _ in range(3):
        w.fill(1)
        w.ports.advance(SECOND_NS)
    inbox = w.listen()
    w.add(deliver_subject="dlv", ack_policy="none", replay_policy="original")
    assert inbox.seqs() == [1]
    w.ports.advance(SECOND_NS)
    assert inbox.seqs() == [2]
    w.ports.advance(SECOND_NS)
    assert inbox.seqs() == [3]
    w.ports.advance(100 * SECOND_NS)
    w.fill(2)
    assert inbox.seqs() == [4, 5], "what comes later comes at once"


def test_rate_limit() -> None:
    w = ConsumerWorld(max_payload_bytes=1_000)
    w.stream()
    w.fill(6, payload=b"x" * 900)
    inbox = w.listen()
    w.add(deliver_subject="dlv", ack_policy="none", rate_limit_bps=8_000)
    assert inbox.seqs() == [1]
    w.ports.advance(5 * SECOND_NS)
    assert 3 <= len(inbox.seqs()) <= 5
    w.ports.advance(5 * SECOND_NS)
    assert w.numbers()[0] == 6


def test_a_large_backlog_is_delivered_in_slices() -> None:
    w, inbox = world(ack_policy="none")
    w.ports.jobs_held = False
    w.fill(5_000)
    assert inbox.seqs() == list(range(1, 5_001))


def test_acks_by_flow_control() -> None:
    w, inbox = world(ack_policy="flow_control", max_ack_pending=3)
    w.fill(5)
    messages = inbox.take()
    assert [status(message) for message in messages] == [None, None, None, "100 FlowControl Request"]
    reply = messages[-1][2]
    assert reply is not None
    w.ports.route(reply, None, b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n", b"")
    assert inbox.seqs() == [4, 5]
    assert w.numbers()[:3] == (5, 2, 3)


def test_the_deliver_subject_moves_when_nobody_listens() -> None:
    w, inbox = world(ack_wait=60 * SECOND_NS)
    w.fill(1)
    assert inbox.seqs() == [1]
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", "deliver_subject": "new"}}
    body["config"]["ack_wait"] = 60 * SECOND_NS  # type: ignore[index]
    assert w.api("CONSUMER.CREATE.S.C", body)["error"]["err_code"] == 10013
    inbox.subscription.close()
    assert "error" not in w.api("CONSUMER.CREATE.S.C", body)
    other = w.listen("new")
    w.ports.advance(2 * MS)
    assert other.seqs() == [1], "what was pending comes again"


def test_a_push_consumer_refuses_pulls() -> None:
    w, _ = world()
    assert w.pull(1).statuses() == ["409 Consumer is push based"]


def test_a_stream_that_grows_over_the_deliver_subject_is_not_fed_by_it() -> None:
    w, inbox = world(ack_policy="none")
    config = {"name": "S", "subjects": ["s.>", "dlv"], "storage": "memory"}
    assert "error" not in w.api("STREAM.UPDATE.S", config)
    w.fill(2)
    assert inbox.take() == []
    assert any("deliver subject" in text for _, text in w.ports.logged)
    w.api("STREAM.UPDATE.S", {**config, "subjects": ["s.>"]})
    assert inbox.seqs() == [1, 2]
