"""Rings of imports, which would send a request round and round.

An import lets subjects travel from one account to another. A ring of imports, where what leaves one enters
the next, would send a request round and round, so every ring is refused. nats-server's search compares the names
differently, lets some rings with renamed subjects pass and stops them while the request runs; here following imports
always ends because there is no ring. One thing is not a ring: an account that imports its own subjects under the same
names, as is done there to measure latency. Its subscribers get everything without that, so it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import overlaps

if TYPE_CHECKING:
    from slipstream.accounts.exports import ShareKind
    from slipstream.accounts.imports import ServiceImport, StreamImport

__all__ = ["Path", "leads_back", "refuse_rings", "service_path", "stream_path"]


class Path(NamedTuple):
    """An import as a way for subjects: in at one account, out at another."""

    entry_account: str
    entry: bytes
    exit_account: str
    exit: bytes
    remote: bytes  # names the import in an error


def stream_path(importer: str, taken: StreamImport) -> Path:
    """The way of the messages of a stream import."""
    return Path(taken.exporter, taken.remote, importer, taken.subject, taken.remote)


def service_path(importer: str, taken: ServiceImport) -> Path:
    """The way of the requests of a service import."""
    return Path(importer, taken.subject, taken.exporter, taken.remote, taken.remote)


def leads_back(path: Path, leaving_from: Mapping[str, Iterable[Path]]) -> bool:
    """Whether what passes an import could come to it again, by the imports that there are already."""
    seen: set[Path] = set()
    following = [path]
    while following:
        here = following.pop()
        for onward in (path, *leaving_from.get(here.exit_account, ())):
            if onward.entry_account != here.exit_account or not overlaps(here.exit, onward.entry):
                continue
            if onward is path:
                return True
            if onward not in seen:
                seen.add(onward)
                following.append(onward)
    return False


def refuse_rings(kind: ShareKind, paths: list[Path]) -> None:
    """Depth first over the imports, without recursion: a way back to one that is still being followed is a ring."""
    leaving_from: dict[str, list[Path]] = {}
    for path in paths:
        leaving_from.setdefault(path.entry_account, []).append(path)

    def next_of(path: Path) -> Iterator[Path]:
        return (n for n in leaving_from.get(path.exit_account, ()) if overlaps(path.exit, n.entry))

    finished: set[Path] = set()
    for start in paths:
        if start in finished:
            continue
        followed = {start: next_of(start)}  # in the order of the way from `start`
        while followed:
            path = next(reversed(followed))
            onward = next((n for n in followed[path] if n not in finished), None)
            if onward is None:
                finished.add(path)
                del followed[path]
            elif onward in followed:
                raise ConfigError(f'Error adding {kind} import "{path.remote.decode()}": import forms a cycle')
            else:
                followed[onward] = next_of(onward)
