"""STREAM.VERIFY and CHECKPOINT: is a tamper-evident stream what was written, and where does its chain end (ADR 64)."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.store.chains import ChainHead, ChainReport
from slipstream.jetstream.store.checkpoints import Checkpoint, Count, Link
from slipstream.jetstream.stream.commit.faults import fault_of, store_error
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Signer", "VerifyApi", "report_fields"]

_NO_CHAIN: Final = ErrorSpec(400, 30101, "stream has no hash chain")
_WAITING_MAX: Final = 4  # checks of one account at a time: each reads a whole stream


class _Place(msgspec.Struct):
    """A place in a chain, as a checkpoint has it."""

    records: Count
    link: Link
    last_seq: Count


class _Asked(msgspec.Struct):
    checkpoint: _Place | None = None


class Signer(Protocol):
    """The server's key. Its methods may block; they raise `StorageFault` where it cannot be used."""

    @property
    def public(self) -> str:
        """The public nkey."""
        ...

    def sign(self, text: bytes) -> str:
        """A signature in base64url."""
        ...


class VerifyApi:
    """Handlers about hash chains."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, signer: Signer | None) -> None:
        """Register the handlers; without a signer there are no checkpoints."""
        self._account = account
        self._signer = signer
        self._waiting: list[Stream] = []  # whose files are read, or will be
        account.on_stopped.append(self._stopped)
        api.register("STREAM.VERIFY.*", "stream_verify_response", self.verify)
        if signer is not None:
            api.register("STREAM.CHECKPOINT.*", "stream_checkpoint_response", self.checkpoint)

    def checkpoint(self, request: ApiRequest) -> None:
        """Where the chain of a stream stands with all that was received so far, signed."""
        stream = self._account.get_stream(request.names[0])
        if stream.store.chain_head is None:
            raise TableError(_NO_CHAIN)

        def committed(error: ApiError | None) -> None:
            head = stream.store.chain_head
            if error is not None or head is None:
                request.fail(error or TableError(_NO_CHAIN))
            else:
                self._sign(request, stream, head)

        stream.after_commit(committed)

    def _sign(self, request: ApiRequest, stream: Stream, head: ChainHead) -> None:
        signer = self._signer
        assert signer is not None
        plain = Checkpoint(
            account=self._account.name,
            stream=stream.name,
            identity=stream.store.bulk.uid,
            records=head.records,
            link=head.link.hex(),
            last_seq=head.last_seq,
            time=format_time(self._account.ports.now_ns()),
            server="",
        )
        made: Checkpoint | StorageFault = plain

        def sign() -> None:
            nonlocal made
            try:
                named = msgspec.structs.replace(plain, server=signer.public)
                made = msgspec.structs.replace(named, signature=signer.sign(named.signed_text))
            except Exception as error:
                made = fault_of(error)

        def signed() -> None:
            if isinstance(made, StorageFault):
                request.fail(store_error(made))
            else:
                request.respond({"stream": stream.name, "checkpoint": msgspec.structs.asdict(made)})

        self._account.ports.run_blocking(sign, signed)

    def verify(self, request: ApiRequest) -> None:
        """Read a stream's files and recompute its chain; answered when that is done."""
        stream = self._account.get_stream(request.names[0])
        try:
            asked = msgspec.json.decode(request.body, type=_Asked) if request.body.strip() else _Asked()
            place = asked.checkpoint
            wanted = ChainHead(place.records, bytes.fromhex(place.link), place.last_seq) if place else None
        except (msgspec.DecodeError, ValueError) as error:
            raise TableError(table.INVALID_JSON, err=str(error)) from error
        if len(self._waiting) >= _WAITING_MAX:
            raise TableError(table.INSUFFICIENT_RESOURCES)
        self._waiting.append(stream)

        def done(report: ChainReport | StorageFault) -> None:
            if stream in self._waiting:
                self._waiting.remove(stream)
            if isinstance(report, StorageFault):
                request.fail(store_error(report))
            else:
                request.respond({"stream": stream.name, **report_fields(report)})

        stream.verify(wanted, done)

    def _stopped(self, stream: Stream) -> None:
        self._waiting = [other for other in self._waiting if other is not stream]


def report_fields(report: ChainReport) -> dict[str, object]:
    """A report as it is answered, and printed."""
    fields: dict[str, object] = {"chained": report.chained, "intact": report.intact}
    if report.chained:
        fields |= {
            "identity": report.uid.hex(),
            "records": report.head.records,
            "link": report.head.link.hex(),
            "last_seq": report.head.last_seq,
            "removed_up_to": report.start.last_seq,
            "removed_records": report.start.records,
        }
    if report.broken is not None:
        broken = report.broken
        fields["broken"] = {"first_seq": broken.first_seq, "last_seq": broken.last_seq, "problem": broken.problem}
    if report.unlinked is not None:
        fields["unlinked"] = {"first_seq": report.unlinked[0], "last_seq": report.unlinked[1]}
    return fields
