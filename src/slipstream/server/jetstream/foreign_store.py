"""Whose files are in a store directory: ours may be opened, nats-server's are left alone, whatever else is beside them.

    <root>/<account>/streams/<stream>/meta.inf     nats-server: configuration, beside `msgs/` and `obs/`
    <root>/.migrating/                             `slipstream migrate` was interrupted; what is there is not complete

What this is not: a reader of nats-server's files. That is `slipstream.migrate`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from slipstream.errors import StorageFault

__all__ = ["MIGRATING", "refuse_foreign_store"]

MIGRATING = ".migrating"  # no account has this directory: a dot in a name is written in another way


def refuse_foreign_store(root: str) -> None:
    """Look at a directory without changing anything.

    Raises:
        StorageFault: it must not be used as it is; the text says what to do.
    """
    parent = os.path.dirname(root)
    if os.path.lexists(os.path.join(root, MIGRATING)):
        raise StorageFault(
            f"a migration into {parent} is not finished: run `slipstream migrate` again as before, or remove "
            f"{os.path.join(root, MIGRATING)}"
        )
    if any(True for _ in _nats_server_streams(root)):
        raise StorageFault(
            f"the store directory {root} was written by nats-server, nothing in it was changed: "
            f"run `slipstream migrate {parent} --to NEW_DIRECTORY`, then start with the new directory"
        )


def _nats_server_streams(root: str) -> Iterator[str]:
    for account in _entries(root):
        for stream in _entries(os.path.join(account, "streams")):
            # `msgs` is made first, so a stream that was cut short in its making has no more than that.
            if os.path.lexists(os.path.join(stream, "meta.inf")) or os.path.isdir(os.path.join(stream, "msgs")):
                yield stream


def _entries(directory: str) -> list[str]:
    """Directories in a directory; none if it is not one. What cannot be read is found out by whoever opens it."""
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return []
