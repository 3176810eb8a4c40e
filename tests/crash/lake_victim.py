"""Keeps a table up to date until it is killed; says a word after each turn that wrote something.

python lake_victim.py URL DIRECTORY FORMAT STREAM
"""

from __future__ import annotations

import sys
from functools import partial

from slipstream.bulk import ConnectOptions
from slipstream.lake.delta_table import open_delta
from slipstream.lake.iceberg_table import IcebergCatalogue
from slipstream.lake.service import LakeService
from slipstream.lake.tables import OpenTable
from slipstream.lake.writing import WriteSettings


def main(url: str, directory: str, kind: str, stream: str) -> None:
    open_table: OpenTable = partial(open_delta, directory)
    if kind == "iceberg":
        open_table = IcebergCatalogue(directory, {}, "streams").open
    settings = WriteSettings(file_bytes=20_000, compact_files=4)
    with LakeService(ConnectOptions(url), open_table, [stream], settings) as service:
        while True:
            report = service.turn()
            assert not report.failures, report.failures
            if report.written:
                print(report.written, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
