"""Whether whoever answers the API has bulk calls: those of nats-server are silent, and so is a cluster that elects."""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

from slipstream.bulk.errors import BulkError
from slipstream.bulk.link import BulkLink, Inbox
from slipstream.units import MILLISECOND_NS, SECOND_NS

__all__ = ["offers_bulk"]

_GRACE_NS = 250 * MILLISECOND_NS  # a server further away may answer this much later than the one we talk to
_BUSY_NS = 2 * SECOND_NS  # one of ours does answer, but may have much to do
_SILENT_ROUNDS: Final = 2  # the first question may have gone to a leader that was dying


def offers_bulk(link: BulkLink) -> bool:
    """Ask for the bulk information of a stream nobody has: a server with bulk calls answers, if only that.

    One of ours may be a leaf node of a nats-server that keeps the streams. So its silence counts where another call is
    answered at the same time; a busy server answers late, but in the order in which it was asked.

    Raises:
        BulkError: the connection is gone, or a server of ours says nothing at all: a moment later it may.
    """
    wait_ns = min(_BUSY_NS, link.timeout_ns) if link.is_one_of_ours else _GRACE_NS
    bulk, other = link.open_inbox(), link.open_inbox()
    deadline, silent = monotonic_ns() + link.timeout_ns, 0
    try:
        while True:
            found = _ask(link, "BULK.INFO.-", bulk, wait_ns)
            if found is None and not link.is_one_of_ours:
                return False
            if found is None:
                answered = _ask(link, "INFO", other, wait_ns)
                found = bulk.messages.popleft().payload if bulk.messages else None
                silent += answered is not None and b'"error"' not in answered
            if found is not None:
                return b"bulk_info_response" in found
            if silent >= _SILENT_ROUNDS:
                return False
            if monotonic_ns() > deadline:
                raise BulkError("JetStream does not answer", retryable=True)
    except BulkError as error:
        if error.retryable:
            raise
        return False
    finally:
        link.close_inbox(bulk)
        link.close_inbox(other)


def _ask(link: BulkLink, call: str, inbox: Inbox, wait_ns: int) -> bytes | None:
    """The answer, if it comes soon, or that to the same question before."""
    link.publish(link.prefix + call, reply=inbox.subject)
    link.flush()
    found = link.poll(inbox, wait_ns)
    return None if found is None else found.payload
