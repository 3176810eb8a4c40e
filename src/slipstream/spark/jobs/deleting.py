"""Deleting many messages of a stream, each by its sequence and with its bytes, without waiting for each answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Final

from slipstream.bulk import BulkError
from slipstream.bulk.link import answer
from slipstream.client.wire import Message
from slipstream.jetstream.errors_table import NO_MESSAGE_FOUND, SEQUENCE_NOT_FOUND
from slipstream.spark.jobs.ranges import again, reason
from slipstream.spark.jobs.report import Say, counted
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.runtime.connection import Connection, get_connection
from slipstream.spark.runtime.target import Reach

__all__ = ["delete_messages"]

_IN_FLIGHT: Final = 256
# Somebody has deleted it already. A number of its own for that exists for some places only; elsewhere the text tells it
# from a refusal, as of a stream that denies deletions.
_NOT_FOUND: Final = (NO_MESSAGE_FOUND.err_code, SEQUENCE_NOT_FOUND.err_code)
_NOT_FOUND_TEXT: Final = ("no message found", "stream store EOF")
_SAY_EACH: Final = 10_000


def delete_messages(reach: Reach, stream: str, sequences: Sequence[int], say: Say) -> None:
    """Delete messages; those that are gone already are no error.

    Raises:
        JobError: one could not be deleted.
    """
    left = dict.fromkeys(sequences)

    def delete() -> None:
        _delete_some(get_connection(reach), stream, left, len(sequences), say)

    try:
        again(reach, delete)
    except BulkError as error:
        raise JobError(f"{counted(len(left), 'message')} of {stream} could not be erased: {reason(error)}") from error


def _delete_some(connection: Connection, stream: str, left: dict[int, None], total: int, say: Say) -> None:
    """Delete all that is left; what was answered is taken from `left`, so that the rest can be tried again."""
    link = connection.client.link
    call = f"STREAM.MSG.DELETE.{stream}"
    inbox = link.open_inbox(wildcard=True)
    to_send, waiting = iter(list(left)), 0
    try:
        while left:
            for sequence in islice(to_send, _IN_FLIGHT - waiting):
                body = json.dumps({"seq": sequence}).encode()
                link.publish(link.prefix + call, body, reply=f"{inbox.subject}.{sequence}")
                waiting += 1
            message = link.next(inbox)
            _check(call, message)
            del left[int(message.subject.rpartition(".")[2])]
            waiting -= 1
            done = total - len(left)
            if done % _SAY_EACH == 0 or not left:
                say(f"{stream}: {done:,} of {counted(total, 'message')} erased")
    finally:
        link.close_inbox(inbox)


def _check(call: str, message: Message) -> None:
    if message.header.startswith(b"NATS/1.0 503"):
        raise BulkError("JetStream is not available here", retryable=True)
    try:
        answer(call, message.payload)
    except BulkError as error:
        if error.err_code not in _NOT_FOUND and not str(error).endswith(_NOT_FOUND_TEXT):
            raise
