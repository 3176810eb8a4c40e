"""`slipstream events`: advisories and metrics of JetStream, and events of servers, as they happen."""

from __future__ import annotations

import json
import re
import shutil
import sys
from datetime import datetime
from typing import Any, Final

import click

from slipstream.cli.connection import EndlessCommand, Session
from slipstream.cli.human import format_time, visible
from slipstream.cli.link import ClientLink
from slipstream.cli.listening import listen
from slipstream.cli.render import note
from slipstream.cli.types import list_option

__all__ = ["events"]

_SERVER_SUBJECTS: Final = (
    "$SYS.ACCOUNT.*.CONNECT",
    "$SYS.ACCOUNT.*.DISCONNECT",
    "$SYS.SERVER.*.CLIENT.AUTH.ERR",
    "$SYS.SERVER.*.SHUTDOWN",
)
_UNINTERESTING: Final = frozenset(("type", "id", "timestamp", "client", "server"))


@click.command(cls=EndlessCommand)
@click.option("--js-advisory/--no-js-advisory", default=True, help="Advisories of JetStream.")
@click.option("--js-metric/--no-js-metric", default=True, help="Metrics of JetStream, such as sampled acks.")
@click.option("--srv-advisory/--no-srv-advisory", default=False, help="Events of servers; needs the system account.")
@list_option("--subjects", "subjects", help="Other subjects too.")
@click.option("--all", "-a", "everything", is_flag=True, help="All of these.")
@click.option("--filter", "pattern", metavar="REGEX", default="", help="Only events in which this occurs.")
@click.option("--short", is_flag=True, help="A line for each event.")
@click.option("--count", type=int, default=0, help="Stop after this many events.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print events as they are, one a line.")
@click.pass_obj
def events(
    session: Session,
    js_advisory: bool,
    js_metric: bool,
    srv_advisory: bool,
    subjects: list[str],
    everything: bool,
    pattern: str,
    short: bool,
    count: int,
    as_json: bool,
) -> None:
    """Show what happens: streams and consumers made and removed, messages given up, damage found."""
    prefix = session.settings.event_prefix
    wanted = list(subjects)
    wanted += [f"{prefix}.ADVISORY.>"] if js_advisory or everything else []
    wanted += [f"{prefix}.METRIC.>"] if js_metric or everything else []
    wanted += _SERVER_SUBJECTS if srv_advisory or everything else ()

    def prepare(link: ClientLink) -> None:
        for subject in wanted:
            link.client.subscribe(subject)

    if not wanted:
        raise click.UsageError("Nothing to listen to: give --js-advisory, --js-metric, --srv-advisory or --subjects.")
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise click.UsageError(f"{pattern!r} is no regular expression: {error}") from error
    shown = 0
    for _, message in listen(session, prepare, ready=lambda: note(f"Listening on {', '.join(wanted)}")):
        text = message.payload.decode(errors="replace")
        if not expression.search(text):
            continue
        if as_json:
            click.echo(text)
        else:
            _print_event(message.subject, text, short=short)
        shown += 1
        if shown == count:
            return


def _print_event(subject: str, text: str, *, short: bool) -> None:
    """One line of what and where, then what the event says, without nesting where it can be avoided."""
    try:
        event: Any = json.loads(text)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        click.echo(f"{click.style(subject, fg='cyan')} {visible(text)}")
        return
    kind = str(event.get("type", subject)).rpartition(".")[2].replace("_", " ")
    moment = _moment(event)
    title = click.style(visible(kind or subject), bold=True)
    asked = event.get("subject") if short and kind == "api audit" else None
    click.echo(f"[{moment}] {title} {click.style(visible(str(asked or subject)), fg='cyan')}")
    if short:
        return
    for name, value in event.items():
        if name not in _UNINTERESTING:
            written = json.dumps(value) if isinstance(value, dict | list) else str(value)
            click.echo(_cut(visible(f"{name:>20}: {written}".replace("\n", " "))))
    who = event.get("client")
    if isinstance(who, dict):
        words = [who[field] for field in ("user", "name", "host") if isinstance(who.get(field), str)]
        click.echo(visible(f"{'client':>20}: {' '.join(words)}"))
    click.echo()


def _cut(line: str) -> str:
    """A line that a terminal shows as one; whole for other readers."""
    width = shutil.get_terminal_size().columns
    return f"{line[: width - 1]}…" if sys.stdout.isatty() and len(line) > width else line


def _moment(event: dict[str, Any]) -> str:
    """When it happened, or now for events that do not say it so that it can be read."""
    try:
        return format_time(str(event["timestamp"]))
    except (KeyError, ValueError):
        return datetime.now().strftime("%Y-%m-%d %H:%M:%S")
