"""What a stream makes of a message that is traced, for the `js` event of the trace.

The words of a refusal are those of nats-server, which tells a trace something else than the publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers

if TYPE_CHECKING:
    from slipstream.jetstream.stream.admission.ingest import Ingest

__all__ = ["REPEATED", "TracedStream"]

REPEATED: Final = "msgid is duplicate"
_WORDS: Final = {
    table.STREAM_MESSAGE_EXCEEDS_MAXIMUM.err_code: "maximum payload exceeded",
    table.STREAM_NOT_MATCH.err_code: "expected stream does not match",
    table.MESSAGE_TTL_DISABLED.err_code: "message TTL disabled",
    table.STREAM_ROLLUP_FAILED.err_code: "rollup not permitted",
}


class TracedStream:
    """A stream as traces see it. Implements `accounts.account.MessageTaker`."""

    def __init__(self, name: str, ingest: Ingest) -> None:
        """The stream of this name, which takes messages by `ingest`."""
        self.name = name
        self._ingest = ingest

    def take(
        self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes, *, only: bool
    ) -> tuple[bytes, bool, str]:
        """Store a message, or with `only` find out what would become of it.

        Returns the subject it is stored under, whether it is not because nobody wants it, and why it is refused.
        """
        ingest = self._ingest
        if only:
            outcome = ingest.judged(subject, header, payload)
        else:
            # What consumers get must not be traced again.
            header = headers.put(header, b"Nats-Trace-Dest", b"trace disabled")
            outcome = ingest.told(subject, reply, header, payload)
        appends = ingest.appends
        stored = appends.stored_under(subject)
        unwanted = appends.rules.settings.interest_only and not appends.view.has_interest(stored)
        if outcome is None:
            return stored, unwanted, ""
        if isinstance(outcome, str):
            return b"", False, outcome
        if outcome.err_code == table.STREAM_STORE_FAILED.err_code:
            return stored, unwanted, outcome.description
        return b"", False, _words(outcome, header)


def _words(error: ApiError, header: bytes) -> str:
    if error.err_code == table.STREAM_WRONG_LAST_SEQUENCE.err_code:
        actual = error.description.rpartition(" ")[2]
        expected = headers.find(header, b"Nats-Expected-Last-Subject-Sequence")
        if expected:
            return f"last sequence by subject mismatch: {expected.decode('utf-8', 'replace')} vs {actual}"
        expected = headers.find(header, b"Nats-Expected-Last-Sequence") or b""
        return f"last sequence mismatch: {expected.decode('utf-8', 'replace')} vs {actual}"
    if error.err_code == table.STREAM_WRONG_LAST_MSG_ID.err_code:
        expected = headers.find(header, b"Nats-Expected-Last-Msg-Id") or b""
        actual = error.description.partition(": ")[2]
        return f'last msgid mismatch: "{expected.decode("utf-8", "replace")}" vs "{actual}"'
    return _WORDS.get(error.err_code) or f"{error.description} ({error.err_code})"
