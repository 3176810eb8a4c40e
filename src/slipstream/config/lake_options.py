"""Options of the block `lake`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from slipstream.config.record import EMPTY, Record
from slipstream.units import HOUR_NS, MIB, SECOND_NS

__all__ = ["LakeOptions"]


class LakeOptions(Record, secret=("password", "token")):
    """`lake`: streams of one account as tables, written by a process that the server starts."""

    location: str
    format: Literal["delta", "iceberg"] = "delta"
    streams: tuple[str, ...] = ("*",)
    catalog: Mapping[str, str] = EMPTY
    namespace: str = "streams"
    partition: tuple[str, ...] = ()
    columns: str = ""
    dead_letters: str = ""
    every_ns: int = 3 * SECOND_NS
    file_size: int = 64 * MIB
    compact_files: int = 16
    keep_ns: int = 7 * 24 * HOUR_NS
    accept_gap: bool = False
    # Who it is to the server, and how it gets there.
    user: str = ""
    password: str = ""
    token: str = ""
    credentials: str = ""
    nkey_file: str = ""
    url: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
