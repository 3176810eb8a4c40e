"""A client names subjects for the server to publish to. The server acts on them only where the client itself could.

Whatever the way (`WAYS`), a message that the server sends for somebody reaches the clients that subscribed to its
subject; streams, the API and service imports get it only if that somebody may publish there (ADR 19).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, encode_entry
from slipstream.jetstream.backup.s2 import S2Writer
from slipstream.testing import ServerThread
from support.config_loading import options
from support.consumer_oracle import ListeningOracle

CONFIG = """
accounts {
  A {
    jetstream: enabled
    users: [
      { user: admin, password: p }
      { user: low, password: p, permissions: { publish: { deny: [
          "$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "v.>", "svc.>", "s.secret", "far.>" ] } } }
      { user: app, password: p, permissions: {
          publish: ["s.>", "$JS.API.>", "$JS.ACK.>", "$JS.SNAPSHOT.>", "echo.>", "batch.>"]
          subscribe: { allow: ["_INBOX.>", "chunks"] } } }
    ]
    imports: [
      { service: { account: B, subject: "svc.>" } }
      { service: { account: B, subject: "echo.>" } }
      { stream: { account: B, subject: "feed.>" } }
    ]
  }
  B {
    users: [ { user: b, password: p } ]
    exports: [ { service: "svc.>" }, { service: "echo.>" }, { stream: "feed.>" } ]
  }
}
"""
DELETE = "$JS.API.STREAM.DELETE.V"
SECOND_NS = 10**9


class Client(ListeningOracle):
    """A user of account A, or of B."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port, f'"user":"{user}","pass":"p"')
        # All hear each other's inboxes, and so need different ones.
        self._numbers = itertools.count(10_000 * sum(user.encode()))

    def api(self, subject: str, body: Any = b"") -> Any:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        ((_, answer),) = self.request(f"$JS.API.{subject}", payload, None, 1)
        return json.loads(answer)

    def must(self, subject: str, body: Any = b"") -> Any:
        answer = self.api(subject, body)
        assert "error" not in answer, answer
        return answer

    def ask(self, subject: str, reply: str, body: Any = b"", header: bytes = b"") -> None:
        """Publish with any reply."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        if header:
            sizes = b"%d %d" % (len(header), len(header) + len(payload))
            self._socket.sendall(
                b"HPUB %b %b %b\r\n%b%b\r\n" % (subject.encode(), reply.encode(), sizes, header, payload)
            )
        else:
            self.publish(subject.encode(), reply.encode(), payload)


class Place:
    """The server, its streams S and V, and who is connected."""

    def __init__(self, port: int) -> None:
        self.admin, self.low, self.app, self.b = (Client(port, user) for user in ("admin", "low", "app", "b"))
        self.stream("S", ["s.>"], allow_direct=True, allow_atomic=True, allow_msg_schedules=True, allow_msg_ttl=True)
        self.stream("V", ["v.>"])
        for name in ("one", "two"):
            self.admin.request(f"s.{name}", b"{}", None, 1)
        for name in ("C", "D"):
            config = {"durable_name": name, "ack_policy": "explicit"}
            self.admin.must(f"CONSUMER.DURABLE.CREATE.S.{name}", {"stream_name": "S", "config": config})
        self.service = self.b.subscribe(b"svc.>")
        self.echo = self.b.subscribe(b"echo.>")
        self.b.settled()

    def stream(self, name: str, subjects: list[str], **config: Any) -> None:
        self.admin.must(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "memory", **config})

    def close(self) -> None:
        for client in (self.admin, self.low, self.app, self.b):
            client.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    config = f'port: -1\njetstream {{ store_dir: "{tmp_path}" }}\n' + CONFIG
    with ServerThread(options(config)) as server:
        made = Place(server.port)
        yield made
        made.close()


# --- the ways: each makes the server send something to `target` for `who` ---


def pub_ack(_place: Place, who: Client, target: str) -> None:
    who.ask("s.x", target)


def refused_pub_ack(_place: Place, who: Client, target: str) -> None:
    who.ask("s.x", target, header=b"NATS/1.0\r\nNats-Expected-Stream: OTHER\r\n\r\n")


def batch_ack(_place: Place, who: Client, target: str) -> None:
    line = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n\r\n"
    who.ask("s.x", target, header=line)


def api_answer(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.INFO", target)


def api_error(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.STREAM.INFO.NONE", target)


def commit_answer(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.STREAM.CREATE.NEW", target, {"name": "NEW", "subjects": ["new"], "storage": "memory"})


def reset_answer(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.CONSUMER.RESET.S.C", target)


def direct_get(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.DIRECT.GET.S.s.one", target)


def direct_get_by_sequence(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.DIRECT.GET.S", target, b'{"seq":1}')


def direct_get_of_nothing(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.DIRECT.GET.S", target, {"seq": 99})


def direct_get_of_many(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.DIRECT.GET.S", target, {"multi_last": ["s.>"]})


def stored_message(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.STREAM.MSG.GET.S", target, {"seq": 1})


def pull(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", target, {"batch": 1})


def pull_of_nothing(_place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", target, {"batch": 9, "no_wait": True})


def waiting_pull(place: Place, who: Client, target: str) -> None:
    who.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", target, {"batch": 9, "expires": 20 * SECOND_NS})
    who.settled()
    place.admin.ask("s.later", "")


def double_ack(_place: Place, who: Client, target: str) -> None:
    inbox = who.subscribe(b"_INBOX.p.1")
    who.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.p.1", {"batch": 1})
    ((_, reply, _, _),) = who.take(inbox, 1)
    who.ask(reply.decode(), target, b"+ACK")


def ack_next(_place: Place, who: Client, target: str) -> None:
    inbox = who.subscribe(b"_INBOX.p.1")
    who.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.p.1", {"batch": 1})
    ((_, reply, _, _),) = who.take(inbox, 1)
    who.ask(reply.decode(), target, b"+NXT")


def push(_place: Place, who: Client, target: str) -> None:
    config = {"name": "P", "deliver_subject": target, "ack_policy": "none"}
    who.must("CONSUMER.CREATE.S.P", {"stream_name": "S", "config": config})


def push_to_a_group(place: Place, who: Client, target: str) -> None:
    place.admin.subscribe(target.encode(), b"g")
    place.admin.settled()
    config = {"name": "P", "deliver_subject": target, "deliver_group": "g", "ack_policy": "none"}
    who.must("CONSUMER.CREATE.S.P", {"stream_name": "S", "config": config})


def moved_push(_place: Place, who: Client, target: str) -> None:
    config = {"durable_name": "P", "deliver_subject": "elsewhere", "ack_policy": "explicit"}
    who.must("CONSUMER.DURABLE.CREATE.S.P", {"stream_name": "S", "config": config})
    config["deliver_subject"] = target
    who.must("CONSUMER.DURABLE.CREATE.S.P", {"stream_name": "S", "config": config})


def heartbeat(_place: Place, who: Client, target: str) -> None:
    config = {"name": "P", "deliver_subject": target, "ack_policy": "none", "deliver_policy": "new"}
    config |= {"idle_heartbeat": SECOND_NS // 10, "flow_control": True}
    who.must("CONSUMER.CREATE.S.P", {"stream_name": "S", "config": config})


def republish(place: Place, who: Client, target: str) -> None:
    config = {"name": "R", "subjects": ["r.>"], "storage": "memory", "republish": {"src": "r.x", "dest": target}}
    who.must("STREAM.CREATE.R", config)
    place.admin.ask("r.x", "", b"{}")


def republish_after_update(place: Place, who: Client, target: str) -> None:
    config: dict[str, Any] = {"name": "R", "subjects": ["r.>"], "storage": "memory"}
    who.must("STREAM.CREATE.R", config)
    who.must("STREAM.UPDATE.R", {**config, "republish": {"src": "r.x", "dest": target}})
    place.admin.ask("r.x", "", b"{}")


def snapshot(_place: Place, who: Client, target: str) -> None:
    who.must("STREAM.SNAPSHOT.S", {"deliver_subject": target})


def restored_consumer(_place: Place, who: Client, target: str) -> None:
    consumer = {"config": {"durable_name": "P", "deliver_subject": target, "ack_policy": "none"}, "state": {}}
    _restore(
        who,
        ArchiveEntry(b"consumers/P", 1, payload=json.dumps(consumer).encode()),
        ArchiveEntry(b"r.x", 1, 1, b"", b"{}"),
    )


def restored_republish(place: Place, who: Client, target: str) -> None:
    _restore(who, republish={"src": "r.x", "dest": target})
    place.admin.ask("r.x", "", b"{}")


def _restore(who: Client, *entries: ArchiveEntry, **config: Any) -> None:
    count = sum(entry.name.startswith(b"consumers/") for entry in entries)
    content = [
        ArchiveEntry(b"state.json", 1, payload=json.dumps({"consumer_count": count}).encode()),
        *entries,
        ArchiveEntry(),
    ]
    writer = S2Writer()
    data = writer.write(MAGIC + b"".join(map(encode_entry, content))) + writer.close()
    asked = {"config": {"name": "R", "subjects": ["r.>"], "storage": "memory", **config}, "state": {}}
    subject = who.must("STREAM.RESTORE.R", asked)["deliver_subject"]
    who.request(subject, data, None, 1)
    ((_, answer),) = who.request(subject, b"", None, 1)
    assert "error" not in json.loads(answer), answer


def chunk_confirmed(_place: Place, who: Client, target: str) -> None:
    asked = {"config": {"name": "R", "subjects": ["r.>"], "storage": "memory"}, "state": {}}
    subject = who.must("STREAM.RESTORE.R", asked)["deliver_subject"]
    writer = S2Writer()
    who.ask(subject, target, writer.write(MAGIC) + writer.close())


def service_answer(place: Place, who: Client, target: str) -> None:
    who.ask("echo.x", target, b"{}")
    ((_, reply, _, payload),) = place.b.take(place.echo, 1)
    place.b.publish(reply, b"", payload)


WAYS = [
    pub_ack,
    refused_pub_ack,
    batch_ack,
    api_answer,
    api_error,
    commit_answer,
    reset_answer,
    direct_get,
    direct_get_by_sequence,
    direct_get_of_nothing,
    direct_get_of_many,
    stored_message,
    pull,
    pull_of_nothing,
    waiting_pull,
    double_ack,
    ack_next,
    push,
    push_to_a_group,
    moved_push,
    heartbeat,
    republish,
    republish_after_update,
    snapshot,
    restored_consumer,
    restored_republish,
    chunk_confirmed,
    service_answer,
]
Way = Callable[[Place, Client, str], None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", [DELETE, "v.x", "svc.x"])
def test_the_server_does_for_nobody_what_he_may_not(place: Place, way: Way, target: str) -> None:
    """Advisories 2026-15 and 2026-20, for everything a client may name: clients hear it, the server does not act."""
    heard = place.admin.subscribe(target.encode())
    place.admin.settled()
    way(place, place.low, target)
    assert place.admin.take(heard, 1)[0][0] in (target.encode(), b"s.one", b"s.two", b"s.later", b"r.x")
    assert place.admin.must("STREAM.INFO.V")["state"]["messages"] == 0
    place.b.settled()
    assert place.b._queues[place.service] == []


@pytest.mark.parametrize("way", WAYS)
def test_and_for_everybody_what_he_may(place: Place, way: Way) -> None:
    """Control: with the right to publish there, the same message is stored."""
    heard = place.admin.subscribe(b"v.x")
    place.admin.settled()
    way(place, place.admin, "v.x")
    place.admin.take(heard, 1)
    assert place.admin.must("STREAM.INFO.V")["state"]["messages"] >= 1


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way not in (push_to_a_group, republish, republish_after_update)]
)
def test_an_inbox_needs_no_right(place: Place, way: Way) -> None:
    """Official clients with narrow permissions cannot publish to their own inboxes, and are answered there."""
    inbox = place.app.subscribe(b"_INBOX.own.1")
    place.app.settled()
    way(place, place.app, "_INBOX.own.1")
    assert place.app.take(inbox, 1)


def test_a_stream_made_later_is_not_fed_by_what_waits(place: Place) -> None:
    """Who may not publish there is asked when the subject is named; what is made there later makes no difference."""
    heard = place.admin.subscribe(b"svc.own")
    place.admin.settled()  # a request whose subject nobody listens to ends at once
    place.low.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", "svc.own", {"batch": 9, "expires": 20 * SECOND_NS})
    place.low.settled()
    place.stream("LATER", ["svc.own"])
    place.admin.ask("s.later", "")
    place.admin.take(heard, 3)
    assert place.admin.must("STREAM.INFO.LATER")["state"]["messages"] == 0


def test_what_a_consumer_may_outlives_a_restart(tmp_path: Path) -> None:
    config = f'port: -1\njetstream {{ store_dir: "{tmp_path}" }}\n' + CONFIG
    with ServerThread(options(config)) as server:
        place = Place(server.port)
        place.stream("F", ["f.>"], storage="file")
        for who, name in ((place.low, "LOW"), (place.admin, "ADMIN")):
            consumer = {"durable_name": name, "deliver_subject": f"v.{name}", "ack_policy": "none"}
            who.must(f"CONSUMER.DURABLE.CREATE.F.{name}", {"stream_name": "F", "config": consumer})
            rule = {"src": f"g.{name}", "dest": f"v.again{name}"}
            stream = {"name": name, "subjects": [f"g.{name}"], "storage": "file", "republish": rule}
            who.must(f"STREAM.CREATE.{name}", stream)
        place.close()
    with ServerThread(options(config)) as server:
        admin = Client(server.port, "admin")
        admin.must("STREAM.CREATE.V", {"name": "V", "subjects": ["v.>"], "storage": "memory"})
        heard = admin.subscribe(b"v.*")
        exact = [admin.subscribe(b"v.LOW"), admin.subscribe(b"v.ADMIN")]
        admin.settled()
        for subject in ("f.x", "g.LOW", "g.ADMIN"):
            admin.request(subject, b"{}", None, 1)
        admin.take(heard, 4)
        assert all(admin.take(sid, 1) for sid in exact)
        found = admin.must("STREAM.INFO.V", {"subjects_filter": ">"})["state"]["subjects"]
        assert found == {"f.x": 1, "v.againADMIN": 1}, "what a consumer delivers keeps its subject"
        admin.close()


def test_dead_letters_need_the_right_when_they_are_asked_for(place: Place) -> None:
    letters = {"slipstream.dlq": "v.dead"}
    config = {"durable_name": "L", "ack_policy": "explicit", "metadata": letters}
    body = {"stream_name": "S", "config": config}
    assert place.low.api("CONSUMER.DURABLE.CREATE.S.L", body)["error"]["err_code"] == 10052
    place.admin.must("CONSUMER.DURABLE.CREATE.S.L", body)
    stream = {"name": "R", "subjects": ["r.>"], "storage": "memory", "metadata": letters}
    assert place.low.api("STREAM.CREATE.R", stream)["error"]["err_code"] == 10052
    place.admin.must("STREAM.CREATE.R", stream)
    place.low.must("STREAM.UPDATE.R", {**stream, "subjects": ["r.>", "q.>"]})


def test_an_origin_in_another_account_needs_the_right_to_ask_there(place: Place) -> None:
    origin = {"name": "O", "external": {"api": "far.api", "deliver": "near"}}
    for config in ({"mirror": origin}, {"sources": [origin], "subjects": ["r.>"]}):
        stream = {"name": "R", "storage": "memory", **config}
        assert place.low.api("STREAM.CREATE.R", stream)["error"]["err_code"] == 10052
        place.admin.must("STREAM.CREATE.R", stream)
        place.admin.must("STREAM.DELETE.R")


@pytest.mark.parametrize("line", [b"Nats-Schedule-Target: s.secret", b"Nats-Schedule-Target:s.secret"])
def test_a_schedule_needs_the_right_to_its_target(place: Place, line: bytes) -> None:
    header = b"NATS/1.0\r\nNats-Schedule: @at 2000-01-01T00:00:00Z\r\n" + line + b"\r\n\r\n"
    place.low.ask("s.timer", "_INBOX.1", b"x", header)
    place.low.settled()
    found = place.admin.must("STREAM.INFO.S", {"subjects_filter": ">"})["state"]["subjects"]
    assert "s.timer" not in found and "s.secret" not in found
    ((_, ack),) = place.admin.request("s.timer", b"x", header, 1)
    assert "error" not in json.loads(ack)


def test_a_client_of_another_account_has_no_rights_here(place: Place) -> None:
    """What it publishes is stored where it is imported; the ack is for clients alone."""
    place.stream("FED", ["feed.>"])
    heard = place.admin.subscribe(b"v.x")
    place.admin.settled()
    place.b.publish(b"feed.x", b"v.x", b"hello")
    place.admin.take(heard, 1)
    assert place.admin.must("STREAM.INFO.V")["state"]["messages"] == 0
    assert place.admin.must("STREAM.INFO.FED")["state"]["messages"] == 1


def test_a_service_does_not_make_its_caller_s_server_act(place: Place) -> None:
    """The reply in an answer is the responder's, who has no rights in the account of the requester."""
    place.stream("ANSWERS", ["answers.>"])
    place.admin.ask("echo.x", "answers.x", b"{}")
    heard = place.admin.subscribe(b"v.x")
    place.admin.settled()
    ((_, reply, _, _),) = place.b.take(place.echo, 1)
    place.b.publish(reply, b"v.x", b"hello")
    place.admin.take(heard, 1)
    assert place.admin.must("STREAM.INFO.V")["state"]["messages"] == 0
    assert place.admin.must("STREAM.INFO.ANSWERS")["state"]["messages"] == 1


def test_a_mark_is_not_for_clients(place: Place) -> None:
    """A dot in front of a subject is the server's own: clients cannot publish with it, and it is shown to nobody."""
    heard = place.admin.subscribe(b">")
    place.admin.settled()
    place.low.ask(".v.x", "", b"hello")
    place.low.ask("plain", ".v.x", b"hello")
    assert [frame[:2] for frame in place.admin.take(heard, 1)] == [(b"plain", b".v.x")]
    assert place.admin.must("STREAM.INFO.V")["state"]["messages"] == 0
