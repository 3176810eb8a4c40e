"""Long-lived subscriptions: messages one after the other, across lost connections.

A lost connection is reported on standard error and made again, with growing pauses, until somebody stops the program;
the subscriptions are made again with it. What was published in between is lost, as core NATS has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from slipstream.cli.connection import Session
from slipstream.cli.link import ClientLink
from slipstream.cli.render import note
from slipstream.client.wire import ClientTimeout, ConnectionLost, Message
from slipstream.units import SECOND_NS

__all__ = ["connect_again", "listen"]

_PAUSE_S: Final = 0.25
_PAUSE_MAX_S: Final = 4.0
_POLL_NS: Final = SECOND_NS  # so long until the program looks whether it is time to stop


def listen(
    session: Session,
    prepare: Callable[[ClientLink], None],
    *,
    ready: Callable[[], None] = lambda: None,
    wait_ns: int = 0,
    is_traffic: Callable[[Message], bool] = lambda _: True,
) -> Iterator[tuple[ClientLink, Message]]:
    """Messages as they come, each with the connection to answer on.

    Args:
        session: where to connect.
        prepare: subscribes; called once for every connection.
        ready: called once, when the server knows the subscriptions of the first connection.
        wait_ns: stop after so long without a message; 0 for never.
        is_traffic: whether a message counts for that.
    """
    link = session.link()
    prepare(link)
    link.client.flush()
    ready()
    heard_ns = time.monotonic_ns()
    while True:
        try:
            message = link.client.next_message(min(wait_ns, _POLL_NS) or _POLL_NS)
        except ClientTimeout:
            if wait_ns and time.monotonic_ns() - heard_ns >= wait_ns:
                return
            continue
        except ConnectionLost as error:
            note(f"Disconnected: {error}")
            link = connect_again(session, prepare)
            continue
        if is_traffic(message):
            heard_ns = time.monotonic_ns()
        yield link, message


def connect_again(session: Session, prepare: Callable[[ClientLink], None] = lambda _: None) -> ClientLink:
    """A new connection after a lost one, however long it takes to get it."""
    session.close()
    pause = _PAUSE_S
    while True:
        time.sleep(pause)
        pause = min(pause * 2, _PAUSE_MAX_S)
        try:
            link = session.link()
            prepare(link)
            link.client.flush()
        except ConnectionLost:
            session.close()
            continue
        note(f"Reconnected to {link.client.info.server_name or link.client.info.server_id}")
        return link
