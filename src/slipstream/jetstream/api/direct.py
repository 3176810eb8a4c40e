"""DIRECT.GET: messages as they are stored, without JSON, answered by the stream itself or by a mirror of it.

Each stream with `allow_direct` subscribes to its own two subjects; without it nobody does, and the client is told that
there are no responders. Problems are statuses in a header block, not API errors.

The two questions that nearly everybody asks, for a sequence and for the last message of a subject, are answered by the
kernel (`PointGet`), with the same bytes as here, unless messages wait for their commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.bodies import MSG_GET, MsgGetRequest
from slipstream.jetstream.api.dispatch import LONG_BODIES_AT_ONCE, LONG_BODY_BYTES
from slipstream.jetstream.api.limits import DIRECT_MULTI_LAST_MAX
from slipstream.jetstream.config.direct_reads import reads_locally
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.versioning import level_suffices
from slipstream.jetstream.gojson.scan import JsonError
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.ports import LiveSubscription, Ports, ServerFacts
from slipstream.jetstream.store.contract import StoreReads
from slipstream.jetstream.store.values import StoredMessage
from slipstream.jetstream.stream import reads
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.fastpath.pointget import PointGet

__all__ = ["DirectApi", "DirectGet", "DirectReads", "listen_to_gets"]

_QUEUE: Final = b"_sys_"
_PREFIX: Final = b"$JS.API.DIRECT.GET."


class DirectReads(Protocol):
    """Where the messages of a stream are. `Stream` is one."""

    @property
    def name(self) -> str:
        """The stream's."""
        ...

    @property
    def config(self) -> StreamConfig:
        """The stream's."""
        ...

    @property
    def store(self) -> StoreReads:
        """Asked for when it is read, and not kept."""
        ...

    @property
    def is_replicated(self) -> bool:
        """Whether other servers have it, too."""
        ...

    def after_received(self, callback: Callable[[], None], *, confirmed: bool = True) -> None:
        """Call back when it can be read what was published before; see `Stream.after_received`."""
        ...


class DirectApi:
    """Subscribes streams to their direct gets as they come, change and go."""

    def __init__(self, account: JetStreamAccount) -> None:
        """Watch the account's streams."""
        self._account = account
        self._subscriptions: dict[str, list[LiveSubscription]] = {}
        self._fresh: set[str] = set()  # mirrors that have caught up with their origin
        account.on_started.append(self._check)
        account.on_updated.append(self._check)
        account.on_caught_up.append(self._caught_up)
        account.on_stopped.append(self._remove)

    def _check(self, stream: Stream) -> None:
        if not stream.config.allow_direct:
            self._close(stream.name)
        else:
            self._listen(stream, stream.name)
        if stream.config.mirror is None or not stream.config.mirror_direct:
            self._close(_for_origin(stream))
        elif stream.name in self._fresh:
            self._listen(stream, stream.config.mirror.name)

    def _caught_up(self, stream: Stream) -> None:
        """A mirror is fresh: it answers whoever asks its origin, one time or another."""
        self._fresh.add(stream.name)
        self._check(stream)

    def _listen(self, stream: Stream, asked: str) -> None:
        """Answer from `stream` what is asked of the stream called `asked`."""
        key = stream.name if asked == stream.name else _for_origin(stream)
        if key in self._subscriptions:
            return
        self._subscriptions[key] = listen_to_gets(stream, self._account.ports, self._account.facts, asked)

    def _remove(self, stream: Stream) -> None:
        self._fresh.discard(stream.name)
        self._close(stream.name)
        self._close(_for_origin(stream))

    def _close(self, key: str) -> None:
        for subscription in self._subscriptions.pop(key, []):
            subscription.close()


def listen_to_gets(source: DirectReads, ports: Ports, facts: ServerFacts, asked: str) -> list[LiveSubscription]:
    """Answer from `source` what is asked of the stream called `asked`."""
    getter = DirectGet(source, ports, facts.max_pending_bytes, asked)
    name, find = source.name.encode(), source.store.find_record if not source.is_replicated else _nothing
    subject = _PREFIX + asked.encode()
    by_sequence = PointGet(name, 0, getter.on_request, find)
    by_subject = PointGet(name, len(subject) + 1, getter.on_subject_request, find)
    return [
        ports.answer_gets(subject, by_sequence, _QUEUE),
        ports.answer_gets(subject + b".>", by_subject, _QUEUE),
    ]


def _nothing(_: bytes | int) -> tuple[int, bytes, int, int] | None:
    """What the kernel finds in a replicated stream, so that it asks here: others may know more than this server."""
    return None


def _for_origin(stream: Stream) -> str:
    """The key of what a mirror answers for its origin; no stream can be called this."""
    return f"{stream.name} for its origin"


class DirectGet:
    """Direct gets of one stream."""

    def __init__(self, source: DirectReads, ports: Ports, bytes_max: int, asked: str) -> None:
        """Answer from `source`.

        Args:
            source: where messages are.
            ports: the way out.
            bytes_max: bounds a batch that names no bound of its own.
            asked: name of the stream in the subjects of the requests, which a mirror answers too.
        """
        self._source = source
        self._name = source.name.encode()
        self._key_at = len(_PREFIX) + len(asked.encode()) + 1
        self._in_files = source.config.storage is StorageType.FILE
        self._ports = ports
        self._bytes_max = bytes_max
        self._reading = 0  # long requests that are being read in threads

    def on_request(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A request whose body says what is wanted."""
        if not reply:
            return
        if header and not level_suffices(header):
            self._status(reply, b"412 Required Api Level")
            return
        if len(payload) > LONG_BODY_BYTES and self._reading < LONG_BODIES_AT_ONCE:
            self._reading += 1
            outcome: list[MsgGetRequest] = []

            def read() -> None:
                with suppress(JsonError):
                    outcome.append(MSG_GET.decode(payload, strict=False))

            self._ports.run_blocking(read, lambda: self._on_long_request(reply, outcome))
            return
        asked = self._decoded(reply, payload) if payload else None
        if asked is not None:
            self._on_asked(reply, asked)
        elif not payload:
            self._status(reply, b"408 Empty Request")

    def _on_long_request(self, reply: bytes, outcome: list[MsgGetRequest]) -> None:
        """A long list of subjects was read, in a thread."""
        self._reading -= 1
        if outcome:
            self._on_asked(reply, outcome[0])
        else:
            self._status(reply, b"408 Malformed Request")

    def _on_asked(self, reply: bytes, asked: MsgGetRequest) -> None:
        timed = asked.start_time_ns is not None
        if not (asked.seq or asked.last_by_subj or asked.next_by_subj or asked.multi_last or timed):
            self._status(reply, b"408 Empty Request")
        elif (
            (asked.seq > 0 and (asked.last_by_subj or timed))
            or (asked.last_by_subj and (timed or asked.next_by_subj or asked.batch > 0 or asked.multi_last))
            or (asked.next_by_subj and asked.multi_last)
            or (asked.up_to_seq > 0 and asked.up_to_time_ns is not None)
        ):
            self._status(reply, b"408 Bad Request")
        else:
            self._read(lambda: self._answer(reply, asked))

    def on_subject_request(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A request for the last message of the subject in its own subject."""
        if not reply:
            return
        if header and not level_suffices(header):
            self._status(reply, b"412 Required Api Level")
            return
        no_header = False
        if payload:
            asked = self._decoded(reply, payload)
            if asked is None:
                return
            if msgspec.structs.replace(asked, no_hdr=False, max_bytes=0) != MsgGetRequest():
                self._status(reply, b"408 Bad Request")
                return
            no_header = asked.no_hdr
        wanted = MsgGetRequest(
            last_by_subj=subject[self._key_at :].decode("utf-8", "surrogateescape"), no_hdr=no_header
        )
        self._read(lambda: self._answer(reply, wanted))

    @property
    def _store(self) -> StoreReads:
        return self._source.store

    def _read(self, read: Callable[[], None]) -> None:
        """Read what was acknowledged before, or only what this server knows of, if that is enough."""
        self._source.after_received(read, confirmed=not reads_locally(self._source.config))

    def _decoded(self, reply: bytes, payload: bytes) -> MsgGetRequest | None:
        try:
            return MSG_GET.decode(payload, strict=False)
        except JsonError:
            self._status(reply, b"408 Malformed Request")
            return None

    def _answer(self, reply: bytes, asked: MsgGetRequest) -> None:
        if asked.multi_last:
            self._multi_last(reply, asked)
        elif asked.batch:
            self._batch(reply, asked)
        else:
            message = self._single(asked)
            if message is None:
                self._status(reply, b"404 Message Not Found")
            else:
                self._send(reply, message, no_header=asked.no_hdr)

    def _first_seq(self, asked: MsgGetRequest) -> int:
        return asked.seq if asked.start_time_ns is None else self._store.seq_for_time(asked.start_time_ns)

    def _single(self, asked: MsgGetRequest) -> StoredMessage | None:
        seq = self._first_seq(asked)
        if asked.next_by_subj:
            return reads.following(self._store, asked.next_by_subj.encode(), seq)
        return (
            reads.at(self._store, seq)
            if seq > 0
            else reads.last(self._store, asked.last_by_subj.encode("utf-8", "surrogateescape"))
        )

    def _batch(self, reply: bytes, asked: MsgGetRequest) -> None:
        """Messages in order from a sequence on, then an end-of-batch status."""
        subject, seq = asked.next_by_subj.encode(), self._first_seq(asked)
        pending = reads.count_from(self._store, subject, seq)
        bytes_max = asked.max_bytes or self._bytes_max
        sent_bytes = last_sent = 0
        for sent in range(asked.batch):
            message = reads.following(self._store, subject, seq)
            if message is None:
                # A batch that may be longer ends quietly; a batch of one that finds nothing does not.
                if asked.batch > 1 and sent > 0:
                    break
                self._status(reply, b"404 Message Not Found")
                return
            seq = message.seq + 1
            if not asked.no_hdr:
                pending = max(pending - 1, 0)
            extra = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last_sent)
            self._send(reply, message, no_header=asked.no_hdr, extra=extra)
            last_sent = message.seq
            sent_bytes += len(message.subject) + len(message.headers) + len(message.payload)
            if sent_bytes >= bytes_max:
                break
        self._status(reply, b"204 EOB", b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last_sent))

    def _multi_last(self, reply: bytes, asked: MsgGetRequest) -> None:
        """The newest message of each subject that matches, as of a sequence or time."""
        store = self._store
        up_to_seq = asked.up_to_seq
        if asked.up_to_time_ns is not None:
            up_to_seq = store.seq_for_time(asked.up_to_time_ns)
            if up_to_seq <= store.first_seq:
                self._status(reply, b"404 No Results")
                return
            up_to_seq -= 1
        up_to_seq = up_to_seq or store.committed_seq
        if self._in_files and up_to_seq > store.committed_seq:
            # As nats-server: its files know no state after a sequence that is still to come, its memory does.
            self._status(reply, b"404 No Results")
            return
        filters = [subject.encode() for subject in asked.multi_last]
        seqs: Sequence[int] = ()
        if store.committed_seq:
            seqs = store.last_per_subject(filters, min(up_to_seq, store.committed_seq))
        if len(seqs) > DIRECT_MULTI_LAST_MAX:
            self._status(reply, b"413 Too Many Results")
            return
        if not seqs:
            self._status(reply, b"404 No Results")
            return
        seqs = [seq for seq in seqs if seq >= asked.seq]
        bytes_max = asked.max_bytes or self._bytes_max
        sent_bytes = last_sent = 0
        pending = len(seqs)
        for sent, seq in enumerate(seqs, start=1):
            message = reads.at(store, seq)
            if message is None:
                self._status(reply, b"404 Message Not Found")
                return
            pending -= 1
            extra = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last_sent)
            self._send(reply, message, extra=extra)
            last_sent = seq
            sent_bytes += len(message.subject) + len(message.headers) + len(message.payload)
            if sent_bytes >= bytes_max or sent == asked.batch:
                break
        end = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\nNats-UpTo-Sequence: %d\r\n"
        self._status(reply, b"204 EOB", end % (pending, last_sent, up_to_seq))

    def _send(self, reply: bytes, message: StoredMessage, *, no_header: bool = False, extra: bytes = b"") -> None:
        block = None
        if not no_header:
            block = b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n%b\r\n" % (
                message.headers[:-2] or b"NATS/1.0\r\n",
                self._name,
                message.subject,
                message.seq,
                format_time(message.ts_ns).encode(),
                extra,
            )
        self._ports.publish(reply, None, block, message.payload)

    def _status(self, reply: bytes, status: bytes, lines: bytes = b"") -> None:
        self._ports.publish(reply, None, b"NATS/1.0 %b\r\n%b\r\n" % (status, lines), b"")
