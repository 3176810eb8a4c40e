"""What servers of a cluster tell each other about streams that they lead.

describe   one stream, when it is as was agreed on: held until this server leads it, or for good
beyond     consumers of a stream led here that another limit would not allow
list       those of some streams that are led here, at once
usage      what an account has on this server
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.info import stream_fields
from slipstream.jetstream.api.received import all_committed, all_received
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import ConsumerLimits
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.stream.stream import Stream
from slipstream.replication.peer_calls import Answer

if TYPE_CHECKING:
    from slipstream.replication.hosting import Hosting
    from slipstream.replication.meta.group import MetaGroup

__all__ = [
    "BEYOND",
    "DESCRIBE",
    "LIST",
    "USAGE",
    "BeyondLimits",
    "DescribeStream",
    "Described",
    "Descriptions",
    "ListStreams",
]

DESCRIBE: Final = "describe"
LIST: Final = "list"
BEYOND: Final = "beyond"
USAGE: Final = "usage"
_HELD_MAX: Final = 4096
_HELD_TICKS: Final = 100  # who asks waits no longer


class DescribeStream(msgspec.Struct, array_like=True):
    """Which stream, and what must be known of it here."""

    account: str
    stream: str
    group: int
    seq: int
    """What the meta group had agreed on up to here."""
    reply: bytes = b""
    """Whom to tell as well, in the stream's account."""
    response_type: str = ""
    """The type of what is told then."""
    also: bytes = b"{}"
    """JSON: its further members."""


class Described(msgspec.Struct, array_like=True):
    """A stream as JSON, or why there is none."""

    fields: bytes = b""
    error: str | None = None


class ListStreams(msgspec.Struct, array_like=True):
    """Some streams of an account."""

    account: str
    names: list[str]


class BeyondLimits(msgspec.Struct, array_like=True):
    """A stream, and limits of its consumers that it has not yet."""

    account: str
    stream: str
    inactive_threshold_ns: int
    max_ack_pending: int


class Descriptions:
    """Answers such questions."""

    def __init__(
        self,
        account: Callable[[str], JetStreamAccount | None],
        hosting: Hosting,
        meta: Callable[[], MetaGroup | None],
    ) -> None:
        """From what is there when somebody asks."""
        self._account = account
        self._hosting = hosting
        self._meta = meta
        self._held: list[tuple[int, DescribeStream, Answer]] = []  # each with the tick it came with
        self._ticks = 0

    def handle(self, method: str, body: bytes, answer: Answer) -> None:
        """See `PeerCalls`. What makes no sense is not answered."""
        try:
            if method == DESCRIBE:
                question = msgspec.msgpack.decode(body, type=DescribeStream)
                if len(self._held) < _HELD_MAX:
                    self._held.append((self._ticks, question, answer))
                    self.look()
            elif method == LIST:
                asked = msgspec.msgpack.decode(body, type=ListStreams)
                self._list(asked.account, asked.names, answer)
            elif method == BEYOND:
                self._beyond(msgspec.msgpack.decode(body, type=BeyondLimits), answer)
            elif method == USAGE:
                self._usage(msgspec.msgpack.decode(body, type=str), answer)
        except (msgspec.DecodeError, UnicodeError):
            return

    def tick(self) -> None:
        """A tick has passed: what is held for a stream that another server leads is of no use for ever."""
        self._ticks += 1
        if self._held:
            self._held = [one for one in self._held if self._ticks - one[0] < _HELD_TICKS]
            self.look()

    def look(self) -> None:
        """Something may have changed: answer what can be answered now, and drop what never will be."""
        if self._held:
            held, self._held = self._held, []
            self._held += [one for one in held if not self._try(*one[1:])]

    def _try(self, question: DescribeStream, answer: Answer) -> bool:
        meta = self._meta()
        if meta is None or meta.handed_seq < question.seq:
            return False
        assignment = meta.state.find(question.account, question.stream)
        if assignment is None or assignment.group != question.group:
            return True
        hosting = self._hosting
        error = hosting.kept.error(assignment)
        if error is not None:
            answer(msgspec.msgpack.encode(Described(error=error)))
            return True
        stream = hosting.kept.is_up_to_date(assignment)
        host = self._account(question.account)
        if stream is None or host is None:
            return False

        def committed(failed: object) -> None:
            if failed is not None:
                return
            shown = _shown(host, stream)
            if question.reply:
                host.ports.publish(question.reply, None, None, _told(question, shown))
            answer(msgspec.msgpack.encode(Described(shown)))

        stream.after_commit(committed)
        return True

    def _list(self, account: str, names: list[str], answer: Answer) -> None:
        host = self._account(account)
        found = (
            []
            if host is None
            else [one for name in names if (one := self._hosting.kept.led(account, name)) is not None]
        )
        if host is None or not found:
            answer(msgspec.msgpack.encode({}))
            return
        shown: dict[str, bytes] = {}

        def show(stream: Stream) -> None:
            shown[stream.name] = _shown(host, stream, versioned=False)

        def describe() -> None:
            for stream in found:
                if host.streams.get(stream.name) is stream:
                    show(stream)
            all_committed(found, show, lambda: answer(msgspec.msgpack.encode(shown)))

        all_received(found, describe)

    def _beyond(self, asked: BeyondLimits, answer: Answer) -> None:
        stream = self._hosting.kept.led(asked.account, asked.stream)
        if stream is not None:
            limits = ConsumerLimits(
                inactive_threshold_ns=asked.inactive_threshold_ns, max_ack_pending=asked.max_ack_pending
            )
            answer(msgspec.msgpack.encode(stream.interest.beyond(limits)))

    def _usage(self, account: str, answer: Answer) -> None:
        host = self._account(account)
        if host is None:
            answer(msgspec.msgpack.encode({}))
            return

        def respond() -> None:
            used = {
                "memory": self._used_bytes(host, StorageType.MEMORY),
                "storage": self._used_bytes(host, StorageType.FILE),
                "consumers": sum(stream.interest.consumer_count for stream in host.streams.values()),
            }
            answer(msgspec.msgpack.encode(used))

        all_received(host.streams.values(), respond)

    def _used_bytes(self, host: JetStreamAccount, storage: StorageType) -> int:
        return host.budgets[storage].used_bytes + self._hosting.kept.followed_bytes(host.name, storage)


def _told(question: DescribeStream, shown: bytes) -> bytes:
    fields, also = msgspec.json.decode(shown), msgspec.json.decode(question.also)
    return encode({"type": question.response_type, **fields, **also})


def _shown(host: JetStreamAccount, stream: Stream, *, versioned: bool = True) -> bytes:
    cluster = host.cluster_block(stream.name)
    return encode(stream_fields(stream, host.facts, host.ports.now_ns(), versioned=versioned, cluster=cluster))
