"""`slipstream auth account mappings`: subjects that become others when they are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from slipstream.cli.auth.choosing import choose_account, operator_flag
from slipstream.cli.auth.files import read_text
from slipstream.cli.auth.tree import AccountEntry, Fields
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.prompts import ask, ask_choice
from slipstream.cli.render import Columns, Table, print_json, say
from slipstream.cli.types import json_flag

__all__ = ["mappings"]

_HERE: Final = "slipstream.cli.auth.mappings"

VERBS: Final = {
    "add": Verb(f"{_HERE}:add", "Add a mapping.", ("new", "a")),
    "ls": Verb(f"{_HERE}:ls", "List mappings.", ("list",)),
    "rm": Verb(f"{_HERE}:rm", "Remove a mapping.", ("delete",)),
    "info": Verb(f"{_HERE}:info", "Show a mapping.", ("i", "show", "view")),
}


@click.group(cls=LazyGroup, entries=VERBS)
def mappings() -> None:
    """Manage subject mappings of an account."""


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("source", required=False)
@click.argument("target", required=False)
@click.argument("weight", required=False, type=click.IntRange(min=1, max=100))
@click.argument("cluster", required=False)
@operator_flag
@click.option("--config", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="JSON or YAML.")
def add(
    account: str | None,
    source: str | None,
    target: str | None,
    weight: int | None,
    cluster: str | None,
    operator: str,
    config: str | None,
) -> None:
    """Map SOURCE to TARGET in ACCOUNT, for WEIGHT percent of the messages."""
    owner, found = choose_account(operator, account)
    if config is not None:
        new = _read(config)
    else:
        source = source or ask("Source subject", read=str, flag="SOURCE")
        target = target or ask("Target subject", read=str, flag="TARGET")
        entry: Fields = {"subject": target, "weight": 100 if weight is None else weight}
        new = {source: [entry | ({"cluster": cluster} if cluster else {})]}
    present: dict[str, list[Fields]] = found.part.setdefault("mappings", {})
    for subject, destinations in new.items():
        present.setdefault(subject, []).extend(destinations)
    owner.save_account(found)
    for subject in new:
        _show(found, subject)


def _read(file: str) -> dict[str, list[Fields]]:
    import yaml

    try:
        found = yaml.safe_load(read_text(file))
    except (yaml.YAMLError, RecursionError) as error:
        raise Failure(f"{Path(file).name} is neither JSON nor YAML: {error}") from error
    fits = isinstance(found, dict) and all(
        isinstance(source, str) and isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
        for source, entries in found.items()
    )
    if not fits:
        raise Failure(f"{file} does not map subjects to lists of destinations")
    return {
        source: [{str(key).lower(): value for key, value in entry.items()} for entry in entries]
        for source, entries in found.items()
    }


def _choose(found: AccountEntry, source: str | None) -> str:
    present: dict[str, Any] = found.part.get("mappings") or {}
    if not present:
        raise Failure(f"account {found.name!r} has no mappings")
    if source is None:
        source = ask_choice("Select a mapping", sorted(present), flag="SOURCE")
    if source not in present:
        raise Failure(f"account {found.name!r} does not map {source!r}")
    return source


def _show(found: AccountEntry, source: str) -> None:
    columns = Columns(f"Subject mappings of {found.name}")
    columns.section("Configuration")
    columns.row("Source", source)
    for destination in found.part["mappings"][source]:
        columns.row("Target", destination["subject"])
        columns.row("Weight", destination.get("weight") or 100)
        columns.row("Cluster", destination.get("cluster"), when=destination.get("cluster"))
    columns.print()


@click.command(cls=Command)
@click.argument("account", required=False)
@operator_flag
def ls(account: str | None, operator: str) -> None:
    """List the mappings of ACCOUNT."""
    _owner, found = choose_account(operator, account)
    present = found.fields["nats"].get("mappings") or {}
    if not present:
        say("No mappings defined")
        return
    table = Table("Subject mappings", "Source Subject", "Target Subject", "Weight", "Cluster")
    for source, destinations in sorted(present.items()):
        for one in destinations:
            table.add(source, one["subject"], one.get("weight") or 100, one.get("cluster", ""))
    table.print()


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("source", required=False)
@operator_flag
def rm(account: str | None, source: str | None, operator: str) -> None:
    """Remove the mapping of SOURCE from ACCOUNT."""
    owner, found = choose_account(operator, account)
    source = _choose(found, source)
    del found.part["mappings"][source]
    owner.save_account(found)
    say(f"Deleted mapping {source}")


@click.command(cls=Command)
@click.argument("account", required=False)
@click.argument("source", required=False)
@operator_flag
@json_flag
def info(account: str | None, source: str | None, operator: str, as_json: bool) -> None:
    """Show the mapping of SOURCE in ACCOUNT."""
    _owner, found = choose_account(operator, account)
    source = _choose(found, source)
    if as_json:
        print_json({source: found.part["mappings"][source]})
    else:
        _show(found, source)
