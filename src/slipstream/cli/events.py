"""`slipstream events`: advisories and metrics of JetStream, and events of servers, as they happen."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_time
from slipstream.cli.link import Link
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


@click.command(cls=Command)
@click.option("--js-advisory/--no-js-advisory", default=True, help="Advisories of JetStream.")
@click.option("--js-metric/--no-js-metric", default=True, help="Metrics of JetStream, such as sampled acks.")
@click.option("--srv-advisory/--no-srv-advisory", default=False, help="Events of servers; needs the system account.")
@list_option("--subjects", "subjects", help="Other subjects too.")
@click.option("--all", "-a", "everything", is_flag=True, help="All of these.")
@click.option("--count", type=int, default=0, help="Stop after so many.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print events as they are, one a line.")
@click.pass_obj
def events(
    session: Session,
    js_advisory: bool,
    js_metric: bool,
    srv_advisory: bool,
    subjects: list[str],
    everything: bool,
    count: int,
    as_json: bool,
) -> None:
    """Show what happens: streams and consumers made and removed, messages given up, damage found."""
    prefix = session.settings.event_prefix
    wanted = list(subjects)
    wanted += [f"{prefix}.ADVISORY.>"] if js_advisory or everything else []
    wanted += [f"{prefix}.METRIC.>"] if js_metric or everything else []
    wanted += _SERVER_SUBJECTS if srv_advisory or everything else ()

    def prepare(link: Link) -> None:
        for subject in wanted:
            link.client.subscribe(subject)

    note(f"Listening on {', '.join(wanted)}")
    for number, (_, message) in enumerate(listen(session, prepare), 1):
        if as_json:
            click.echo(message.payload.decode(errors="replace"))
        else:
            _print_event(message.subject, message.payload)
        if number == count:
            return


def _print_event(subject: str, payload: bytes) -> None:
    """One line of what and where, then what the event says, without nesting where it can be avoided."""
    try:
        event: Any = json.loads(payload)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        click.echo(f"{click.style(subject, fg='cyan')} {payload.decode(errors='replace')}\n")
        return
    kind = str(event.get("type", subject)).rpartition(".")[2].replace("_", " ")
    moment = format_time(str(event.get("timestamp", "")))
    title = click.style(kind or subject, bold=True)
    click.echo(f"[{moment}] {title} {click.style(subject, fg='cyan')}")
    for name, value in event.items():
        if name not in _UNINTERESTING:
            click.echo(f"{name:>20}: {value if not isinstance(value, dict | list) else json.dumps(value)}")
    who = event.get("client")
    if isinstance(who, dict):
        words = [who[field] for field in ("user", "name", "host") if isinstance(who.get(field), str)]
        click.echo(f"{'client':>20}: {' '.join(words)}")
    click.echo()
