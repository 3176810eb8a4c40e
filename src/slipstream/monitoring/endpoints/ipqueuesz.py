"""/ipqueuesz: what waits inside the server, under the names that nats-server has for it.

Of nats-server's queues those are shown where something can wait here, too: requests to the system account, calls of the
JetStream API, and messages of each stream that are not committed.
"""

from __future__ import annotations

import msgspec

from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import UrlQuery

__all__ = ["IpqueueszOptions", "ipqueuesz", "ipqueuesz_options"]


class IpqueueszOptions(msgspec.Struct, kw_only=True):
    """Which queues: only those in use unless all are asked for, and only those with a text in their name."""

    all: bool = False
    filter: str = ""


class QueueInfo(msgspec.Struct):
    """One queue."""

    pending: int


def ipqueuesz_options(query: UrlQuery) -> IpqueueszOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return IpqueueszOptions(all=query.flag("all"), filter=query.text("queues"))


def ipqueuesz(facts: Facts, options: IpqueueszOptions) -> dict[str, QueueInfo]:
    """The server's inner queues by name."""
    lengths = {name: length() for name, length in facts.queues.items()}
    if facts.jetstream is not None and facts.jetstream.enabled:
        lengths.update(facts.jetstream.queues())
    shown = sorted(name for name, length in lengths.items() if options.filter in name and (options.all or length))
    return {name: QueueInfo(lengths[name]) for name in shown}
