"""Rules of the code that no linter has."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "slipstream"


def test_a_public_class_has_its_name_for_itself() -> None:
    """Who reads a name in a log, a trace or a review knows which class is meant; a word has one meaning."""
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyx")]
    classes = [name for path in files for name in re.findall(r"^(?:cdef )?class (\w+)", path.read_text(), re.M)]
    assert len(classes) > 1000
    assert [name for name, count in Counter(classes).items() if count > 1 and not name.startswith("_")] == []


def test_a_source_belongs_to_one_kernel() -> None:
    """Kernels are compiled side by side: of a source that two of them name, one may be linked half written."""
    kernels = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    sources = Counter(source for kernel in kernels for source in kernel["sources"])
    assert len(sources) > 50
    assert [source for source, count in sources.items() if count > 1] == []
