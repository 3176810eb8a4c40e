"""Files of a server that a reader looks at itself: nothing but what was promised is taken for a chunk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from models.records import Record, encode_record
from slipstream.bulk.lent import LentFiles, LentPlace
from slipstream.server.jetstream.shared_memory import OpenFile, lend_file

SALT = 12345
RECORDS = [Record(seq, seq * 1000, b"s.%d" % seq, b"", b"payload-%d" % seq) for seq in range(1, 11)]
CONTENT = b"".join(encode_record(record, SALT) for record in RECORDS)
BEFORE = 4096 + 24


@pytest.fixture
def lent(tmp_path: Path) -> OpenFile:
    """A file with records somewhere in it."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * BEFORE + CONTENT + b"y" * 100)
    file = lend_file(str(path))
    assert file is not None
    return file


def place(file: OpenFile, **changes: Any) -> LentPlace:
    fields = {"path": file.path, "device": file.device, "inode": file.inode, "offset": BEFORE, "length": len(CONTENT)}
    return LentPlace(**{**fields, "salt": SALT, "rows": 10, "first": 1, **changes})


def test_records_as_they_lie(lent: OpenFile) -> None:
    files = LentFiles()
    found = files.look(place(lent), 10)
    assert found is not None
    assert bytes(found) == CONTENT
    files.close()
    files.close()
    assert bytes(found) == CONTENT, "as long as somebody looks"


def test_a_file_that_lost_its_name(lent: OpenFile, tmp_path: Path) -> None:
    os.remove(tmp_path / "log")
    assert LentFiles().look(place(lent), 10) is not None
    lent.close()
    lent.close()
    assert LentFiles().look(place(lent), 10) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"inode": 1},
        {"device": 1},
        {"path": "/proc/1/fd/99999"},
        {"path": "/dev/zero"},
        {"path": "/proc/self/\0"},
        {"rows": 9},
        {"rows": 11},
        {"first": 2},
        {"offset": BEFORE - 8},
        {"offset": BEFORE + 8},
        {"offset": -8},
        {"offset": 1 << 70},
        {"length": 0},
        {"length": len(CONTENT) - 8},
        {"length": len(CONTENT) + 8},
        {"length": 1 << 40},
    ],
)
def test_what_is_not_there_is_not_taken(lent: OpenFile, changes: dict[str, Any]) -> None:
    files = LentFiles()
    assert files.look(place(lent, **changes), 10) is None
    assert files.look(place(lent), 10) is not None, "and does no harm"


def test_a_name_outside_of_proc_is_not_opened(lent: OpenFile, tmp_path: Path) -> None:
    assert LentFiles().look(place(lent, path=str(tmp_path / "log")), 10) is None


def test_an_erased_message(lent: OpenFile, tmp_path: Path) -> None:
    with (tmp_path / "log").open("r+b") as file:
        file.seek(BEFORE + 26)
        file.write(bytes([CONTENT[26] ^ 3]))
    assert LentFiles().look(place(lent), 10) is None


def test_a_file_that_was_cut(lent: OpenFile, tmp_path: Path) -> None:
    files = LentFiles()
    assert files.look(place(lent), 10) is not None
    os.truncate(tmp_path / "log", 4096)
    assert files.look(place(lent), 10) is None, "to touch it would end the process"


def test_many_files(tmp_path: Path) -> None:
    files, loans = LentFiles(), []
    for number in range(10):
        path = tmp_path / str(number)
        path.write_bytes(b"x" * BEFORE + CONTENT)
        loan = lend_file(str(path))
        assert loan is not None
        loans.append(loan)
        assert files.look(place(loan), 10) is not None
    assert files.look(place(loans[0]), 10) is not None
    assert lend_file(str(tmp_path / "none")) is None
