"""Reads and plans on a server without bulk calls: direct gets in batches, or an ephemeral consumer.

Both give the same records as a bulk read: what the server adds to a message on the way (headers of a direct get, an ack
subject) is taken off, and the message is encoded as a log would have it.

Direct gets may be answered by a replica that lags behind. So when one says that there is no more before the end of the
range, the leader is asked for the next message (STREAM.MSG.GET): if it has one in the range, the read is not complete
and fails as retryable.

A consumer needs the right to create it and leaves nothing behind. It cannot be used on a work queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec

from slipstream.bulk.errors import BulkError
from slipstream.bulk.link import BulkLink, Inbox
from slipstream.bulk.reading import WantedRange
from slipstream.bulk.values import Plan, Split
from slipstream.client.wire import Message
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.times import format_time, parse_time
from slipstream.kernels.bulk.bulkscan import encode_message
from slipstream.kernels.log.record import StoredMessage
from slipstream.units import SECOND_NS

__all__ = ["ConsumerSource", "DirectSource", "created_ns", "estimated_plan"]

_BATCH = 1_000  # messages asked for at once
_ADDED = frozenset(
    (b"Nats-Stream", b"Nats-Subject", b"Nats-Sequence", b"Nats-Time-Stamp", b"Nats-Num-Pending", b"Nats-Last-Sequence")
)
_INACTIVE_NS = 60 * SECOND_NS
_NO_MESSAGE = 10037
_STATUS = re.compile(rb"NATS/1\.0 (\d{3})")


def created_ns(info: dict[str, Any]) -> int:
    """When a stream was made, from STREAM.INFO."""
    return parse_time(str(info["created"]))


class DirectSource:
    """Records by DIRECT.GET."""

    transport = "direct"
    exact = False
    salt = 0

    def __init__(self, link: BulkLink, wanted: WantedRange) -> None:
        """Prepare to read `wanted`."""
        self._link = link
        self._wanted = wanted
        self._inbox: Inbox | None = None

    def __iter__(self) -> Iterator[bytes]:
        """See `RecordSource`."""
        link, wanted = self._link, self._wanted
        self._inbox = inbox = link.open_inbox()
        seq = max(wanted.first, 1)
        while seq <= wanted.last:
            body = msgspec.json.encode({"seq": seq, "batch": _BATCH, "next_by_subj": _filter(wanted)})
            link.publish(f"{link.prefix}DIRECT.GET.{wanted.stream}", body, reply=inbox.subject)
            records, more, reached = self._batch(inbox)
            if records:
                yield b"".join(records)
                seq = reached + 1
            if not more and seq <= wanted.last:
                self._check_with_leader(seq)
                return

    def _batch(self, inbox: Inbox) -> tuple[list[bytes], bool, int]:
        """The records of one batch that are in the range, whether there may be more, and the last sequence seen."""
        records: list[bytes] = []
        reached = 0
        while True:
            message = self._link.next(inbox)
            status = _STATUS.match(message.header)
            if status is not None:
                return records, _ended(self._wanted, status[1], message.header), reached
            stored = _direct_message(message)
            reached = stored.seq
            if stored.seq <= self._wanted.last:
                records.append(encode_message(stored))

    def _check_with_leader(self, seq: int) -> None:
        """Nothing more, says whoever answered: the leader must agree."""
        wanted = self._wanted
        asked = {"seq": seq, "next_by_subj": _filter(wanted)}
        try:
            found = self._link.request(f"STREAM.MSG.GET.{wanted.stream}", asked)
        except BulkError as error:
            if error.err_code == _NO_MESSAGE:
                return
            raise
        if int(found["message"]["seq"]) <= wanted.last:
            raise BulkError(f"a replica of {wanted.stream} does not have all messages yet", retryable=True)

    def check(self, records: int, crc: int, damaged: Sequence[int]) -> None:
        """See `RecordSource`: completeness was checked with the leader."""

    def close(self) -> None:
        """See `RecordSource`."""
        if self._inbox is not None:
            self._link.close_inbox(self._inbox)
            self._inbox = None


class ConsumerSource:
    """Records by a pull consumer of our own, without acks."""

    transport = "consumer"
    exact = False
    salt = 0

    def __init__(self, link: BulkLink, wanted: WantedRange) -> None:
        """Prepare to read `wanted`."""
        self._link = link
        self._wanted = wanted
        self._inbox: Inbox | None = None
        self._consumer = ""

    def __iter__(self) -> Iterator[bytes]:
        """See `RecordSource`."""
        link, wanted = self._link, self._wanted
        pending = self._create()
        self._inbox = inbox = link.open_inbox()
        delivered = 0
        while pending:
            ask = msgspec.json.encode({"batch": _BATCH, "no_wait": True})
            next_ = f"{link.prefix}CONSUMER.MSG.NEXT.{wanted.stream}.{self._consumer}"
            link.publish(next_, ask, reply=inbox.subject)
            records: list[bytes] = []
            for _ in range(min(_BATCH, pending)):
                message = link.next(inbox)
                if _STATUS.match(message.header):
                    raise BulkError(f"the consumer on {wanted.stream} ended early", retryable=True)
                stored, number, pending = _consumed_message(message)
                delivered += 1
                if number != delivered:
                    raise BulkError(f"the consumer on {wanted.stream} left out messages", retryable=True)
                if stored.seq > wanted.last:
                    pending = 0
                    break
                records.append(encode_message(stored))
                if not pending:
                    break
            if records:
                yield b"".join(records)

    def _create(self) -> int:
        """Make the consumer; how many messages it has for us."""
        wanted = self._wanted
        config: dict[str, object] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(wanted.first, 1),
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": _INACTIVE_NS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if wanted.subjects:
            config["filter_subjects"] = list(wanted.subjects)
        body = {"stream_name": wanted.stream, "config": config}
        made = self._link.request(f"CONSUMER.CREATE.{wanted.stream}", body)
        self._consumer = str(made["name"])
        return int(made["num_pending"])

    def check(self, records: int, crc: int, damaged: Sequence[int]) -> None:
        """See `RecordSource`: a consumer counts what it delivers, and was followed to the end."""

    def close(self) -> None:
        """See `RecordSource`; a consumer that cannot be removed now goes by itself when it is idle."""
        if self._inbox is not None:
            self._link.close_inbox(self._inbox)
            self._inbox = None
        if self._consumer:
            name, self._consumer = self._consumer, ""
            with suppress(BulkError):
                self._link.request(f"CONSUMER.DELETE.{self._wanted.stream}.{name}")


def estimated_plan(
    link: BulkLink,
    wanted: WantedRange,
    info: dict[str, Any],
    *,
    last: int | None,
    max_msgs: int | None,
    max_bytes: int | None,
    partitions: int | None,
    target_bytes: int,
    min_rows: int,
) -> Plan:
    """Pieces of equal numbers of sequences; messages and bytes are shares of what the whole stream has."""
    state = info["state"]
    if last is not None and last > state["last_seq"]:
        raise BulkError(f"sequence {last} of {wanted.stream} is not there yet", retryable=True)
    first = max(wanted.first, 1)
    end = state["last_seq"] if last is None else last
    if wanted.start_time_ns is not None:
        first = max(first, _seq_at(link, wanted.stream, wanted.start_time_ns) or state["last_seq"] + 1)
    if wanted.end_time_ns is not None:
        end = min(end, (_seq_at(link, wanted.stream, wanted.end_time_ns) or state["last_seq"] + 1) - 1)
    begin = max(first, state["first_seq"], 1)
    spread = max(state["last_seq"] - max(state["first_seq"], 1) + 1, 1)
    density, size = state["messages"] / spread, state["bytes"] / max(state["messages"], 1)
    if max_msgs is not None and density:
        end = min(end, begin + max(int(max_msgs / density), 1) - 1)
    if max_bytes is not None and density and size:
        end = min(end, begin + max(int(max_bytes / size / density), 1) - 1)
    seqs = max(end - begin + 1, 0) if state["messages"] else 0
    messages = round(seqs * density)
    if partitions is None:
        partitions = min(-(-round(messages * size) // max(target_bytes, 1)), messages // max(min_rows, 1))
    pieces = min(max(partitions, 1), seqs)
    bounds = [begin + seqs * k // pieces for k in range(pieces + 1)] if pieces else []
    splits = [
        Split(low if k else first, high - 1, round((high - low) * density), round((high - low) * density * size))
        for k, (low, high) in enumerate(pairwise(bounds))
    ]
    return Plan(
        stream=wanted.stream,
        identity=info["identity"],
        first=first,
        last=end,
        messages=sum(split.messages for split in splits),
        bytes=sum(split.bytes for split in splits),
        splits=splits,
        exact=False,
        stream_first=state["first_seq"],
        stream_last=state["last_seq"],
    )


def _seq_at(link: BulkLink, stream: str, time_ns: int) -> int | None:
    """The first sequence stored at or after a time; None if there is none."""
    try:
        found = link.request(f"STREAM.MSG.GET.{stream}", {"start_time": format_time(time_ns), "next_by_subj": ">"})
    except BulkError as error:
        if error.err_code == _NO_MESSAGE:
            return None
        raise
    return int(found["message"]["seq"])


def _filter(wanted: WantedRange) -> str:
    """What a single filter can do; several are left to the decoder."""
    return wanted.subjects[0] if len(wanted.subjects) == 1 else ">"


def _ended(wanted: WantedRange, status: bytes, header: bytes) -> bool:
    """Whether there may be more behind the end of a batch."""
    if status == b"204":
        pending = re.search(rb"Nats-Num-Pending: *(\d+)", header)
        return pending is None or int(pending[1]) > 0
    if status == b"404":
        return False
    if status == b"503":
        raise BulkError(
            f"stream {wanted.stream} does not offer direct gets: set its allow_direct, or use another transport"
        )
    told = header.split(b"\r\n")[0].decode("utf-8", "replace")
    raise BulkError(f"direct get from {wanted.stream} failed: {told}")


def _direct_message(message: Message) -> StoredMessage:
    """The message as it is stored: the headers a direct get adds are the last lines, each once."""
    lines = message.header.split(b"\r\n")[:-2]  # the block ends with an empty line
    added: dict[bytes, bytes] = {}
    while len(lines) > 1:
        name, _, value = lines[-1].partition(b":")
        if name not in _ADDED or name in added:
            break
        added[name] = value.strip()
        lines.pop()
    try:
        ts_ns = parse_time(added[b"Nats-Time-Stamp"].decode())
        seq, subject = int(added[b"Nats-Sequence"]), added[b"Nats-Subject"]
    except (KeyError, ValueError, JsonError) as error:
        raise BulkError(f"an answer to a direct get is not usable: {error}") from error
    headers = b"\r\n".join(lines) + b"\r\n\r\n" if len(lines) > 1 or lines[0] != b"NATS/1.0" else b""
    return StoredMessage(seq, ts_ns, subject, headers, message.payload)


def _consumed_message(message: Message) -> tuple[StoredMessage, int, int]:
    """The message as it is stored, its number at the consumer, and how many are left; from the ack subject."""
    tokens = message.reply.split(".")
    # $JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<times>.<seq>.<number>.<time>.<pending>[.<token>]
    if len(tokens) >= 11:
        tokens = tokens[:2] + tokens[4:11]
    try:
        seq, number, ts_ns, pending = (int(token) for token in tokens[5:9])
    except ValueError as error:
        raise BulkError(f"not an ack subject: {message.reply}") from error
    subject = message.subject.encode(errors="surrogateescape")
    return StoredMessage(seq, ts_ns, subject, message.header, message.payload), number, pending
