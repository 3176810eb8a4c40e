"""`slipstream apply`: make a server have what a file declares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.link import ApiRefusal, ClientLink
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import counted, print_json, say
from slipstream.cli.types import json_flag
from slipstream.declared.nodes import DeclarationError
from slipstream.declared.plan import Step, consumers_needed, plan
from slipstream.declared.reading import Declared
from slipstream.declared.yaml_file import read_declarations

__all__ = ["apply"]

_TO_DO: Final = 3  # exit status of --plan when something is to be done; 1 and 2 are errors
_SIGNS: Final = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}


@click.command(cls=Command)
@click.option("--file", "-f", "place", required=True, metavar="FILE", help="YAML or JSON; - is standard input.")
@click.option("--plan", "plan_only", is_flag=True, help="Only show what would be done; status 3 if that is something.")
@click.option("--prune", is_flag=True, help="Delete what is there and not declared, after asking.")
@click.option("--force", is_flag=True, help="Do not ask before deleting.")
@json_flag
@click.pass_obj
def apply(session: Session, place: str, plan_only: bool, prune: bool, force: bool, as_json: bool) -> None:
    """Create and change streams, consumers, buckets and object stores as a FILE declares them.

    What is not declared is left as it is. Doing it twice changes nothing.
    """
    text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
    try:
        declared = read_declarations(text, place)
    except DeclarationError as error:
        raise Failure(str(error)) from error
    link = session.link()
    steps = _steps(link, declared, prune=prune)
    if as_json:
        print_json([{"action": step.action, "what": step.what, "changes": step.changes} for step in steps])
    else:
        _show(steps)
    if plan_only:
        sys.exit(_TO_DO if steps else 0)
    gone = [step.what for step in steps if step.action == "delete"]
    if gone:
        confirm_or_stop(f"Delete {', '.join(gone)}", force=force)
    failed = 0
    for step in steps:
        try:
            link.api(step.verb, step.body)
        except ApiRefusal as error:
            failed += 1
            where = f"{step.place}: " if step.place else ""
            click.echo(f"{where}{step.what} was not {_done(step)}: {error}", err=True)
    if failed:
        raise Failure(f"{failed} of {counted(len(steps), 'step')} failed")
    if steps and not as_json:
        say(f"{counted(len(steps), 'step')} done")


def _steps(link: ClientLink, declared: Declared, *, prune: bool) -> list[Step]:
    """What is to be done on the server behind a link."""
    streams = {info["config"]["name"]: info for info in link.api_pages("STREAM.LIST", "streams")}
    consumers = {
        name: {info["name"]: info for info in link.api_pages(f"CONSUMER.LIST.{name}", "consumers")}
        for name in consumers_needed(declared, streams)
    }
    return plan(declared, streams, consumers, prune=prune)


def _done(step: Step) -> str:
    return f"{step.action}d"


def _show(steps: list[Step]) -> None:
    if not steps:
        say("Everything is as declared")
    for step in steps:
        sign, colour = _SIGNS[step.action]
        click.echo(click.style(f"{sign} {step.action} {step.what}", fg=colour))
        for line in step.changes:
            click.echo(f"    {line}")
