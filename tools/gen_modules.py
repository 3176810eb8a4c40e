"""Writes docs/internals/modules.md, a line for each module, from their docstrings: `python tools/gen_modules.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "slipstream"
PAGE = ROOT / "docs" / "internals" / "modules.md"
_HEAD = """# Modules

Every module in one line, as it says itself: to be searched, not to be read. Where to begin is in
[ARCHITECTURE.md](../../ARCHITECTURE.md). Paths are below `src/slipstream`; `python tools/gen_modules.py` writes this
page.
"""


def page() -> str:
    """The page as it has to be.

    Raises:
        ValueError: a module does not say what it is.
    """
    folders: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py*")):
        if path.suffix in (".py", ".pyx") and path.name != "__init__.py":
            name = path.relative_to(SOURCE)
            folders.setdefault(name.parent.as_posix(), []).append(f"| `{name.as_posix()}` | {_first_sentence(path)} |")
    parts = [_HEAD]
    for folder, rows in sorted(folders.items()):
        title = "slipstream" if folder == "." else folder
        parts.append("\n".join([f"## {title}", "", "| module | what it is |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _first_sentence(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    text = path.read_text()
    if path.suffix == ".py":
        found = ast.get_docstring(ast.parse(text))
    else:
        quoted = re.search(r'^"""(.*?)"""', text, re.M | re.S)
        found = None if quoted is None else quoted[1]
    if not found:
        raise ValueError(f"{path} has no docstring")
    return " ".join(found.split("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
