"""Random lives of consumers, told to two servers over the wire; what both answer and end up with is compared.

A seed is one history and always the same. Left out is what is known to differ, where nats-server keeps the books of a
consumer in ways of its own: purges of what was delivered, removals of messages that a consumer with `ack_policy: all`
has delivered or one with `deliver_policy: last_per_subject` was made for, messages that are refused at their last
delivery, and new filters for a consumer that has delivered.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

from support.consumer_oracle import Frame, ListeningOracle
from support.jetstream_oracle import normalised

SETTLED_S = 5.0
STREAM = "S"
SUBJECTS = ["s.a", "s.b", "s.a.b", "s.c"]
FILTERS = [*SUBJECTS, "s.*", "s.>"]
SECOND = 10**9
_STREAM_FACTS = ("messages", "bytes", "first_seq", "last_seq", "num_subjects", "num_deleted", "consumer_count")
_CONSUMER_FACTS = ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending", "paused")


@dataclass
class Delivered:
    """A message that both servers delivered: its sequence, and where each wants to hear about it."""

    consumer: str
    seq: int
    replies: list[bytes]


@dataclass
class History:
    """One history, told to both servers step by step."""

    clients: list[ListeningOracle]
    rng: random.Random
    storage: str = "memory"
    replicas: int = 1
    steps: list[str] = field(default_factory=list)
    _open: list[Delivered] = field(default_factory=list)
    _consumers: dict[str, dict[str, Any]] = field(default_factory=dict)
    _names: int = 0
    _removes: bool = True

    def run(self, length: int) -> None:
        """Create, live and compare after every step."""
        self._removes = self.rng.random() < 0.7
        self._create_stream()
        for _ in range(length):
            actions = [self._publish, self._create, self._fetch, self._answer, self._delete_message]
            actions += [self._delete_consumer, self._update, self._pause]
            weights = [10, 3 if len(self._consumers) < 3 else 0, 8, 8, 1, 0.5, 0.6, 0.3]
            self.rng.choices(actions, weights)[0]()
            self._compare()

    def finish(self) -> None:
        """Remove the stream."""
        for client in self.clients:
            client.request(f"$JS.API.STREAM.DELETE.{STREAM}", b"", None, 1)

    # What a history consists of.

    def _create_stream(self) -> None:
        rng = self.rng
        config: dict[str, Any] = {"name": STREAM, "subjects": ["s.>"], "storage": self.storage}
        config["num_replicas"] = self.replicas
        config["retention"] = self.retention = rng.choice(["limits", "limits", "interest", "workqueue"])
        if self._removes and rng.random() < 0.3:
            config["max_msgs_per_subject"] = rng.randint(1, 3)
        if self._removes and rng.random() < 0.3:
            config["max_msgs"] = rng.randint(4, 9)
        self._ask(f"$JS.API.STREAM.CREATE.{STREAM}", config)

    def _publish(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self._ask(self.rng.choice(SUBJECTS), b"p" * self.rng.randint(0, 20))

    def _create(self) -> None:
        rng, self._names = self.rng, self._names + 1
        name = f"C{self._names}"
        config: dict[str, Any] = {"durable_name": name, "max_deliver": rng.choice([-1, 2, 3])}
        config["ack_policy"] = rng.choice(["explicit", "explicit", "none" if self._removes else "all"])
        last = "new" if self._removes else "last_per_subject"
        config["deliver_policy"] = rng.choice(["all", "all", "new", last, "by_start_sequence"])
        config["ack_wait"] = 60 * SECOND
        if config["deliver_policy"] == "by_start_sequence":
            config["opt_start_seq"] = rng.randint(1, 4)
        if rng.random() < 0.5:
            config["filter_subject"] = rng.choice(FILTERS)
        elif rng.random() < 0.3:
            config["filter_subjects"] = rng.sample(SUBJECTS, 2)
        if rng.random() < 0.3 and config["ack_policy"] != "none":
            config["max_ack_pending"] = rng.randint(1, 4)
        if rng.random() < 0.2:
            config["headers_only"] = True
        if rng.random() < 0.2:
            config["max_batch"] = rng.randint(1, 3)
        made = self._ask(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})
        if "error" not in made:
            self._consumers[name] = config

    def _fetch(self) -> None:
        if not (name := self._any_consumer()):
            return
        batch = min(self.rng.randint(1, 4), self._room(name))
        if not batch:
            return
        request: dict[str, Any] = {"batch": batch, "no_wait": True}
        if self._consumers[name]["deliver_policy"] != "last_per_subject" and self.rng.random() < 0.15:
            request["max_bytes"] = self.rng.randint(40, 200)
        self.steps.append(f"fetch {name} {request}")
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}".encode()
        body, inbox = json.dumps(request).encode(), b"_FETCH.%d" % len(self.steps)
        got: list[list[Frame]] = []
        for client in self.clients:
            sid = client.subscribe(inbox)
            client.publish(subject, inbox, body)
            got.append(_until_done(client, sid, batch))
            client.unsubscribe(sid)
        plain = [[_plain(frame) for frame in frames] for frames in got]
        assert plain[0] == plain[1], self._story(plain)
        for mine, theirs in zip(*got, strict=True):
            if mine[1] and self._consumers[name]["ack_policy"] != "none":
                self._open.append(Delivered(name, int(mine[1].split(b".")[5]), [mine[1], theirs[1]]))

    def _answer(self) -> None:
        if not self._open:
            return
        one = self._open.pop(self.rng.randrange(len(self._open)))
        if one.consumer not in self._consumers:
            return
        last_try = self._consumers[one.consumer]["max_deliver"] > 0
        kinds = [b"+ACK", b"+ACK", b"+TERM", b"+WPI", b""] + ([] if last_try else [b"-NAK"])
        kind = self.rng.choice(kinds)
        self.steps.append(f"{kind!r} {one.consumer} {one.seq}")
        for client, reply in zip(self.clients, one.replies, strict=True):
            client.request(reply.decode(), kind, None, 1)

    def _delete_message(self) -> None:
        if self._removes:
            self._ask(f"$JS.API.STREAM.MSG.DELETE.{STREAM}", {"seq": self.rng.randint(1, 12), "no_erase": True})

    def _delete_consumer(self) -> None:
        if name := self._any_consumer():
            self._ask(f"$JS.API.CONSUMER.DELETE.{STREAM}.{name}", b"")
            del self._consumers[name]

    def _update(self) -> None:
        if not (name := self._any_consumer()):
            return
        config = self._consumers[name] | {"description": "other", "max_deliver": self.rng.choice([-1, 3, 4])}
        answer = self._ask(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})
        if "error" not in answer:
            self._consumers[name] = config

    def _pause(self) -> None:
        if name := self._any_consumer():
            until = {"pause_until": "2099-01-01T00:00:00Z"} if self.rng.random() < 0.5 else {}
            answers = self._answers(f"$JS.API.CONSUMER.PAUSE.{STREAM}.{name}", until)
            paused = [one["paused"] for one in answers]
            assert paused[0] == paused[1], self._story(answers)

    def _room(self, name: str) -> int:
        """How many more may be under way: a pull that asks for more is not answered to its end, by neither server."""
        if not (most := self._consumers[name].get("max_ack_pending")):
            return 4
        return most - _asked(self.clients[0], f"CONSUMER.INFO.{STREAM}.{name}")["num_ack_pending"]

    def _any_consumer(self) -> str:
        return self.rng.choice(list(self._consumers)) if self._consumers else ""

    # How both are asked and compared.

    def _ask(self, subject: str, body: Any) -> Any:
        """The answer of both, which must be the same but for what a consumer's or a stream's state says."""
        answers = self._answers(subject, body)
        stripped = [{k: v for k, v in one.items() if k in ("error", "seq", "success", "purged")} for one in answers]
        assert stripped[0] == stripped[1], self._story(answers)
        return answers[0]

    def _answers(self, subject: str, body: Any) -> list[Any]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.steps.append(f"{subject} {raw.decode()}")
        return [normalised(client.request(subject, raw, None, 1)[0])[1] for client in self.clients]

    def _compare(self) -> None:
        """Both reach the same state; what follows an ack may come a little after its answer."""
        deadline = time.monotonic() + SETTLED_S
        while (facts := [self._facts(client) for client in self.clients])[0] != facts[1]:
            assert time.monotonic() < deadline, self._story(facts)

    def _facts(self, client: ListeningOracle) -> dict[str, Any]:
        state = _asked(client, f"STREAM.INFO.{STREAM}")["state"]
        facts: dict[str, Any] = {"stream": {key: state.get(key) for key in _STREAM_FACTS}}
        for name in self._consumers:
            info = _asked(client, f"CONSUMER.INFO.{STREAM}.{name}")
            facts[name] = {key: info.get(key) for key in _CONSUMER_FACTS}
            for place in ("delivered", "ack_floor"):
                facts[name][place] = [info[place]["consumer_seq"], info[place]["stream_seq"]]
        return facts

    def _story(self, found: list[Any]) -> str:
        told = "\n  ".join(self.steps)
        return f"\n  {told}\n ours   {found[0]}\n theirs {found[1]}"


def _asked(client: ListeningOracle, subject: str) -> Any:
    return json.loads(client.request(f"$JS.API.{subject}", b"", None, 1)[0][1])


def _until_done(client: ListeningOracle, sid: bytes, batch: int) -> list[Frame]:
    """The messages of a pull, up to the last one or the status that ends it."""
    frames: list[Frame] = []
    while sum(1 for frame in frames if frame[1]) < batch:
        frames += client.take(sid, 1)
        if not frames[-1][1]:
            break
    return frames


def _plain(frame: Frame) -> tuple[bytes, ...]:
    """A delivery without its time: subject, sequences, header and payload."""
    subject, reply, header, payload = frame
    words = reply.split(b".")
    return (subject, *words[2:7], *words[8:9], header, payload)
