"""The synchronous client for scripts, against nats-server and this server alike."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

import slipstream
from slipstream.sync import (
    Client,
    ClientError,
    ClientTimeout,
    ConnectionLost,
    JetStream,
    JetStreamRefusal,
    KeyExists,
    NoResponders,
    NoSuchItem,
    ServerRefused,
    WrongRevision,
)
from support.keys import USER_KEY, USER_SEED
from support.servers import Launcher
from tlsfiles import Authority

JETSTREAM = 'jetstream { store_dir: "js" }'
SOON = 0.05  # seconds; for waits that are to end without a message


@pytest.fixture
def client(launcher: Launcher) -> Iterator[Client]:
    with slipstream.connect(launcher(JETSTREAM).url) as client:
        yield client
    with slipstream.connect(launcher(JETSTREAM).url) as client:
        for stream in list(client.jetstream().streams()):
            stream.delete()


@pytest.fixture
def jetstream(client: Client) -> JetStream:
    return client.jetstream()


def test_publish_request_and_subscribe(client: Client) -> None:
    with client.subscribe("greet.*") as greetings:
        client.publish("greet.me", b"hello", headers={"Lang": "en", "Many": ["a", "b"]}, reply="back")
        message = greetings.next()
    assert (message.subject, message.text, message.reply) == ("greet.me", "hello", "back")
    assert (message.header("Lang"), message.headers["Many"]) == ("en", ["a", "b"])
    with pytest.raises(NoResponders):
        client.request("nobody.there")
    with client.subscribe("asked") as questions:
        with pytest.raises(ClientTimeout):
            client.request("asked", b"?", timeout=SOON)
        assert questions.next().data == b"?"  # it came while the answer was waited for
        with pytest.raises(ClientTimeout):
            questions.next(SOON)


def test_two_listeners_keep_their_messages_apart(client: Client) -> None:
    with client.subscribe("a") as first, client.subscribe("b", queue="q") as second:
        for subject in "abab":
            client.publish(subject, subject.encode())
        assert [second.next().text for _ in range(2)] == ["b", "b"]
        assert [message.text for message in islice(first, 2)] == ["a", "a"]


def test_what_cannot_be_sent_is_said_at_once_and_the_connection_stays(client: Client) -> None:
    for wrong in (
        lambda: client.publish("two words"),
        lambda: client.publish(""),
        lambda: client.subscribe("a b"),
        lambda: client.publish("a", headers={"bad name": "x"}),
        lambda: client.publish("a", headers={"name": "x\r\nInjected: y"}),
        lambda: client.publish("a", bytes(client.max_payload + 1)),
    ):
        with pytest.raises(ClientError):
            wrong()
    client.flush()


def test_publish_with_ack(jetstream: JetStream) -> None:
    with pytest.raises(JetStreamRefusal, match="no stream listens"):
        jetstream.publish("orders.us", b"x")
    jetstream.create_stream("ORDERS", subjects=["orders.>"], max_age=timedelta(hours=1))
    ack = jetstream.publish("orders.us", b"42 apples", msg_id="one")
    assert (ack.stream, ack.seq, ack.duplicate) == ("ORDERS", 1, False)
    assert jetstream.publish("orders.us", b"42 apples", msg_id="one").duplicate
    with pytest.raises(WrongRevision):
        jetstream.publish("orders.us", b"x", expect_last_seq=7)
    with pytest.raises(JetStreamRefusal):
        jetstream.publish("orders.us", b"x", expect_stream="OTHER")
    assert jetstream.publish("orders.eu", b"x", expect_last_subject_seq=0).seq == 2
    assert jetstream.stream("ORDERS").info()["config"]["max_age"] == 3600 * 10**9
    assert [stream.name for stream in jetstream.streams()] == ["ORDERS"]
    jetstream.update_stream("ORDERS", max_msgs=10)
    assert jetstream.stream("ORDERS").info()["config"]["max_msgs"] == 10


def test_read_a_stream_from_anywhere(jetstream: JetStream) -> None:
    stream = jetstream.create_stream("S", subjects=["s.*"])
    assert list(stream.read()) == []
    for number in range(1, 451):  # more than one request of a reader
        jetstream.client.publish(f"s.{number % 2}", b"%d" % number)
    jetstream.publish("s.2", b"last")
    messages = list(stream.read())
    assert [message.seq for message in messages] == list(range(1, 452))
    assert (messages[-1].subject, messages[-1].data, messages[-1].stream) == ("s.2", b"last", "S")
    assert abs(messages[-1].time - datetime.now(UTC)) < timedelta(hours=1)
    assert [message.seq for message in stream.read(seq=450)] == [450, 451]
    assert [message.seq for message in stream.read(last=2)] == [450, 451]
    assert [message.seq for message in stream.read(subjects="s.2")] == [451]
    assert sum(1 for _ in stream.read(subjects=["s.0", "s.2"])) == 226
    assert next(stream.read(time=messages[2].time)).seq <= 3
    assert list(stream.read(time=datetime.now(UTC) + timedelta(hours=1))) == []
    assert next(iter(stream.read(headers_only=True))).data == b""
    with pytest.raises(ClientError):
        stream.read(seq=1, last=2)
    assert stream.last().seq == 451 and stream.last("s.0").seq == 450
    assert stream.get(7).data == b"7"
    with pytest.raises(NoSuchItem):
        stream.get(1000)
    assert list(jetstream.stream("S").consumers()) == []  # readers leave none behind


def test_follow_a_stream(jetstream: JetStream) -> None:
    stream = jetstream.create_stream("S", subjects=["s"])
    jetstream.publish("s", b"1")
    following = stream.read(follow=True, timeout=SOON)
    assert next(following).data == b"1"
    jetstream.publish("s", b"2")
    assert next(following).data == b"2"
    assert list(following) == []


def test_a_stream_that_is_not_there(jetstream: JetStream) -> None:
    for ask in (
        lambda: jetstream.stream("NO").info(),
        lambda: list(jetstream.stream("NO").read()),
        lambda: jetstream.stream("NO").consumer("c").info(),
        lambda: jetstream.stream("NO").consumer("c").fetch(timeout=SOON),
        lambda: jetstream.kv("NO").get("a"),
        lambda: jetstream.objects("NO").info("a"),
    ):
        with pytest.raises(NoSuchItem):
            ask()


@pytest.mark.parametrize("name", ["", "orders.us", "two words", "a*", ">", "a/b", "tab\t"])
def test_names_that_cannot_be_are_said_before_anybody_is_asked(jetstream: JetStream, name: str) -> None:
    for ask in (jetstream.stream, jetstream.create_stream, jetstream.update_stream, jetstream.delete_stream):
        with pytest.raises(ClientError, match="is no name of a stream"):
            ask(name)
    stream = jetstream.create_stream("S", subjects=["s"])
    for ask in (stream.consumer, stream.create_consumer):
        with pytest.raises(ClientError, match="is no name of a consumer"):
            ask(name)


def test_consume_and_acknowledge(jetstream: JetStream) -> None:
    stream = jetstream.create_stream("S", subjects=["s"])
    consumer = stream.create_consumer("work", ack_wait=timedelta(minutes=1), max_deliver=3)
    assert consumer.fetch(5, timeout=SOON) == []
    for number in range(5):
        jetstream.publish("s", b"%d" % number)
    first, second, third = consumer.fetch(3)
    assert [message.data for message in (first, second, third)] == [b"0", b"1", b"2"]
    assert (first.tries, first.consumer, first.pending) == (1, "work", 4)
    first.ack(wait=True)
    second.nak()
    third.term("broken")
    left = []
    while len(left) < 3:  # the nak takes its time
        left += consumer.fetch(3)
    assert {message.data: message.tries for message in left} == {b"1": 2, b"3": 1, b"4": 1}
    for message in left:
        message.in_progress()
        message.ack(wait=True)
    assert consumer.info()["ack_floor"]["stream_seq"] == 5
    with pytest.raises(ClientError, match="nobody waits for an ack"):
        stream.get(1).ack()


def test_messages_that_were_fetched_and_not_used_are_given_back(jetstream: JetStream) -> None:
    stream = jetstream.create_stream("S", subjects=["s"])
    consumer = stream.create_consumer("work")
    for number in range(3):
        jetstream.publish("s", b"%d" % number)
    messages = consumer.messages()
    next(messages).ack(wait=True)
    messages.close()  # type: ignore[attr-defined]
    again = islice(consumer.messages(), 2)
    assert sorted((message.data, message.tries) for message in again) == [(b"1", 2), (b"2", 2)]
    consumer.delete()
    with pytest.raises(NoSuchItem):
        consumer.fetch(timeout=SOON)


def test_consumers_that_push_cannot_be_fetched_from(jetstream: JetStream) -> None:
    stream = jetstream.create_stream("S", subjects=["s"])
    stream.create_consumer("push", deliver_subject="to.somebody")
    with pytest.raises(JetStreamRefusal):
        stream.consumer("push").fetch(timeout=SOON)


def test_keys_and_values(jetstream: JetStream) -> None:
    bucket = jetstream.create_kv("config", history=5)
    assert bucket.put("a", b"1") == 1
    assert bucket.create("b", b"x") == 2
    with pytest.raises(KeyExists):
        bucket.create("b", b"y")
    assert bucket.update("b", b"z", 2) == 3
    with pytest.raises(WrongRevision):
        bucket.update("b", b"z", 2)
    entry = bucket.get("b")
    assert (entry.value, entry.revision, entry.operation) == (b"z", 3, "PUT")
    assert bucket.get("b", revision=2).value == b"x"
    bucket.delete("b")
    with pytest.raises(NoSuchItem):
        bucket.get("b")
    assert bucket.create("b", b"again") == 5
    assert [entry.operation for entry in bucket.history("b")] == ["PUT", "PUT", "DEL", "PUT"]
    bucket.purge("b")
    assert [entry.operation for entry in bucket.history("b")] == ["PURGE"]
    assert bucket.keys() == ["a"] and bucket.keys("b*") == []
    assert bucket["a"] == b"1" and "a" in bucket and "b" not in bucket and list(bucket) == ["a"]
    bucket["c.d"] = b"2"
    del bucket["c.d"]
    with pytest.raises(KeyError):
        bucket["c.d"]
    for wrong in ("", ".a", "a..b", "a b", "a.*", "a.>"):
        with pytest.raises(ClientError):
            bucket.put(wrong, b"")


def test_watch_keys(jetstream: JetStream) -> None:
    bucket = jetstream.create_kv("config")
    bucket.put("a", b"1")
    bucket.put("a", b"2")
    changes = bucket.watch(timeout=SOON)
    assert next(changes).value == b"2"
    bucket.delete("a")
    assert next(changes).operation == "DEL"
    assert list(changes) == []


def test_objects(jetstream: JetStream) -> None:
    store = jetstream.create_objects("files")
    content = bytes(range(256)) * 2000  # several chunks
    assert store.put("big file.bin", content, description="bytes").chunks == 4
    assert store.get("big file.bin") == content
    store.put("big file.bin", io.BytesIO(b"small"))
    assert store.get("big file.bin") == b"small"
    assert len(jetstream.stream("OBJ_files")) == 2  # the chunks of the old one are gone
    store.put("empty", b"")
    assert store.get("empty") == b""
    sink = io.BytesIO()
    assert store.read_into("big file.bin", sink).size == len(sink.getvalue()) == 5
    assert sorted(facts.name for facts in store.list()) == ["big file.bin", "empty"]
    store.delete("empty")
    with pytest.raises(NoSuchItem):
        store.get("empty")
    jetstream.publish(f"$O.files.C.{store.info('big file.bin').nuid}", b"more")
    with pytest.raises(ClientError, match="damaged"):
        store.get("big file.bin")


def test_purge_and_delete(jetstream: JetStream) -> None:
    stream = jetstream.create_stream("S", subjects=["s.*"])
    for number in range(6):
        jetstream.publish(f"s.{number % 2}", b"x")
    stream.delete_message(1)
    assert stream.purge(subject="s.1", keep=1) == 2
    assert len(stream) == 3
    stream.delete()
    assert list(jetstream.streams()) == []


def test_domains(launcher: Launcher) -> None:
    server = launcher('jetstream { store_dir: "js", domain: "hub" }')
    with slipstream.connect(server.url) as client:
        jetstream = client.jetstream(domain="hub")
        jetstream.create_stream("S", subjects=["s"])
        jetstream.publish("s", b"x")
        assert [message.seq for message in jetstream.stream("S").read()] == [1]
        jetstream.delete_stream("S")


def test_who_we_are(launcher: Launcher, tmp_path: Path) -> None:
    seed = tmp_path / "seed.nk"
    seed.write_bytes(USER_SEED)
    server = launcher.fresh(f"authorization {{ users [{{user: me, password: secret}}, {{nkey: {USER_KEY}}}] }}")
    for options in ({"user": "me", "password": "secret"}, {"nkey": seed}):
        with slipstream.connect(server.url, **options) as client:  # type: ignore[arg-type]
            client.flush()
    with slipstream.connect(server.url.replace("://", "://me:secret@")) as client:
        client.flush()
    with pytest.raises(ServerRefused, match="Authorization"):
        slipstream.connect(server.url, user="me", password="wrong")
    with pytest.raises(ClientError, match="cannot read"):
        slipstream.connect(server.url, creds=tmp_path / "missing.creds")


def test_tokens_and_tls(launcher: Launcher, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("127.0.0.1")
    server = launcher.fresh(f"tls {{ {pair.block} }}\nauthorization {{ token: hush }}")
    with slipstream.connect(server.url, token="hush", tls_ca=authority.ca_file) as client:
        client.flush()
    with pytest.raises(ConnectionLost, match="TLS"):
        slipstream.connect(server.url, token="hush")


def test_a_connection_that_was_given_up_during_a_pause_is_made_again(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = launcher.fresh(JETSTREAM)
    with slipstream.connect(server.url) as client, client.subscribe("news") as news:
        server.restart()
        with pytest.raises(ConnectionLost):
            client.request("$JS.API.INFO")  # just used: the caller is told
        monkeypatch.setattr("slipstream.sync.client._PAUSE_NS", 0)
        assert client.jetstream().account()["streams"] == 0
        client.publish("news", b"after")
        assert news.next().data == b"after"


def test_several_servers_are_tried_in_order(client: Client, launcher: Launcher) -> None:
    url = launcher(JETSTREAM).url
    with slipstream.connect(f"nats://127.0.0.1:1, {url}") as other:
        other.flush()
    with pytest.raises(ConnectionLost, match="cannot connect"):
        slipstream.connect("nats://127.0.0.1:1")
    client.close()
    client.close()
    with pytest.raises(ClientError, match="closed"):
        client.publish("a")
