"""`slipstream audit`: administrative actions as the server wrote them down, those that were refused too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from slipstream.cli.connection import EndlessCommand, Failure, Session
from slipstream.cli.human import format_time, to_rfc3339, visible
from slipstream.cli.link import ApiRefusal, Reply
from slipstream.cli.pulling import Feed
from slipstream.cli.render import note
from slipstream.cli.types import DURATION
from slipstream.units import SECOND_NS

__all__ = ["audit"]

_STREAM: Final = "SLIPSTREAM_AUDIT"
_NO_TRAIL: Final = (10039, 10059)  # JetStream is off for the account; there is no such stream


@click.command(cls=EndlessCommand)
@click.option("--since", type=DURATION, default=0, help="Only the last while, such as 2h.")
@click.option("--user", metavar="USER", default="", help="Only what this user did.")
@click.option("--account", metavar="ACCOUNT", default="", help="Only in this account.")
@click.option("--stream", "about", metavar="STREAM", default="", help="Only about this stream and its consumers.")
@click.option("--action", metavar="ACTION", default="", help="Only these, such as stream.delete, or stream.")
@click.option("--failed", is_flag=True, help="Only what was refused, or went wrong.")
@click.option("--follow", "-f", is_flag=True, help="Go on with actions as they happen.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print records as they are, one a line.")
@click.pass_obj
def audit(
    session: Session,
    since: int,
    user: str,
    account: str,
    about: str,
    action: str,
    failed: bool,
    follow: bool,
    count: int,
    as_json: bool,
) -> None:
    """Show administrative actions: when, who, from where, what, and with which result.

    The server has to write them down (`jetstream { audit: true }`), and you have to be in the system account.
    """
    wanted = {"account": account, "stream": about}
    config: Reply = {"deliver_policy": "all"}
    if action:
        config["filter_subject"] = f"$SLIPSTREAM.AUDIT.{action}" + ("" if "." in action else ".>")
    if since:
        start = datetime.now(UTC) - timedelta(seconds=since / SECOND_NS)
        config |= {"deliver_policy": "by_start_time", "opt_start_time": to_rfc3339(start)}
    shown = 0
    for record in _records(session, config, follow=follow):
        client = record.get("client", {})
        if any(value and record.get(name) != value for name, value in wanted.items()):
            continue
        if (user and client.get("user") != user) or (failed and record.get("result") == "ok"):
            continue
        shown += 1
        click.echo(json.dumps(record) if as_json else _line(record))
        if shown == count:
            break
    if not shown and not as_json:
        note("No actions found")


def _records(session: Session, config: Reply, *, follow: bool) -> Iterator[Reply]:
    feed = Feed(session, _STREAM, config=config)
    try:
        feed.open()
    except ApiRefusal as refusal:
        if refusal.err_code not in _NO_TRAIL:
            raise
        hint = "the server needs `audit: true` in `jetstream`, and you a user of the system account"
        raise Failure(f"there is no audit trail to read here: {hint}") from refusal
    try:
        if not feed.pending and not follow:
            return
        for _, message in feed:
            yield json.loads(message.payload)
            if not feed.pending and not follow:
                return
    finally:
        feed.close()


def _line(record: Reply) -> str:
    """One action for people."""
    client = record.get("client", {})
    who = client.get("user") or client.get("name") or ("somebody" if client else "-")
    where = f"{client['host']} cid {client.get('id', 0)}" if client.get("host") else "the server itself"
    names = [record[name] for name in ("account", "stream", "consumer", "target") if record.get(name)]
    error = record.get("error", {})
    code = error.get("err_code") or error.get("code", 0)
    result = f"refused: {error.get('description', '')} ({code})" if error else "ok"
    text = f"{record['action']} {' > '.join(names)} by {who} from {where}: {result}"
    return f"[{format_time(record['timestamp'])}] {visible(text)}"
