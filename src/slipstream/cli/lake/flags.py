"""Flags that say where tables are, and what opens them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.types import pairs_option

if TYPE_CHECKING:
    from slipstream.lake.tables import LakeTable

__all__ = ["open_with", "table_flags"]

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


def open_with(
    location: str, kind: str, catalog: dict[str, str], namespace: str, partition: Sequence[str] = (), columns: str = ""
) -> Callable[[str, str | None], LakeTable]:
    """What opens the table of a stream.

    Raises:
        Failure: the extra is missing, or flags do not go together.
    """
    try:
        import deltalake  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: pip install 'slipstream-server[lake]'") from error
    if kind == "delta":
        if catalog or partition or namespace != "streams":
            raise click.UsageError("--catalog, --namespace and --partition are for --format iceberg")
        from slipstream.lake.delta_table import open_delta

        return lambda stream, identity: open_delta(location, stream, identity)
    from slipstream.lake.iceberg_table import IcebergCatalogue

    extra = None
    if columns:
        from slipstream.lake.typed import read_columns

        extra = read_columns(columns)
    return IcebergCatalogue(location, catalog, namespace, tuple(partition), extra).open
