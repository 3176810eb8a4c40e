"""Flags that say what tables are like, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slipstream.cli.types import pairs_option

if TYPE_CHECKING:
    from slipstream.lake.opening import TablePlan

__all__ = ["planned", "table_flags"]

_F = TypeVar("_F", bound=Callable[..., Any])


def table_flags(command: _F) -> _F:
    """Add `--format`, `--catalog` and `--namespace`; a command takes them as `kind`, `catalog` and `namespace`."""
    for decorate in (
        click.option("--namespace", default="streams", help="Of Iceberg tables; streams by default."),
        pairs_option(
            "--catalog",
            "catalog",
            metavar="KEY=VALUE",
            help="Of Iceberg's catalogue; SQLite beside the files by default.",
        ),
        click.option(
            "--format",
            "kind",
            type=click.Choice(["delta", "iceberg"]),
            default="delta",
            help="Format of the tables; delta by default.",
        ),
    ):
        command = decorate(command)
    return command


def planned(
    location: str,
    kind: str,
    catalog: dict[str, str],
    namespace: str,
    partition: Sequence[str] = (),
    columns: str = "",
    dead_letters: str = "",
    streams: Sequence[str] = (),
) -> TablePlan:
    """What flags ask for.

    Raises:
        UsageError: they do not go together.
    """
    from slipstream.lake.opening import TablePlan
    from slipstream.spark.lake.base import LakeError

    plan = TablePlan(location, kind, catalog, namespace, partition, columns, dead_letters)
    try:
        plan.check(streams)
    except LakeError as error:
        raise click.UsageError(str(error)) from error
    return plan
