"""What a lake table is, whatever keeps its log.

Invariants: a file is named by a version only when it is complete and synced; a version is made in one step, so
readers see all files of a commit or none; `archived_upto` of a version covers every message of the stream up to there
that the stream had when it was archived. Messages below the first file's range were never archived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slipstream.spark.lake.errors import LakeConflict, LakeError, NoLake
from slipstream.spark.lake.places import place_at

__all__ = ["Archived", "Lake", "LakeConflict", "LakeError", "LakeFile", "NoLake", "Wish"]


@dataclass(frozen=True)
class LakeFile:
    """One Parquet file: messages in the order of their sequences."""

    path: str  # relative to the table
    first_seq: int  # of a message in it
    last_seq: int
    rows: int
    size: int  # bytes of the file
    first_ns: int  # store times of messages in it
    last_ns: int
    first_subject: str
    last_subject: str

    def as_json(self) -> dict[str, Any]:
        """For a manifest."""
        return asdict(self)


@dataclass(frozen=True)
class Archived:
    """Which stream a table holds, and how far."""

    stream: str
    identity: str
    archived_upto: int = 0  # sequence; 0 for nothing yet
    erased: int = 0  # messages taken out by erasures
    erasures: int = 0  # how many there were, also those that found nothing: what was read before one may be erased

    def upto(self, sequence: int) -> Archived:
        """The same, archived further."""
        return replace(self, archived_upto=sequence)


@dataclass(frozen=True)
class Wish:
    """Which messages of a table are wanted; bounds are inside, None is no bound."""

    first_seq: int | None = None
    last_seq: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None  # outside, as everywhere for times
    subjects: tuple[str, ...] = ()  # filters with wildcards; empty for all

    def may_hold(self, file: LakeFile) -> bool:
        """Whether a file can have such messages, by its statistics."""
        if self.first_seq is not None and file.last_seq < self.first_seq:
            return False
        if self.last_seq is not None and file.first_seq > self.last_seq:
            return False
        if self.start_ns is not None and file.last_ns < self.start_ns:
            return False
        if self.end_ns is not None and file.first_ns >= self.end_ns:
            return False
        return not self.subjects or any(_may_match(one, file) for one in self.subjects)


class Lake(ABC):
    """One table."""

    format: str

    def __init__(self, location: str) -> None:
        """Name the place: a local directory, or whatever the format's library can reach."""
        self.location = location
        self.place = place_at(location)

    @property
    @abstractmethod
    def facts(self) -> Archived:
        """What the newest version holds."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The newest version."""

    @abstractmethod
    def files(self, version: int | None = None) -> list[LakeFile]:
        """The files of a version, by first sequence.

        Raises:
            LakeError: there is no such version.
        """

    @abstractmethod
    def commit(
        self,
        facts: Archived,
        *,
        add: Sequence[LakeFile] = (),
        remove: Sequence[LakeFile] = (),
        operation: str,
        changes_data: bool = True,
    ) -> int:
        """Make a version, from the newest one that this object has seen.

        Returns:
            Its number.

        Raises:
            LakeConflict: somebody else made one meanwhile; nothing was changed.
        """

    @abstractmethod
    def reload(self) -> None:
        """See the newest version.

        Raises:
            LakeError: the table is gone, or is another one now.
        """

    @abstractmethod
    def gone(self) -> set[str]:
        """Paths that an older version names and the newest does not, as far as the log remembers."""

    @abstractmethod
    def forget(self) -> None:
        """Take from the log what it says about the content of files that the newest version does not name."""

    def check_files(self, files: Sequence[LakeFile]) -> None:
        """Look whether files are there, whole.

        Raises:
            LakeError: one is not.
        """
        for file in files:
            try:
                size = self.place.size(file.path)
            except FileNotFoundError:
                raise LakeError(f"{self.path_of(file)} is gone: it was removed before its job was done") from None
            if size != file.size:
                raise LakeError(f"{self.path_of(file)} has {size:,} bytes instead of {file.size:,}")

    def check_content(self) -> None:
        """Look whether every file of the newest version is there, can be opened and has its rows.

        Raises:
            LakeError: one is not, or has not.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = self.files()
        self.check_files(files)
        for file in files:
            try:
                rows = pq.read_metadata(self.place.source(file.path)).num_rows
            except (OSError, pa.ArrowInvalid) as error:
                raise LakeError(f"{self.path_of(file)} cannot be read: {error}") from error
            if rows != file.rows:
                raise LakeError(f"{self.path_of(file)} has {rows:,} messages instead of {file.rows:,}")

    def select(self, wish: Wish, version: int | None = None) -> list[LakeFile]:
        """The files that may hold wanted messages."""
        return [file for file in self.files(version) if wish.may_hold(file)]

    def path_of(self, file: LakeFile) -> str:
        """Where a file is."""
        return f"{self.location.rstrip('/')}/{file.path}"


def _may_match(pattern: str, file: LakeFile) -> bool:
    """Whether a subject between the file's first and last one can match; the literal beginning decides."""
    words: list[str] = []
    for word in pattern.split("."):
        if word in ("*", ">"):
            break
        words.append(word)
    beginning = ".".join(words)
    if len(words) == len(pattern.split(".")):
        return file.first_subject <= beginning <= file.last_subject
    return file.first_subject[: len(beginning)] <= beginning <= file.last_subject[: len(beginning)]
