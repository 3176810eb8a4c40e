"""Drive a consumer of the real nats-server and one of ours through the same steps, and compare what clients get."""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from typing import Any

from support.consumer_world import ConsumerWorld, Inbox
from support.jetstream_oracle import Both, Oracle

Frame = tuple[bytes, bytes, bytes, bytes]  # subject, reply, header, payload
_ACK = re.compile(rb"(\$JS\.ACK\.[^.]+\.[^.]+\.\d+\.\d+\.\d+)\.\d+\.(\d+)")
_FLOW = re.compile(rb"(\$JS\.FC\.[^.]+\.[^.]+)\.\w{4}")

_PAIRS = itertools.count(1)


class ListeningOracle(Oracle):
    """A connection that subscribes to inboxes of its own."""

    def __init__(self, port: int, login: str = "") -> None:
        super().__init__(port, login)
        # Answers to requests only: whether anybody listens on an inbox of a pull is for the test to say.
        self._socket.sendall(b"UNSUB 1\r\nSUB _INBOX.* 1\r\n")
        self._sid = 100
        self._queues: dict[bytes, list[Frame]] = {}

    def subscribe(self, subject: bytes, queue: bytes = b"") -> bytes:
        """A new subscription; its sid."""
        self._sid += 1
        sid = b"%d" % self._sid
        self._queues[sid] = []
        self._socket.sendall(b"SUB %b %b %b\r\n" % (subject, queue, sid))
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        self._socket.sendall(b"UNSUB %b\r\n" % sid)

    def publish(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        self._socket.sendall(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload))

    def take(self, sid: bytes, count: int) -> list[Frame]:
        """The next so many messages of a subscription; waits for them."""
        queue = self._queues[sid]
        while len(queue) < count:
            self._read_frame()
        found, self._queues[sid] = queue[:count], queue[count:]
        return found

    def settled(self) -> None:
        """Everything sent so far has been handled by the server's connection."""
        self._socket.sendall(b"PING\r\n")
        while self._read_frame() is not True:
            pass

    def _next_message(self) -> tuple[bytes, tuple[bytes | None, bytes]]:
        """The next answer to a request; what comes for subscriptions meanwhile is kept for them."""
        while True:
            frame = self._read_frame()
            if isinstance(frame, tuple):
                return frame[0], (frame[2] or None, frame[3])

    def _read_frame(self) -> bool | Frame:
        """Read one line: a message that nobody waits for by sid, or whether it was a PONG."""
        words = self._file.readline().split()
        if words[0] == b"PING":
            self._socket.sendall(b"PONG\r\n")
        if words[0] not in (b"MSG", b"HMSG"):
            return words[0] == b"PONG"
        total = int(words[-1])
        size = int(words[-2]) if words[0] == b"HMSG" else 0
        data = self._body(total)
        fixed = 5 if words[0] == b"HMSG" else 4
        reply = words[3] if len(words) > fixed else b""
        frame = (words[1], reply, data[:size], data[size:])
        if words[2] not in self._queues:
            return frame
        self._queues[words[2]].append(frame)
        return False


class BothInboxes:
    """One subscription at each server."""

    def __init__(self, pair: ConsumerPair, mine: Inbox, theirs: bytes) -> None:
        self._pair = pair
        self._mine = mine
        self._theirs = theirs
        self.last: list[Frame] = []
        self.last_theirs: list[Frame] = []

    def expect(self, count: int) -> list[Frame]:
        """Both got exactly so many messages, and the same ones; ours, as they came."""
        mine = [(m[1], m[2] or b"", m[3] or b"", m[4]) for m in self._mine.take()]
        assert len(mine) == count, f"ours got {mine}"
        theirs = self._pair.oracle.take(self._theirs, count)
        for own, other in zip(mine, theirs, strict=True):
            assert _plain(own) == _plain(other), f"\n ours   {own}\n theirs {other}"
        self.last, self.last_theirs = mine, theirs
        return mine

    def answer(self, index: int, payload: bytes, *, confirmed: bool = False) -> None:
        """Send an ack for one of the last messages."""
        self._pair.answer(self.last[index][1], self.last_theirs[index][1], payload, confirmed=confirmed)

    def leave(self) -> None:
        """The client goes away."""
        self._pair.world.ports.gone.add(self._mine.subject)
        if self._mine.subscription is not None:
            self._mine.subscription.close()
        self._pair.oracle.unsubscribe(self._theirs)
        self._pair.oracle.settled()


class ConsumerPair(Both):
    """Both servers, with inboxes."""

    def __init__(self, oracle: ListeningOracle, world: ConsumerWorld) -> None:
        super().__init__(oracle, world)
        self.oracle = oracle
        self.world = world
        # Both servers live longer than a pair, and so do the subscriptions of earlier ones.
        world.inboxes = next(_PAIRS) * 1_000

    def publish(self, subject: str, payload: bytes = b"x", header: bytes | None = None) -> None:
        """Store a message in both."""
        self.ask(subject, payload, header)

    def pull(self, body: Any = b"", consumer: str = "C") -> BothInboxes:
        """The same pull request to both."""
        mine = self.world.pull(body, consumer)
        sid = self.oracle.subscribe(mine.subject)
        raw = body if isinstance(body, bytes) else _body(body)
        self.oracle.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}".encode(), mine.subject, raw)
        self.oracle.settled()
        return BothInboxes(self, mine, sid)

    def until_waiting(self, count: int, consumer: str = "C") -> None:
        """Wait until nats-server has taken notice of so many pulls; it may answer a PING before."""
        ask = partial(self.oracle.request, f"$JS.API.CONSUMER.INFO.S.{consumer}", b"", None, 1)
        while json.loads(ask()[0][1])["num_waiting"] < count:
            pass

    def listen(self, subject: str) -> BothInboxes:
        """Subscribe at both."""
        sid = self.oracle.subscribe(subject.encode())
        self.oracle.settled()
        return BothInboxes(self, self.world.listen(subject), sid)

    def answer(self, mine: bytes, theirs: bytes, payload: bytes, *, confirmed: bool) -> None:
        """Publish to an ack subject of each; both confirm, or it is not asked for."""
        inbox = Inbox(self.world, b"_INBOX.confirm")
        self.world.ports.route(mine, inbox.subject if confirmed else None, None, payload)
        self.world.ports.settle()
        sid = self.oracle.subscribe(inbox.subject)
        self.oracle.publish(theirs, inbox.subject if confirmed else b"", payload)
        if confirmed:
            assert any(sent[0] == inbox.subject for sent in self.world.ports.sent)
            self.oracle.take(sid, 1)
            self.world.ports.sent.clear()
        self.oracle.unsubscribe(sid)
        self.oracle.settled()

    def same_info(self, consumer: str = "C") -> Any:
        """CONSUMER.INFO of both, equal."""
        return self.api(f"CONSUMER.INFO.S.{consumer}")


def _body(body: Any) -> bytes:
    return str(body).encode() if isinstance(body, int) else json.dumps(body).encode()


def _plain(frame: Frame) -> Frame:
    """A frame without times and random names."""
    subject, reply, header, payload = frame
    reply = _ACK.sub(rb"\1.TIME.\2", reply)
    return subject, _FLOW.sub(rb"\1.XXXX", reply), _FLOW.sub(rb"\1.XXXX", header), payload
