"""STREAM.VERIFY: whether the files of a tamper-evident stream are what was written (ADR 64)."""

from __future__ import annotations

from typing import Final

import msgspec

from slipstream.errors import StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.chains import ChainHead, ChainReport
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.stream import Stream

__all__ = ["VerifyApi", "report_fields"]

_WAITING_MAX: Final = 4  # checks of one account at a time: each reads a whole stream


class _Place(msgspec.Struct):
    """A place in a chain, as a checkpoint has it."""

    records: int
    link: str
    last_seq: int


class _Asked(msgspec.Struct):
    checkpoint: _Place | None = None


class VerifyApi:
    """Handlers about hash chains."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register the handlers."""
        self._account = account
        self._waiting: list[Stream] = []  # whose files are read, or will be
        account.on_stopped.append(self._stopped)
        api.register("STREAM.VERIFY.*", "stream_verify_response", self.verify)

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
        }
    if report.broken is not None:
        broken = report.broken
        fields["broken"] = {"first_seq": broken.first_seq, "last_seq": broken.last_seq, "problem": broken.problem}
    if report.unlinked is not None:
        fields["unlinked"] = {"first_seq": report.unlinked[0], "last_seq": report.unlinked[1]}
    return fields
