"""Removing files of a table: what no version needs goes, what a job may still commit stays, and no commit lies."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slipstream.spark.lake import Archived, Lake, LakeConflict, LakeError, create_lake, open_lake, vacuum, working
from slipstream.spark.lake.base import LakeFile
from slipstream.spark.lake.files import write_file
from slipstream.spark.lake.work import LEASE_SECONDS, UNKNOWN_SECONDS, Work
from support.lake_tables import FACTS, messages


@pytest.fixture(params=["delta", "parquet"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return create_lake(str(tmp_path / "table"), FACTS, request.param)


def written(work: Work, first: int, last: int) -> LakeFile:
    file = write_file(work.lake.location, [messages(first, last)], job=work.job)
    assert file is not None
    return file


def on_disk(lake: Lake) -> set[str]:
    return {path.name for path in Path(lake.location).glob("*.parquet*")}


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def leases(lake: Lake) -> list[Path]:
    return list((Path(lake.location) / "_work").iterdir())


def test_files_of_a_job_that_runs_stay_until_it_commits_them(lake: Lake) -> None:
    with working(lake, "archive") as work:
        file = written(work, 1, 5)
        assert vacuum(open_lake(lake.location)).in_flight == 1
        work.commit(FACTS.upto(5), add=[file], operation="archive")
    assert on_disk(lake) == {file.path}
    assert leases(lake) == []
    assert vacuum(lake).removed == 0


def test_a_job_removes_what_it_did_not_commit(lake: Lake) -> None:
    with pytest.raises(ValueError, match="no more"), working(lake, "archive") as work:
        kept = written(work, 1, 5)
        work.commit(FACTS.upto(5), add=[kept], operation="archive")
        written(work, 6, 9)
        raise ValueError("no more")
    assert on_disk(lake) == {kept.path}


def test_files_of_a_dead_job_go_and_it_cannot_commit_them(lake: Lake) -> None:
    with working(lake, "archive") as work:
        file = written(work, 1, 5)
        age(leases(lake)[0], LEASE_SECONDS + 1)
        assert vacuum(open_lake(lake.location)).removed == 1
        # It stood still and wakes up: what it knows of the table is out of date, and then its lease is gone.
        with pytest.raises(LakeError, match="run it again"):
            work.commit(FACTS.upto(5), add=[file], operation="archive")
        with pytest.raises(LakeConflict):
            lake.commit(FACTS.upto(5), add=[file], operation="archive")
        work.renew()
        assert leases(lake) == []
    assert open_lake(lake.location).facts.archived_upto == 0


def test_a_job_that_passed_the_check_before_its_lease_was_broken_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working(lake, "archive") as work:
        file = written(work, 1, 5)
        commit = lake.commit

        def late(facts: Archived, **rest: object) -> int:
            age(leases(lake)[0], LEASE_SECONDS + 1)
            assert vacuum(open_lake(lake.location)).removed == 1
            return commit(facts, **rest)  # type: ignore[arg-type]

        monkeypatch.setattr(lake, "commit", late)
        with pytest.raises(LakeConflict):
            work.commit(FACTS.upto(5), add=[file], operation="archive")
    assert open_lake(lake.location).files() == []


def test_a_commit_names_no_file_that_is_gone_or_cut(lake: Lake) -> None:
    with working(lake, "archive") as work:
        gone, cut = written(work, 1, 5), written(work, 6, 9)
        os.unlink(lake.path_of(gone))
        os.truncate(lake.path_of(cut), cut.size - 1)
        for file, text in ((gone, "is gone"), (cut, "bytes instead of")):
            with pytest.raises(LakeError, match=text):
                work.commit(FACTS.upto(9), add=[file], operation="archive")
    assert open_lake(lake.location).version == 0


def test_replaced_files_go_even_if_their_job_still_runs(lake: Lake) -> None:
    with working(lake, "archive") as work:
        old = written(work, 1, 5)
        work.commit(FACTS.upto(5), add=[old], operation="archive")
        other = open_lake(lake.location)
        with working(other, "erase") as eraser:
            new = written(eraser, 1, 4)
            eraser.commit(other.facts, add=[new], remove=[old], operation="erase")
        assert vacuum(other).removed == 1
        assert on_disk(lake) == {new.path}


def test_files_of_unknown_origin_stay_for_a_week(lake: Lake) -> None:
    foreign = Path(lake.location) / "part-00000-of-somebody.snappy.parquet"
    foreign.write_bytes(b"PAR1")
    assert vacuum(lake).removed == 0
    age(foreign, UNKNOWN_SECONDS + 1)
    assert vacuum(lake).removed == 1 and not foreign.exists()


def test_who_builds_on_a_version_that_was_vacuumed_is_told(lake: Lake) -> None:
    """A number that is free again would take a commit that nobody ever reads."""
    late = open_lake(lake.location)
    with working(lake, "archive") as work:
        for first in (1, 6, 11):
            work.commit(FACTS.upto(first + 4), add=[written(work, first, first + 4)], operation="archive")
    vacuum(lake)
    with working(late, "archive") as work, pytest.raises(LakeConflict):
        work.commit(FACTS.upto(5), add=[written(work, 1, 5)], operation="archive")
    assert [file.rows for file in open_lake(lake.location).files()] == [5, 5, 5]


def test_the_log_forgets_the_subjects_of_files_that_are_gone(lake: Lake) -> None:
    with working(lake, "archive") as work:
        old = written(work, 1, 5)
        work.commit(FACTS.upto(5), add=[old], operation="archive")
        new = written(work, 1, 1)
        work.commit(FACTS.upto(5), add=[new], remove=[old], operation="erase")
    log = [path for path in Path(lake.location).rglob("*") if path.is_file() and path.parent.name != "table"]
    assert any(b"orders.4" in path.read_bytes() for path in log)
    vacuum(lake)
    log = [path for path in Path(lake.location).rglob("*") if path.is_file() and path.parent.name != "table"]
    assert not any(b"orders.4" in path.read_bytes() for path in log)
    again = open_lake(lake.location)
    assert again.files() == [new] and again.facts == FACTS.upto(5)
    with working(again, "archive") as work:
        work.commit(FACTS.upto(9), add=[written(work, 6, 9)], operation="archive")
    assert [file.rows for file in open_lake(lake.location).files()] == [1, 4]
