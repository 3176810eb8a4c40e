"""Scenarios for injected exceptions: everything an account can be asked for, in small pieces, and what must hold after.

A scenario is a client that takes what it gets: under an exception answers may be errors, or missing.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from slipstream.errors import StorageFault
from slipstream.jetstream.ports import Delivery
from slipstream.kernels.subjects.subject import matches
from slipstream.units import SECOND_NS
from support.bulk_world import BulkPorts, BulkWorld

MINUTE_NS = 60 * SECOND_NS


class HarshPorts(BulkPorts):
    """Ports as the server has them: what one callback raises is reported, and the next is called."""

    def __init__(self) -> None:
        super().__init__()
        self.tolerant = True

    def has_interest(self, subject: bytes) -> bool:
        return subject.startswith(b"_INBOX.") or super().has_interest(subject)

    def deliver_many(self, messages: Iterable[Delivery]) -> bool:
        for target, subject, reply, header, payload in messages:
            self.sent.append((target, reply, header, payload))
            for listener in [found for found in self.subscriptions if matches(found.subject, target)]:
                self._try("a receiver", partial(listener.on_message, subject, reply, header, payload))
        return True


class Client:
    """Asks without insisting on an answer."""

    def __init__(self) -> None:
        self.world = BulkWorld(ports=HarshPorts())
        self.ports = self.world.ports
        self._inboxes = 0

    def api(self, subject: str, body: Any = b"") -> Any:
        """The first answer, or an empty object."""
        answer = self.request(f"$JS.API.{subject}", body if isinstance(body, bytes) else json.dumps(body).encode())
        return json.loads(answer[3]) if answer is not None else {}

    def request(self, subject: str, payload: bytes = b"", header: bytes | None = None, tail: str = "") -> Any:
        """The first answer as `(subject, reply, header, payload)`, or None."""
        self._inboxes += 1
        reply = f"_INBOX.{self._inboxes}{tail}".encode()
        self.ports.route(subject.encode(), reply, header, payload)
        self.ports.settle()
        return next((sent for sent in self.ports.sent if sent[0] == reply), None)

    def publish(self, subject: str, payload: bytes = b"x", **headers: str) -> Any:
        """The ack, or an empty object."""
        block = None
        if headers:
            lines = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
            block = f"NATS/1.0\r\n{lines}\r\n".encode()
        answer = self.request(subject, payload, block)
        return json.loads(answer[3]) if answer is not None and answer[3] else {}

    def create(self, name: str, **config: Any) -> None:
        self.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config})

    def consume(self, stream: str, name: str, **config: Any) -> None:
        body = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
        self.api(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": body})

    def pull(self, stream: str, name: str, **body: Any) -> list[Any]:
        """What a pull request gets."""
        before = len(self.ports.sent)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"
        self.request(subject, json.dumps({"batch": 2, "expires": 2 * SECOND_NS, **body}).encode())
        return [sent for sent in self.ports.sent[before:] if sent[1] and sent[1].startswith(b"$JS.ACK.")]


# --- scenarios ------------------------------------------------------------------------------------------------------


def publishes(c: Client) -> None:
    """Single messages with all that headers ask for, and the limits they meet."""
    c.create("S", max_msgs=4, allow_msg_ttl=True, allow_rollup_hdrs=True, subject_delete_marker_ttl=2 * SECOND_NS)
    for number in range(3):
        c.publish(f"s.{number}")
    c.publish("s.0", Nats_Msg_Id="one")
    c.publish("s.0", Nats_Msg_Id="one")
    c.publish("s.0", Nats_TTL="1s")
    c.publish("s.1", Nats_Expected_Last_Sequence="99")
    c.publish("s.1", Nats_Rollup="sub")
    c.create("L", max_msgs_per_subject=1, max_bytes=4000, max_age=10 * SECOND_NS, republish={"dest": "r.>"})
    for number in range(4):
        c.publish(f"l.{number % 2}", b"y" * 500)
    c.ports.advance(15 * SECOND_NS)


def batches(c: Client) -> None:
    """Atomic and fast batches, whole and broken off."""
    c.create("S", allow_atomic=True, allow_batched=True, allow_msg_ttl=True)
    for number in range(1, 4):
        more = {"Nats_Batch_Commit": "1"} if number == 3 else {}
        c.publish("s.a", Nats_Batch_Id="B", Nats_Batch_Sequence=str(number), Nats_TTL="5s", **more)
    c.publish("s.a", Nats_Batch_Id="never", Nats_Batch_Sequence="1")
    for number, kind in ((1, 0), (2, 1), (3, 2)):
        c.request("s.f", b"z", tail=f".F.10.ok.{number}.{kind}.$FI")
    c.request("s.f", b"z", tail=".G.10.fail.1.0.$FI")
    c.ports.advance(30 * SECOND_NS)


def counters_and_schedules(c: Client) -> None:
    """Messages that count, and messages that come later."""
    c.create("N", allow_msg_counter=True, allow_direct=True)
    c.publish("n.a", b"", Nats_Incr="5")
    c.publish("n.a", b"", Nats_Incr="-2")
    c.create("S", allow_msg_schedules=True, allow_msg_ttl=True, allow_rollup_hdrs=True)
    c.publish("s.every", Nats_Schedule="@every 1s", Nats_Schedule_Target="s.out", Nats_Schedule_TTL="2s")
    c.publish("s.at", Nats_Schedule="@at 2025-11-15T02:22:20Z", Nats_Schedule_Target="s.out2")
    c.ports.advance(8 * SECOND_NS)


def management(c: Client) -> None:
    """The life of streams over the API."""
    c.create("S", allow_direct=True)
    for number in range(5):
        c.publish(f"s.{number}")
    c.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 4, "allow_direct": True})
    c.api("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})
    c.api("STREAM.NAMES")
    c.api("STREAM.LIST")
    c.api("INFO")
    c.api("STREAM.MSG.GET.S", {"seq": 3})
    c.api("STREAM.MSG.GET.S", {"last_by_subj": "s.3"})
    c.request("$JS.API.DIRECT.GET.S", b'{"seq":3}')
    c.request("$JS.API.DIRECT.GET.S", b'{"multi_last":["s.>"]}')
    c.request("$JS.API.DIRECT.GET.S.s.4")
    c.api("STREAM.MSG.DELETE.S", {"seq": 3})
    c.api("STREAM.MSG.DELETE.S", {"seq": 4, "no_erase": True})
    c.api("STREAM.TRUNCATE.S", {"newest": 1})
    c.api("STREAM.PURGE.S", {"filter": "s.1"})
    c.api("STREAM.PURGE.S")
    c.create("T")
    c.publish("t.a")
    c.api("STREAM.DELETE.T")
    rule = {"slipstream.template": "M_{2}", "slipstream.template.idle": "2s"}
    c.api("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"], "metadata": rule})
    c.publish("m.a")
    c.api("STREAM.PURGE.M_a")
    c.ports.advance(5 * SECOND_NS)
    c.api("STREAM.DELETE.M")  # a template stores nothing, whatever happened before
    c.api("STREAM.DELETE.M_a")  # gone when it was idle, unless something was raised


def consumers(c: Client) -> None:
    """Pull and push, and every kind of answer."""
    c.create("S", consumer_limits={"max_ack_pending": 50})
    for number in range(8):
        c.publish(f"s.{number}")
    c.consume("S", "C", ack_wait=SECOND_NS, max_deliver=3, backoff=[SECOND_NS, SECOND_NS])
    for word in (b"+ACK", b"-NAK", b"+WPI", b"+TERM", b'-NAK {"delay":1000000000}', b"+NXT"):
        for message in c.pull("S", "C"):
            c.request(message[1].decode(), word)
    c.pull("S", "C", no_wait=True)
    inbox = c.ports.subscribe(b"push.here", lambda *_: None)
    c.consume("S", "P", deliver_subject="push.here", idle_heartbeat=SECOND_NS, flow_control=True)
    c.ports.advance(3 * SECOND_NS)
    c.api("CONSUMER.INFO.S.C")
    c.api("CONSUMER.LIST.S")
    c.api("CONSUMER.NAMES.S")
    c.api("CONSUMER.WHY.S.C")
    c.consume("S", "K", metadata={"slipstream.delivery": "key-shared", "slipstream.delivery.ahead": "2"})
    for message in c.pull("S", "K"):
        c.request(message[1].decode(), b"+ACK")
    c.api("CONSUMER.PAUSE.S.C", {"pause_until": "2025-11-15T02:22:30Z"})
    c.consume("S", "E", durable_name="", ack_policy="none", inactive_threshold=SECOND_NS, filter_subject="s.3")
    c.create("W", retention="workqueue")
    c.consume("W", "C")
    c.publish("w.a")
    for message in c.pull("W", "C"):
        c.request(message[1].decode(), b"+ACK")
    inbox.close()
    c.api("CONSUMER.DELETE.S.P")
    c.ports.advance(20 * SECOND_NS)


def copies(c: Client) -> None:
    """A mirror and a stream with sources, which follow their origin."""
    c.create("O")
    for number in range(3):
        c.publish(f"o.{number}")
    c.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    c.api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"], "sources": [{"name": "O"}]})
    c.ports.advance(3 * SECOND_NS)
    for number in range(3):
        c.publish(f"o.{number}", Nats_Msg_Id=f"{number}")
    c.ports.advance(30 * SECOND_NS)


def bulk(c: Client) -> None:
    """Staged parts, a commit, and reads of them."""
    c.create("S", allow_msg_ttl=True)
    for number in range(3):
        c.publish(f"s.{number}")
    try:
        ttl = b"NATS/1.0\r\nNats-TTL: 60s\r\n\r\n"
        part = c.world.stage([("s.a", b"", b"1"), ("s.b", ttl, b"2"), ("s.c", b"", b"3" * 3000)])
        c.world.commit(1, [part])
        c.world.commit(1, [part])
        c.world.read("S")
    except (AssertionError, KeyError, IndexError, TypeError):
        pass  # the helpers insist on answers
    c.ports.advance(30 * MINUTE_NS)


def backups(c: Client) -> None:
    """A snapshot, and what was in it as another stream."""
    c.create("S")
    for number in range(3):
        c.publish(f"s.{number}")
    c.consume("S", "C")
    chunks: list[bytes] = []

    def take(_subject: bytes, reply: bytes | None, _header: bytes | None, payload: bytes) -> None:
        chunks.append(payload)
        if reply:
            c.ports.route(reply, None, None, b"")

    inbox = c.ports.subscribe(b"backup.here", take)
    answer = c.api("STREAM.SNAPSHOT.S", {"deliver_subject": "backup.here"})
    c.ports.advance(3 * SECOND_NS)
    inbox.close()
    c.api("STREAM.DELETE.S")
    begun = c.api("STREAM.RESTORE.S", {"config": answer.get("config", {"name": "S"}), "state": answer.get("state", {})})
    target = begun.get("deliver_subject")
    if target:
        for chunk in chunks:
            if chunk:
                c.request(target, chunk)
        c.request(target, b"")
    c.ports.advance(30 * SECOND_NS)


SCENARIOS: dict[str, Callable[[Client], None]] = {
    scenario.__name__: scenario
    for scenario in (publishes, batches, counters_and_schedules, management, consumers, copies, bulk, backups)
}


# --- what must hold afterwards --------------------------------------------------------------------------------------


def complaints(c: Client) -> list[str]:
    """What is wrong with an account after a scenario, after time enough for everything to come to its end."""
    c.ports.advance(40 * SECOND_NS)
    gc.collect()
    c.ports.advance(5 * SECOND_NS)
    account, found = c.world.account, []
    for name, stream in list(account.streams.items()):
        if stream.config.subjects:
            header = {"Nats_Incr": "1"} if stream.config.allow_msg_counter else {}
            ack = c.publish(f"{name.lower()}.after", b"" if header else b"x", **header)
            if "seq" not in ack:
                found.append(f"{name}: a publish got {ack}")
        info = c.api(f"STREAM.INFO.{name}")
        if "state" not in info:
            found.append(f"{name}: INFO got {info}")
        try:
            stream.check_invariants()
        except (AssertionError, StorageFault) as error:
            found.append(f"{name}: {type(error).__name__} {error}")
        if stream.config.retention.value != "workqueue":
            c.consume(name, "after", deliver_policy="last", ack_policy="none")
            if stream.config.subjects and not c.pull(name, "after", no_wait=True):
                found.append(f"{name}: a new consumer gets nothing")
    if "O" in account.streams:
        found += [f"{name} does not follow" for name in _not_following(c)]
    c.create("AFTER")
    if c.publish("after.x").get("seq") != 1 or not c.api("STREAM.DELETE.AFTER").get("success"):
        found.append("a stream cannot be made and removed any more")
    c.ports.advance(20 * SECOND_NS)
    found += [f"{what} is {count}" for what, count in counters(c).items() if count]
    return found


def _not_following(c: Client) -> list[str]:
    """Streams that copy O and do not get its last message."""
    c.publish("o.last", b"the last of all")
    c.ports.advance(40 * SECOND_NS)
    copies_of = [name for name, one in c.world.account.streams.items() if one.config.mirror or one.config.sources]
    lasts = {name: c.world.account.streams[name].store.load_last(b"o.last") for name in copies_of}
    return [name for name, last in lasts.items() if getattr(last, "payload", b"") != b"the last of all"]


def counters(c: Client) -> dict[str, int]:
    """Everything that is counted and has to come back to nothing."""
    account = c.world.account
    limits = account.facts.batches
    counts = {
        "waiting API calls": c.world.dispatcher.load.waiting,
        "busy names": len(account._busy) + len(account._maker.creating),
        "atomic batches": limits.atomic_open,
        "fast batches": limits.fast_open,
        "staged bytes of batches": limits.staged_bytes,
        "jobs": len(c.ports.jobs),
        "shared memories": len(c.ports.memories),
        "lent files": len(c.ports.loans),
    }
    for name, stream in account.streams.items():
        counts |= {
            f"{name}: answers held back": stream.committer.waiting,
            f"{name}: uncommitted bytes": stream.committer.waiting_bytes,
            f"{name}: publishes held": -1 if stream.ingest.held is not None else 0,
            f"{name}: open units": stream.store.atomic_open,
            f"{name}: holds": len(stream.holds),
            f"{name}: slices": stream.slices.busy,
        }
    return counts
