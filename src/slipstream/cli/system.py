"""Questions to all servers over the system account: `$SYS.REQ.SERVER.PING.<what>`, answered by each server once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from slipstream.cli.connection import Failure
from slipstream.cli.link import ClientLink, Reply
from slipstream.client.wire import ClientTimeout, NoResponders
from slipstream.units import MILLISECOND_NS

__all__ = [
    "answers_of",
    "ask_all",
    "ask_server",
    "ask_servers",
    "choice_flags",
    "chosen_servers",
    "compact_flag",
    "one_server",
    "server_flags",
    "shown_names",
    "watch_flag",
]

_F = TypeVar("_F", bound=Callable[..., Any])

_GAP_NS: Final = 300 * MILLISECOND_NS  # servers that answer at all answer within this of each other
_NO_RIGHT: Final = "no server answers: this needs a user of the system account, as --user and --password or a context"


def choice_flags(command: _F) -> _F:
    """Flags that say which servers are asked."""
    for flag in (
        click.option("--tags", multiple=True, help="Only servers with this tag; may be repeated."),
        click.option("--cluster", default="", help="Only servers of this cluster."),
        click.option("--host", default="", help="Only servers with this in their host."),
    ):
        command = flag(command)
    return command


def watch_flag(command: _F) -> _F:
    """`--watch`: what a report shows once it shows again and again, until somebody stops it."""

    @click.option("--watch", type=click.IntRange(min=1), metavar="SECONDS", help="Show it again every so many seconds.")
    @wraps(command)
    def shown(*args: Any, watch: int | None, **given: Any) -> None:
        if watch is None:
            command(*args, **given)
            return
        with suppress(KeyboardInterrupt):
            while True:
                click.clear()  # nothing where the output is no terminal
                command(*args, **given)
                click.get_current_context().obj.link().idle(watch)

    return cast(_F, shown)


def chosen_servers(given: dict[str, Any]) -> Reply:
    """What these flags ask for, as servers read it."""
    fields = {"host": given["host"], "cluster": given["cluster"], "tags": list(given["tags"])}
    return {name: value for name, value in fields.items() if value}


def server_flags(command: _F) -> _F:
    """Which servers are asked for a report, how many answers are waited for, and how often."""
    return click.argument("limit", type=click.IntRange(min=0), default=0)(choice_flags(watch_flag(command)))


def compact_flag(command: _F) -> _F:
    """`--compact`, which is on, and `--no-compact`."""
    about = "Leave out the end that all names of servers have in common, which is done unless --no-compact is said."
    return click.option("--compact/--no-compact", default=True, help=about)(command)


def shown_names(names: Sequence[str], *, compact: bool) -> dict[str, str]:
    """How names of servers are shown: without the last tokens, if all have the same; the first one stays."""
    tokens = [name.split(".") for name in names]
    same = 0
    if compact and tokens:
        most = min(len(each) for each in tokens) - 1
        while same < most and len({each[-1 - same] for each in tokens}) == 1:
            same += 1
    return {name: ".".join(each[: len(each) - same]) for name, each in zip(names, tokens, strict=True)}


def answers_of(link: ClientLink, what: str, options: Reply, given: dict[str, Any]) -> list[Reply]:
    """The answers of the servers that `server_flags` choose, by their names."""
    asked = options | chosen_servers(given)
    return [answer for answer, _ in ask_servers(link, what, asked, expected=given["limit"])]


def ask_servers(
    link: ClientLink, what: str, body: Reply | None = None, *, expected: int = 0, timeout_ns: int = 0
) -> list[tuple[Reply, int]]:
    """The answers of all servers to `VARZ`, `CONNZ`, `JSZ`, ..., or to the plain ping (`""`).

    Args:
        link: a connection of the system account.
        what: the name of the endpoint.
        body: its options.
        expected: stop after so many answers; 0 waits until no more come.
        timeout_ns: so long it waits for the first, if not as long as for other requests.

    Returns:
        Answers with their round trip times in nanoseconds, by server name.

    Raises:
        Failure: none answers.
    """
    subject = f"$SYS.REQ.SERVER.PING.{what}" if what else "$SYS.REQ.SERVER.PING"
    return ask_all(link, subject, body, expected=expected, timeout_ns=timeout_ns)


def ask_all(
    link: ClientLink, subject: str, body: Reply | bytes | None = None, *, expected: int = 0, timeout_ns: int = 0
) -> list[tuple[Reply, int]]:
    """The same for a subject that every server answers; the body may be something else than JSON."""
    client = link.client
    inbox = client.new_inbox()
    sid = client.subscribe(inbox)
    started_ns = time.monotonic_ns()
    client.publish(subject, body if isinstance(body, bytes) else json.dumps(body or {}).encode(), reply=inbox)
    answers: list[tuple[Reply, int]] = []
    wait_ns = timeout_ns or link.settings.timeout_ns
    while not expected or len(answers) < expected:
        try:
            message = client.next_message(wait_ns)
        except ClientTimeout:
            break
        if message.header.startswith(b"NATS/1.0 503"):
            break
        answers.append((_read(message.payload), time.monotonic_ns() - started_ns))
        wait_ns = _GAP_NS
    client.unsubscribe(sid)
    if not answers:
        raise Failure(_NO_RIGHT)
    return sorted(answers, key=lambda answer: str(answer[0]["server"]["name"]))


def one_server(link: ClientLink, what: str, name: str, body: Reply | None = None) -> Reply:
    """The answer of the server called `name` (or the connected one).

    Raises:
        Failure: it does not answer.
    """
    here = link.client.info
    is_here = name in ("", here.server_name, here.server_id)
    return ask_server(link, here.server_id if is_here else _server_id(link, name), what, body)


def ask_server(link: ClientLink, server_id: str, what: str, body: Reply | None = None) -> Reply:
    """The answer of a server whose id is known.

    Raises:
        Failure: it does not answer, or refuses.
    """
    try:
        message = link.request(f"$SYS.REQ.SERVER.{server_id}.{what}", json.dumps(body or {}).encode())
    except (NoResponders, ClientTimeout):
        raise Failure(_NO_RIGHT) from None
    return _read(message.payload)


def _server_id(link: ClientLink, name: str) -> str:
    for answer, _ in ask_servers(link, ""):
        if name in (answer["server"]["name"], answer["server"]["id"]):
            return str(answer["server"]["id"])
    raise Failure(f"no server called {name!r} answers")


def _read(payload: bytes) -> Reply:
    answer: Reply = json.loads(payload)
    if answer.get("error"):
        raise Failure(f"{answer['server']['name']}: {answer['error']['description']}")
    return answer
