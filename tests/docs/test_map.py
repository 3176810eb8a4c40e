"""The map leads somewhere: every file that ARCHITECTURE.md and the docs name exists, and so does every symbol."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tools.gen_modules import PAGE, page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "slipstream"
MAP = ROOT / "ARCHITECTURE.md"
HEADING = "## If you look for …, start at …"
BEHAVIOURS_MIN = 30
FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:pyx|pyi|pxd|py))`")
DOCUMENTS = [MAP, ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def starts() -> list[tuple[str, str, str]]:
    """(behaviour, path, symbol or nothing) of each place to start at."""
    section = MAP.read_text().partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("|")]
    place = re.compile(r"`([\w/]+\.pyx?)`(?: `([\w.]+)`)?")
    return [(row[0].strip(), path, symbol) for row in rows for path, symbol in place.findall(row[1])]


def test_there_are_enough() -> None:
    assert len({behaviour for behaviour, _, _ in starts()}) >= BEHAVIOURS_MIN


@pytest.mark.parametrize(("behaviour", "path", "symbol"), starts())
def test_a_behaviour_is_where_the_table_says(behaviour: str, path: str, symbol: str) -> None:
    text = (SOURCE / path).read_text()
    outer, _, inner = symbol.partition(".")
    if outer:
        defined = re.search(rf"^(?:cdef )?(?:class|def|async def) {outer}\b.*?(?=^\S(?<!\))|\Z)", text, re.M | re.S)
        assert defined is not None, f"{behaviour}: no {outer} in {path}"
        assert not inner or re.search(rf"^    (?:async )?def {inner}\(", defined[0], re.M), f"{behaviour}: no {symbol}"


@pytest.fixture(scope="module")
def files() -> list[str]:
    folders = ("src", "tests", "tools", "benchmarks", "examples")
    return [f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.p*")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_files_that_are_named_exist(document: Path, files: list[str]) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)
    missing = [name for name in FILE.findall(text) if not any(path.endswith(f"/{name}") for path in files)]
    assert missing == []


def test_every_module_is_on_the_page_of_modules() -> None:
    assert PAGE.read_text() == page(), "run python tools/gen_modules.py"


def test_every_folder_is_in_the_map() -> None:
    folders = {path.relative_to(SOURCE).parts[0] for path in SOURCE.glob("*/*.py")}
    section = MAP.read_text().partition("## Folders")[2]
    assert {folder for folder in folders if f"| `{folder}/` |" not in section} == set()


def test_no_folder_is_a_heap() -> None:
    """Where a folder has more modules than a reader keeps apart, it wants wings."""
    counts = Counter(path.parent for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert {folder.name: count for folder, count in counts.items() if count > 48} == {}


def test_the_glossary_is_sorted() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    assert len(words) > BEHAVIOURS_MIN
    assert words == sorted(set(words))
