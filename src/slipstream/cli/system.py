"""Questions to all servers over the system account: `$SYS.REQ.SERVER.PING.<what>`, answered by each server once."""

from __future__ import annotations

import json
import time
from typing import Final

from slipstream.cli.connection import Failure
from slipstream.cli.link import Link, Reply
from slipstream.client.wire import ClientTimeout
from slipstream.limits import MILLISECOND_NS

__all__ = ["ask_servers", "one_server"]

_GAP_NS: Final = 300 * MILLISECOND_NS  # servers that answer at all answer within this of each other
_NO_RIGHT: Final = "no server answers: this needs a user of the system account, as --user and --password or a context"


def ask_servers(link: Link, what: str, body: Reply | None = None, *, expected: int = 0) -> list[tuple[Reply, int]]:
    """The answers of all servers to `VARZ`, `CONNZ`, `JSZ`, ..., or to the plain ping (`""`).

    Args:
        link: a connection of the system account.
        what: the name of the endpoint.
        body: its options.
        expected: stop after so many answers; 0 waits until no more come.

    Returns:
        Answers with their round trip times in nanoseconds, by server name.

    Raises:
        Failure: none answers.
    """
    client = link.client
    inbox = client.new_inbox()
    sid = client.subscribe(inbox)
    started_ns = time.monotonic_ns()
    subject = f"$SYS.REQ.SERVER.PING.{what}" if what else "$SYS.REQ.SERVER.PING"
    client.publish(subject, json.dumps(body or {}).encode(), reply=inbox)
    answers: list[tuple[Reply, int]] = []
    wait_ns = link.settings.timeout_ns
    while not expected or len(answers) < expected:
        try:
            message = client.next_message(wait_ns)
        except ClientTimeout:
            break
        if message.header.startswith(b"NATS/1.0 503"):
            break
        answers.append((json.loads(message.payload), time.monotonic_ns() - started_ns))
        wait_ns = _GAP_NS
    client.unsubscribe(sid)
    if not answers:
        raise Failure(_NO_RIGHT)
    return sorted(answers, key=lambda answer: str(answer[0]["server"]["name"]))


def one_server(link: Link, what: str, name: str) -> Reply:
    """The answer of the server called `name` (or the connected one).

    Raises:
        Failure: it does not answer.
    """
    wanted = name or link.client.info.server_id
    for answer, _ in ask_servers(link, what):
        if wanted in (answer["server"]["name"], answer["server"]["id"]):
            return answer
    raise Failure(f"no server called {wanted!r} answers")
