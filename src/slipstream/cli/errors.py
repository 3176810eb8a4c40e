"""`slipstream errors`: what the error codes of JetStream mean."""

from __future__ import annotations

import re
from typing import Final

import click

from slipstream.cli.connection import Failure, LocalCommand
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.render import Columns, Table, counted, print_json
from slipstream.cli.types import json_flag

__all__ = ["errors", "lookup", "ls"]


_DESCRIPTION_ROOM: Final = 50  # columns; constants, which `lookup` shows too, do not make descriptions narrower
_HERE: Final = "slipstream.cli.errors"
VERBS: Final = {
    "ls": Verb(f"{_HERE}:ls", "List error codes.", ("list",)),
    "lookup": Verb(f"{_HERE}:lookup", "Show what a code means.", ("find", "get", "view", "show", "l")),
}


@click.group(cls=LazyGroup, entries=VERBS)
def errors() -> None:
    """Look up the error codes of JetStream."""


@click.command(cls=LocalCommand)
@click.argument("pattern", default="")
@json_flag
def ls(pattern: str, as_json: bool) -> None:
    """List errors whose text, constant or code matches PATTERN, a regular expression."""
    try:
        wanted = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise Failure(f"{pattern!r} is no regular expression: {error}") from error
    fields = ("err_code", "constant", "description")
    found = [row for row in _rows() if any(wanted.search(str(row[field])) for field in fields)]
    if as_json:
        print_json(found)
        return
    if not found:
        raise Failure(f"no error matches {pattern!r}")
    table = Table(counted(len(found), "JetStream Error"), "Code", "HTTP", "Constant", "Description")
    for row in found:
        table.add(str(row["err_code"]), str(row["code"]), row["constant"], row["description"])
    table.print(spare=("Constant", "HTTP"), room={"Description": _DESCRIPTION_ROOM})


@click.command(cls=LocalCommand)
@click.argument("code", type=int)
@json_flag
def lookup(code: int, as_json: bool) -> None:
    """Show the error CODE, such as 10058."""
    for row in _rows():
        if row["err_code"] == code:
            if as_json:
                print_json(row)
                return
            columns = Columns(f"NATS Error Code: {code}")
            columns.row("Description", row["description"])
            columns.row("HTTP Code", str(row["code"]))
            columns.row("Constant", row["constant"])
            columns.print()
            return
    raise Failure(f"no error has the code {code}")


def _rows() -> list[dict[str, int | str]]:
    from slipstream.jetstream import errors_table

    constants = vars(errors_table).items()
    named = {spec.err_code: name for name, spec in constants if isinstance(spec, errors_table.ErrorSpec)}
    return [
        {"err_code": spec.err_code, "code": spec.code, "constant": named[spec.err_code], "description": spec.text}
        for spec in sorted(errors_table.ALL_ERRORS, key=lambda spec: spec.err_code)
    ]
