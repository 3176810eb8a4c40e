"""The bulk client: plans, reads, holds and staged writes over one connection, without a thread.

    with connect(ConnectOptions("nats://127.0.0.1:4222")) as client:
        plan = client.plan("ORDERS")
        for batch in client.read("ORDERS", plan.first, plan.last):
            ...

A lost connection is an error (`BulkError.retryable`); whoever retries connects anew. Not for two threads at once, but
several reads may be under way on one client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from slipstream.bulk.errors import BulkError
from slipstream.bulk.fallback import ConsumerSource, DirectSource, created_ns, estimated_plan
from slipstream.bulk.link import BulkLink
from slipstream.bulk.options import ConnectOptions
from slipstream.bulk.probe import offers_bulk
from slipstream.bulk.reading import ArrowReader, RecordSource, WantedRange
from slipstream.bulk.source import BulkSource
from slipstream.bulk.values import Fence, Plan, Split, StreamIdentity
from slipstream.bulk.writing import CommitResult, StagedPart, StageWriter, commit

__all__ = ["BulkClient", "connect"]

_DEFAULT_COLUMNS = ("stream", "seq", "ts", "subject", "headers", "payload")
_HOLD_NOT_FOUND = 30009
_HOLDER_MAX = 256  # characters
_REMEMBERED_MAX = 256
# What servers said, by their process and who asked: without bulk calls they say nothing, which takes a while to hear.
_offers_bulk: dict[tuple[str, ConnectOptions], bool] = {}
_TRANSPORTS = ("auto", "bulk", "direct", "consumer")


def connect(options: ConnectOptions) -> BulkClient:
    """Connect to a server.

    Raises:
        BulkError: none lets us in.
    """
    return BulkClient(options)


class BulkClient:
    """One connection for bulk calls."""

    def __init__(self, options: ConnectOptions) -> None:
        """Connect."""
        self.options = options
        self.link = BulkLink(options)
        """What it talks over: for calls that have no method here."""
        self._offers_bulk: bool | None = None

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connection; reads under way end with an error."""
        self.link.close()

    # --- what is there ----------------------------------------------------------------------------------------------

    @property
    def is_slipstream(self) -> bool:
        """Whether the server offers bulk calls to us: asked once a process. A refused permission counts as no."""
        if self._offers_bulk is None:
            key = (self.link.server, self.options)
            if key not in _offers_bulk:
                if len(_offers_bulk) >= _REMEMBERED_MAX:
                    _offers_bulk.clear()
                _offers_bulk[key] = offers_bulk(self.link)
            self._offers_bulk = _offers_bulk[key]
        return self._offers_bulk

    def stream_info(self, stream: str) -> dict[str, Any]:
        """The answer of STREAM.INFO, with `identity` added: see `StreamIdentity`.

        Raises:
            BulkError: there is no such stream, or no answer.
        """
        info = self.link.request(f"STREAM.INFO.{_name(stream)}")
        info["identity"] = str(self._identity(stream, info))
        return info

    def bulk_info(self, stream: str) -> dict[str, Any]:
        """The answer of BULK.INFO: identity, first and last committed sequence."""
        return self.link.request(f"BULK.INFO.{_name(stream)}")

    # --- reading ----------------------------------------------------------------------------------------------------

    def plan(
        self,
        stream: str,
        first: int = 1,
        last: int | None = None,
        *,
        subjects: Sequence[str] = (),
        start_time_ns: int | None = None,
        end_time_ns: int | None = None,
        max_msgs: int | None = None,
        max_bytes: int | None = None,
        partitions: int | None = None,
        target_bytes: int = 128 << 20,
        min_rows: int = 50_000,
        identity: str | None = None,
        transport: str = "auto",
    ) -> Plan:
        """Cut committed messages into pieces of about equal size.

        Args:
            stream: its name.
            first: first sequence.
            last: last sequence, inside; None for the last committed one.
            subjects: filters with or without wildcards; empty for all.
            start_time_ns: only messages stored at or after this time.
            end_time_ns: only messages stored before this time.
            max_msgs: end the range before it has more messages than this.
            max_bytes: end the range before it has more bytes than this; it has at least one message.
            partitions: pieces, if there are as many messages; else the next two decide.
            target_bytes: size of a piece.
            min_rows: no more pieces than leave each this many messages.
            identity: refuse if the stream is another one.
            transport: as for `read`.

        Raises:
            BulkError: the server refused, or `last` is not committed (retryable).
        """
        wanted = WantedRange(_name(stream), first, last or 0, tuple(subjects), start_time_ns, end_time_ns, identity)
        if self._transport(transport) != "bulk":
            info = self.stream_info(stream)
            _check_identity(stream, identity, info["identity"])
            return estimated_plan(
                self.link,
                wanted,
                info,
                last=last,
                max_msgs=max_msgs,
                max_bytes=max_bytes,
                partitions=partitions,
                target_bytes=target_bytes,
                min_rows=min_rows,
            )
        body: dict[str, object] = {
            "first": first,
            "last": last,
            "subjects": list(subjects),
            "start_time_ns": start_time_ns,
            "end_time_ns": end_time_ns,
            "max_msgs": max_msgs,
            "max_bytes": max_bytes,
            "partitions": partitions,
            "target_bytes": target_bytes,
            "min_rows": min_rows,
            "identity": identity,
        }
        found = self.link.request(f"BULK.PLAN.{stream}", body)
        return Plan(
            stream=stream,
            identity=found["identity"],
            first=found["first"],
            last=found["last"],
            messages=found["messages"],
            bytes=found["bytes"],
            splits=[Split(*split) for split in found["splits"]],
            stream_first=found["first_seq"],
            stream_last=found["last_seq"],
        )

    def read(
        self,
        stream: str,
        first: int,
        last: int,
        *,
        subjects: Sequence[str] = (),
        start_time_ns: int | None = None,
        end_time_ns: int | None = None,
        columns: Sequence[str] = _DEFAULT_COLUMNS,
        headers: str = "map",
        batch_rows: int = 65_536,
        batch_bytes: int = 1 << 20,
        identity: str | None = None,
        transport: str = "auto",
        fail_on_data_loss: bool = True,
        expect_messages: int | None = None,
    ) -> ArrowReader:
        """Read messages as Arrow record batches. Nothing is sent before the first batch is asked for.

        Args:
            stream: its name.
            first: first sequence.
            last: last sequence, inside; it must be committed.
            subjects: filters with or without wildcards; empty for all.
            start_time_ns: only messages stored at or after this time.
            end_time_ns: only messages stored before this time.
            columns: see `slipstream.bulk.arrow.ALL_COLUMNS`.
            headers: whether the column `headers` is a `map`, `raw` bytes (then it is called `hdr_raw`) or `none`.
            batch_rows: rows of a batch at most.
            batch_bytes: bytes of records in a batch at most, unless one message is larger.
            identity: refuse if the stream is another one.
            transport: `bulk`, `direct` (direct gets in batches), `consumer` (an ephemeral one), or `auto`: the first of
                these that works here.
            fail_on_data_loss: damaged messages are an error that names them; else they are skipped.
            expect_messages: an error if there are not as many, which means that some were removed since they were
                counted.

        Raises:
            BulkError: from the iterator. It never ends early without one.
        """
        from slipstream.bulk.arrow import wanted_columns

        names = wanted_columns(columns, headers)
        wanted = WantedRange(
            _name(stream),
            first,
            last,
            tuple(subjects),
            start_time_ns,
            end_time_ns,
            identity,
            fail_on_data_loss,
            expect_messages,
        )
        source = self._source(wanted, transport, files=True)
        return ArrowReader(source, wanted, names, batch_rows=batch_rows, batch_bytes=batch_bytes)

    def read_records(
        self,
        stream: str,
        first: int,
        last: int,
        *,
        subjects: Sequence[str] = (),
        identity: str | None = None,
        transport: str = "auto",
    ) -> Iterator[bytes]:
        """Read messages as raw records (docs/internals/bulk.md), for copies and audits. Checksums are verified.

        Raises:
            BulkError: from the iterator, as for `read`.
        """
        from slipstream.kernels.bulk.arrowrows import RowDecoder

        wanted = WantedRange(_name(stream), first, last, tuple(subjects), identity=identity)
        source = self._source(wanted, transport)
        if not source.exact and len(subjects) > 1:
            source.close()
            raise BulkError("raw records with several filters need a server with bulk reads")
        decoder = RowDecoder(())
        try:
            for chunk in source:
                at = 0
                while at < len(chunk):
                    at = decoder.feed(chunk, at)
                    decoder.take()
                if decoder.damaged:
                    raise BulkError(f"message {decoder.damaged[0]} of {stream} is damaged", seqs=decoder.damaged)
                yield bytes(chunk)
            source.check(decoder.records, decoder.crc, decoder.damaged)
        except ValueError as error:
            raise BulkError(f"the server sent bytes that are no records: {error}", retryable=True) from error
        finally:
            source.close()

    # --- holding ----------------------------------------------------------------------------------------------------

    def hold(self, stream: str, first: int, *, ttl_s: float = 600, hold_id: str | None = None, by: str = "") -> str:
        """Keep messages from `first` on, whatever limits, age and acknowledgements say, until released or too late.

        What users purge or delete goes all the same. A hold does not outlive the server. With `hold_id` one that exists
        is renewed, and moved to `first`. `by` says who holds, to those who look at the stream.

        Returns:
            The id of the hold.

        Raises:
            BulkError: there are too many, or the one to renew is gone (then `read` with `expect_messages` tells whether
                messages are).
        """
        self._need_bulk()
        body: dict[str, object] = {"first": first, "ttl_s": ttl_s, "id": hold_id or ""}
        if by:
            body["by"] = by[:_HOLDER_MAX]
        return str(self.link.request(f"BULK.HOLD.{_name(stream)}", body)["id"])

    def release(self, stream: str, hold_id: str) -> bool:
        """End a hold; False when it was gone already."""
        try:
            self.link.request(f"BULK.RELEASE.{_name(stream)}", {"id": hold_id})
        except BulkError as error:
            if error.err_code != _HOLD_NOT_FOUND:
                raise
            return False
        return True

    # --- writing ----------------------------------------------------------------------------------------------------

    def stage(
        self,
        stream: str,
        txn: str,
        *,
        part: int = 0,
        attempt: int = 0,
        subject: str | None = None,
        keep_s: int | None = None,
    ) -> StageWriter:
        """Begin to stage a part of a transaction.

        Args:
            stream: its name.
            txn: names the transaction: batches of it are committed in order, each once.
            part: number of the part, for whoever looks; the commit says which parts count, and in which order.
            attempt: number of the attempt to write this part.
            subject: of every message; else the column `subject` says.
            keep_s: so long the server keeps the part if nobody commits it, from 60 to 86,400 seconds; by default a day.

        Raises:
            BulkError: the server refused, or has no bulk calls.
        """
        self._need_bulk()
        return StageWriter(self.link, _name(stream), txn, part, attempt, subject, keep_s)

    def commit(
        self,
        stream: str,
        txn: str,
        batch_id: int,
        parts: Sequence[StagedPart],
        *,
        identity: str | None = None,
        brief: bool = False,
        after: int | None = None,
        copied: bool = False,
    ) -> CommitResult:
        """Turn staged parts into messages, in the order given: all of them, once, or none.

        A batch whose number is not above that of the last one committed in this transaction adds nothing and is
        answered as a duplicate, however often and after whatever restart it is repeated. A `brief` transaction has
        this one batch: when some hundred others have followed, the server forgets it.

        Two writers of one transaction say `after`: the batch that must be the last one so far, or -1 for none; of both
        one is refused (`FENCE_MOVED`). With `copied` the messages are those of another stream: message ids, conditions
        and roll-ups in their headers were for that stream, and are kept without effect.

        Raises:
            BulkError: nothing was committed, unless it is retryable: then it may have been, and the same call tells.
        """
        self._need_bulk()
        return commit(self.link, _name(stream), txn, batch_id, parts, identity, brief=brief, after=after, copied=copied)

    def fence(self, stream: str, txn: str) -> Fence | None:
        """What a transaction has committed last; None if nothing.

        Raises:
            BulkError: the server refused, or has no bulk calls.
        """
        self._need_bulk()
        found = self.link.request(f"BULK.FENCE.{_name(stream)}", {"txn": txn})
        if found["batch_id"] < 0:
            return None
        return Fence(found["batch_id"], found["first_seq"], found["last_seq"], found["count"], found.get("offered"))

    def abort(self, stream: str, txn: str) -> int:
        """Forget what was staged and not committed; how many parts that were."""
        return int(self.link.request(f"BULK.ABORT.{_name(stream)}", {"txn": txn})["parts"])

    # --- inside -----------------------------------------------------------------------------------------------------

    def _source(self, wanted: WantedRange, transport: str, *, files: bool = False) -> RecordSource:
        chosen = self._transport(transport)
        if chosen == "bulk":
            return BulkSource(self.link, wanted, files=files)
        info = self.stream_info(wanted.stream)
        _check_identity(wanted.stream, wanted.identity, info["identity"])
        if wanted.last > info["state"]["last_seq"]:
            raise BulkError(
                f"sequence {wanted.last} of {wanted.stream} is not there, the last one is {info['state']['last_seq']}",
                retryable=True,
            )
        if chosen == "direct" or (chosen == "auto" and info["config"].get("allow_direct")):
            return DirectSource(self.link, wanted)
        return ConsumerSource(self.link, wanted)

    def _transport(self, transport: str) -> str:
        if transport not in _TRANSPORTS:
            raise BulkError(f"transport must be one of {', '.join(_TRANSPORTS)}, not {transport!r}")
        if transport == "bulk":
            self._need_bulk()
        elif transport == "auto" and self.is_slipstream:
            return "bulk"
        return transport

    def _need_bulk(self) -> None:
        if not self.is_slipstream:
            raise BulkError("no bulk calls here: the server has none, or does not permit them to us")

    def _identity(self, stream: str, info: dict[str, Any]) -> StreamIdentity:
        if self.is_slipstream:
            return StreamIdentity.parse(self.bulk_info(stream)["identity"])
        return StreamIdentity(created_ns(info))


def _name(stream: str) -> str:
    """A stream's name, which becomes part of subjects."""
    if not stream or any(char in stream for char in " \t\r\n.*>/\\"):
        raise BulkError(f"not the name of a stream: {stream!r}")
    return stream


def _check_identity(stream: str, asked: str | None, found: str) -> None:
    if asked is not None and asked != found:
        raise BulkError(f"{stream} is not the stream asked for: it is {found}", err_code=30005)
