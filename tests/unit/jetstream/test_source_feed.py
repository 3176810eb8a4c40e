"""Reading another stream: what is missed is asked for again, what is stored is never asked for twice."""

import itertools
import json
from typing import Any

import pytest

from slipstream.errors import StorageFault
from support.copy_world import SECOND_NS, CopyWorld


@pytest.fixture
def world() -> CopyWorld:
    return CopyWorld()


def test_a_mirror_follows_its_origin(world: CopyWorld) -> None:
    world.origin(count=5)
    world.mirror()
    assert world.info()["mirror"] == {"name": "O", "lag": 0, "active": -1}
    world.wait()
    assert world.payloads() == world.payloads("O")
    world.fill(3)
    assert world.last_seq() == 8
    assert world.info()["mirror"]["active"] >= 0
    assert len(world.asked()) == 1


def test_a_lost_delivery_is_noticed_by_the_next(world: CopyWorld) -> None:
    world.origin()
    world.mirror()
    world.wait()
    lost = iter([False])
    world.ports.passes = lambda _: next(lost, True)
    world.fill(3)
    assert world.payloads() == []
    world.wait(3 * SECOND_NS)
    assert world.payloads() == world.payloads("O")
    assert len(world.asked()) == 2


def test_a_lost_last_delivery_is_noticed_by_a_heartbeat(world: CopyWorld) -> None:
    world.origin()
    world.mirror()
    world.wait()
    world.fill(1)
    lost = iter([False])
    world.ports.passes = lambda _: next(lost, True)
    world.fill(1)
    assert world.last_seq() == 1
    world.wait(4 * SECOND_NS)
    assert world.last_seq() == 2


def test_silence_is_noticed(world: CopyWorld) -> None:
    world.origin(count=1)
    world.mirror()
    world.wait()
    world.ports.passes = lambda _: False
    world.fill(1)
    world.wait(15 * SECOND_NS)
    assert len(world.asked()) == 2
    world.ports.passes = lambda _: True
    world.wait(25 * SECOND_NS)
    assert world.last_seq() == 2


def test_a_repeated_or_foreign_delivery_is_not_stored(world: CopyWorld) -> None:
    world.origin(count=2)
    world.mirror()
    world.wait()
    target, subject, reply, header, payload = next(m for m in world.ports.delivered if m[4] == b"1")
    assert reply is not None
    tokens = reply.split(b".")
    for forged in (
        reply,
        b".".join([*tokens[:3], b"OTHER", *tokens[4:]]),
        b".".join([*tokens[:4], b"2", *tokens[5:]]),
        b".".join([*tokens[:5], b"x", *tokens[6:]]),
        b"$JS.ACK",
        None,
    ):
        world.ports.route(target, forged, header, payload)
    world.ports.settle()
    world.wait(3 * SECOND_NS)
    assert world.payloads() == [b"0", b"1"]
    assert subject == b"o.1"


def test_an_origin_that_does_not_exist_is_asked_more_and_more_rarely(world: CopyWorld) -> None:
    world.mirror()
    world.wait()
    assert world.info()["mirror"]["error"]["err_code"] == 10059
    times = []
    for _ in range(600):
        before = len(world.asked())
        world.wait(SECOND_NS)
        if len(world.asked()) > before:
            times.append(world.ports.now_ns() // SECOND_NS)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps == sorted(gaps)
    assert 20 <= gaps[0] <= 24
    assert gaps[-1] <= 124


def test_an_origin_that_appears_is_read_at_once(world: CopyWorld) -> None:
    world.mirror()
    world.wait(SECOND_NS)
    world.origin(count=2)
    world.wait(3 * SECOND_NS)
    assert world.last_seq() == 2
    assert "error" not in world.info()["mirror"]


def test_no_answer_ends_the_wait(world: CopyWorld) -> None:
    world.create("M", storage="memory", mirror={"name": "O", "external": {"api": "far.away", "deliver": "to.here"}})
    world.wait()
    reply = next(reply for subject, reply, _, _ in world.ports.sent if subject == b"far.away.CONSUMER.CREATE.O")
    world.wait(60 * SECOND_NS)
    # After 2, 4, 8, 16 and 30 seconds: who is there answers at once, and who is not is not troubled often.
    assert [subject for subject, *_ in world.ports.sent].count(b"far.away.CONSUMER.CREATE.O") == 5
    assert reply is not None
    world.ports.route(reply, None, None, b"{}")  # too late: nobody listens any more
    assert world.info()["mirror"]["active"] == -1


@pytest.mark.parametrize("answer", [b"nonsense", b"{}", b"[]", b'{"name":1}'])
def test_answers_that_make_no_sense(world: CopyWorld, answer: bytes) -> None:
    world.create("M", storage="memory", mirror={"name": "O", "external": {"api": "far", "deliver": ""}})
    world.wait()
    (reply,) = [reply for subject, reply, _, _ in world.ports.sent if subject == b"far.CONSUMER.CREATE.O"]
    assert reply is not None
    world.ports.route(reply, None, None, answer)
    assert world.info()["mirror"]["error"]["err_code"] in (10025, 10029)


def test_what_is_asked_for(world: CopyWorld) -> None:
    world.origin(count=3)
    world.mirror()
    world.wait()
    (body,) = [body for subject, _, _, body in world.ports.sent if subject == b"$JS.API.CONSUMER.CREATE.O"]
    config = json.loads(body)["config"]
    assert config["name"] == "JS_MIRROR_ih8eMwqr"  # as nats-server calls it for M in $G
    assert config["metadata"] == {"_nats.mirror.acc": "$G", "_nats.mirror.stream": "M"}
    assert config["ack_policy"] == "none" and config["flow_control"] and config["direct"] and config["sourcing"]


def test_flow_control_is_answered_after_the_commit() -> None:
    world = CopyWorld(disk_like=True)
    world.origin(count=1)
    world.mirror(storage="file")
    world.wait()
    feed = world.feed()
    world.ports.jobs_held = True
    (target,) = {target for target, _, _, _, payload in world.ports.delivered if payload == b"0"}
    reply = b"$JS.ACK.O.%b.1.2.2.%d.0" % (feed._consumer, world.ports.now_ns())
    for listener in [found for found in world.ports.subscriptions if found.subject == target]:
        listener.on_message(b"o.1", reply, None, b"not committed yet")
        listener.on_message(target, b"$JS.FC.answer", b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"")
    world.ports.settle()
    assert not [sent for sent in world.ports.sent if sent[0] == b"$JS.FC.answer"]
    world.ports.jobs_held = False
    world.ports.settle()
    ((_, _, header, _),) = [sent for sent in world.ports.sent if sent[0] == b"$JS.FC.answer"]
    assert header == b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"


def test_a_failed_commit_is_read_again() -> None:
    world = CopyWorld(disk_like=True)
    world.origin(count=2)
    world.mirror(storage="file")
    world.wait()
    store: Any = world.account.streams["M"].store
    store.fail_next = StorageFault("disk on fire")
    world.fill(2)
    assert world.last_seq() == 2
    world.wait(4 * SECOND_NS)
    assert world.payloads() == world.payloads("O")


def test_a_refused_message_is_tried_again(world: CopyWorld) -> None:
    world.origin(count=2)
    world.sources({"name": "O"}, max_msgs=1, discard="new")
    world.wait()
    assert world.payloads("S") == [b"0"]
    world.api("STREAM.PURGE.S")
    world.wait(4 * SECOND_NS)
    assert world.payloads("S") == [b"1"]
    warnings = [text for level, text in world.ports.logged if level == "WRN"]
    assert any("maximum messages exceeded" in text for text in warnings)


def test_nothing_is_left_behind(world: CopyWorld) -> None:
    world.origin(count=2)
    before = len(world.ports.subscriptions)
    world.mirror()
    world.sources({"name": "O"})
    world.wait()
    world.api("STREAM.DELETE.M")
    world.api("STREAM.DELETE.S")
    world.wait(60 * SECOND_NS)
    assert len(world.ports.subscriptions) == before
    assert world.info("O")["state"]["consumer_count"] == 0


def test_the_consumer_is_announced_as_any_other(world: CopyWorld) -> None:
    told: list[bytes] = []
    world.ports.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.>", lambda subject, *_: told.append(subject.rsplit(b"-")[0]))
    world.origin()
    world.mirror()
    world.wait()
    world.api("STREAM.DELETE.O")
    assert told == [b"$JS.EVENT.ADVISORY.CONSUMER.%b.O.JS_MIRROR_ih8eMwqr" % verb for verb in (b"CREATED", b"DELETED")]


def test_what_publishers_may_have_waiting_does_not_slow_a_copy() -> None:
    world = CopyWorld(max_buffered_bytes=1)
    world.origin(count=50)
    world.mirror()
    world.sources({"name": "O"})
    world.wait()
    assert world.last_seq() == world.last_seq("S") == 50


class Impostor:
    """A client that answers for an origin it does not have."""

    def __init__(self, **answer: Any) -> None:
        self.world = CopyWorld()
        self.world.create("V", storage="memory", subjects=["v.>"])
        self.world.create("M", storage="memory", mirror={"name": "O", "external": {"api": "far", "deliver": "near"}})
        self.world.wait()
        sent = [found for found in self.world.ports.sent if found[0] == b"far.CONSUMER.CREATE.O"]
        ((_, reply, _, body),) = sent
        assert reply is not None
        self.target = json.loads(body)["config"]["deliver_subject"]
        said = {"name": "C", "config": {"deliver_subject": self.target}, **answer}
        self.world.ports.route(reply, None, None, json.dumps(said).encode())

    def deliver(self, seq: int | str, ts_ns: int | str = 1, header: bytes | None = None) -> None:
        reply = f"$JS.ACK.O.C.1.{seq}.1.{ts_ns}.0".encode()
        self.world.ports.route(self.target.encode(), reply, header, b"x")
        self.world.ports.settle()


@pytest.mark.parametrize("subject", ["v.>", ">", "v.x\r\nSUB secret 1", "$JS.API.>", ""])
def test_an_impostor_does_not_choose_what_is_read(subject: str) -> None:
    impostor = Impostor(config={"deliver_subject": subject})
    assert impostor.world.info()["mirror"]["error"]["err_code"] == 10029


@pytest.mark.parametrize("delivered", [-1, (1 << 64) - 1, 1 << 70, "1"])
def test_an_impostor_does_not_choose_any_place(delivered: Any) -> None:
    impostor = Impostor(delivered={"stream_seq": delivered})
    assert "error" in impostor.world.info()["mirror"]
    assert impostor.world.last_seq() == 0


@pytest.mark.parametrize("seq", ["-1", (1 << 64) - 1, 1 << 64, "9" * 5000, "0x1", "1_0", "²"])
def test_numbers_of_an_impostor(seq: int | str) -> None:
    impostor = Impostor()
    impostor.deliver(seq)
    impostor.deliver(1, seq)
    assert impostor.world.last_seq() == 0
    impostor.deliver(1)
    assert impostor.world.last_seq() == 1


def test_an_impostor_does_not_send_this_server_s_messages() -> None:
    """The answer to flow control goes where flow control is; nowhere else does this server publish for an origin."""
    impostor = Impostor()
    target = impostor.target.encode()
    for reply in (b"$JS.API.STREAM.DELETE.V", b"v.x", b".$JS.API.STREAM.DELETE.V"):
        impostor.world.ports.route(target, reply, b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"")
        stalled = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: " + reply + b"\r\n\r\n"
        impostor.world.ports.route(target, None, stalled, b"")
    impostor.world.ports.settle()
    assert impostor.world.info("V")["state"]["messages"] == 0


def test_a_message_of_an_impostor_is_no_status() -> None:
    impostor = Impostor()
    impostor.deliver(1, header=b"NATS/1.0 409 Consumer Deleted\r\nOwn: 1\r\n\r\n")
    stored = impostor.world.account.streams["M"].store.get(1)
    assert stored is not None and stored.headers == b"NATS/1.0\r\nOwn: 1\r\n\r\n"
