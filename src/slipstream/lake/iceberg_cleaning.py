"""What is taken out of an Iceberg table for good: erased messages, old snapshots, files of writers that died.

A row is in a data file, and its subject and times may be the bounds of that file in manifests. So an erasure writes
files anew, makes one snapshot more, whose manifests do not speak of the old files, and forgets all snapshots before it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from slipstream.kernels.subjects.subject import matches
from slipstream.spark.lake.base import LakeError

__all__ = ["ORPHAN_SECONDS", "erase_rows", "forget_snapshots", "note_ranges", "read_ranges", "sweep_orphans"]

ORPHAN_SECONDS: Final = 3600.0
"""A file that no snapshot names may be about to be committed for so long."""
_ATTEMPTS: Final = 20  # each is a commit of somebody else


def erase_rows(table: Any, patterns: Sequence[str], summary: Callable[[], dict[str, str]]) -> int:
    """Take all messages of subjects out of a table and of all that remembers them.

    Args:
        table: of pyiceberg.
        patterns: subjects, with or without wildcards.
        summary: what each snapshot has to say.

    Returns:
        How many messages there were.

    Raises:
        LakeError: the table is changed all the time by somebody else.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.expressions import In

    from slipstream.lake.recorded_io import discarding

    is_one_of: Any = In  # its types are those of a base class
    erased, is_clean = 0, False
    for _ in range(_ATTEMPTS):
        table.refresh()
        subjects = _subjects(table, patterns)
        try:
            if subjects:
                meant = is_one_of("subject", subjects)
                rows = table.scan(row_filter=meant, selected_fields=("seq",)).to_arrow().num_rows
                with discarding(table):
                    table.delete(meant, snapshot_properties=summary())
                erased += rows
                continue  # and once more: a writer may have come in between
            if table.current_snapshot() is not None:
                # The snapshot that took files out names them as taken out.
                with discarding(table):
                    table.append(table.schema().as_arrow().empty_table(), snapshot_properties=summary())
                current = table.current_snapshot().snapshot_id
                forget_snapshots(table, [one for one in table.snapshots() if one.snapshot_id != current])
            is_clean = True
            break
        except CommitFailedException:
            continue
    if not is_clean:
        raise LakeError(f"{'.'.join(table.name())} is changed all the time by somebody else; try again later")
    sweep_orphans(table, ORPHAN_SECONDS)
    return erased


def _subjects(table: Any, patterns: Sequence[str]) -> list[str]:
    """Those in the table that are meant."""
    import pyarrow.compute as pc

    if table.current_snapshot() is None:
        return []
    wanted = [pattern.encode() for pattern in patterns]
    found: set[str] = set()
    for batch in table.scan(selected_fields=("subject",)).to_arrow_batch_reader():
        found.update(pc.unique(batch.column("subject")).to_pylist())
    return sorted(one for one in found if any(matches(pattern, one.encode()) for pattern in wanted))


def read_ranges(table: Any, prefix: str) -> dict[str, list[list[int]]]:
    """The ranges that properties of a table have, by their names; what is none of ours is left out."""
    found: dict[str, list[list[int]]] = {}
    for name, text in table.properties.items():
        if name.startswith(prefix):
            with suppress(ValueError, TypeError):
                found[name] = [[int(low), int(high)] for low, high in json.loads(text)]
    return found


def note_ranges(table: Any, prefix: str, noted: Callable[[], list[list[int]]], upto: Callable[[], int]) -> None:
    """Add a property with ranges to a table, and take away those that say nothing of what is behind `upto`.

    Each note is a property of its own: two that are written at once are both there, for catalogues take the last word
    on a property.

    Raises:
        LakeError: the table is changed all the time by somebody else.
    """
    from pyiceberg.exceptions import CommitFailedException

    name = f"{prefix}{uuid.uuid4().hex}"
    for _ in range(_ATTEMPTS):
        table.refresh()
        over = [one for one, ranges in read_ranges(table, prefix).items() if all(high <= upto() for _, high in ranges)]
        try:
            with table.transaction() as transaction:
                transaction.set_properties({name: json.dumps(noted())})
                if over:
                    transaction.remove_properties(*over)
            return
        except CommitFailedException:
            continue
    raise LakeError(f"{'.'.join(table.name())} is changed all the time by somebody else; try again later")


def forget_snapshots(table: Any, snapshots: Sequence[Any]) -> int:
    """Forget snapshots, and remove the files that only they need; how many.

    Raises:
        LakeError: the table is changed all the time by somebody else.
    """
    from pyiceberg.exceptions import CommitFailedException

    meant = {one.snapshot_id for one in snapshots}
    for _ in range(_ATTEMPTS):
        known = [one for one in table.snapshots() if one.snapshot_id in meant]
        if not known:
            return 0
        before = _files_of(table, table.snapshots())
        try:
            table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in known]).commit()
        except (CommitFailedException, ValueError):  # somebody has written, or has forgotten some of them
            table.refresh()
            continue
        table.refresh()
        unneeded = before - _files_of(table, table.snapshots())
        for path in unneeded:
            table.io.delete(path)
        return len(unneeded)
    raise LakeError(f"{'.'.join(table.name())} is changed all the time by somebody else; try again later")


def sweep_orphans(table: Any, older_than: float) -> int:
    """Remove files that no snapshot names and nobody has written to for so many seconds; how many.

    Data files, and lists and manifests: they say which subjects files have, and whoever forgot their snapshot may have
    died before it removed them.
    """
    from pyarrow.fs import FileSelector
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return 0  # another library keeps the files, which cannot be listed by it
    scheme, place, path = io.parse_location(table.location())
    files = io.fs_by_scheme(scheme, place)
    found = files.get_file_info(FileSelector(f"{path}/data", recursive=True, allow_not_found=True))
    about = files.get_file_info(FileSelector(f"{path}/metadata", recursive=True, allow_not_found=True))
    found += [one for one in about if one.path.endswith(".avro")]
    oldest = time.time() - older_than
    old = [one.path for one in found if one.is_file and one.mtime is not None and one.mtime.timestamp() < oldest]
    if not old:
        return 0
    table.refresh()  # after the list: what was committed meanwhile is named
    named = {io.parse_location(one)[2].lstrip("/") for one in _files_of(table, table.snapshots())}
    orphans = [one for one in old if one.lstrip("/") not in named]
    for one in orphans:
        io.delete(f"{scheme}://{one}")
    return len(orphans)


def _files_of(table: Any, snapshots: Sequence[Any]) -> set[str]:
    """Everything that snapshots need: lists, manifests, data."""
    found: set[str] = set()
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return found
