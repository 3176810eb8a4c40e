"""Run the proof campaigns and write down what they found.

    python tools/prove.py                   all campaigns in their long form; writes docs/proofs.md
    python tools/prove.py kill power        some of them; the figures of the others stay
    python tools/prove.py --cases 3 kill    another number of cases; prints, writes nothing

The figures are kept in docs/proofs.json; docs/proofs.md is made from them and from nothing else. Exits with 1 when a
promise was broken, or when a control did not find what it must.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "proofs.json"
PAGE = ROOT / "docs" / "proofs.md"
HEAD = """# Proofs

What was promised, how often it was tried, and what was found. Made by `tools/prove.py` from the last run of each
campaign; do not edit. Short forms of all of them run with every `make test`.

| command | runs |
|---|---|
| `make campaigns` | everything below: some hours, and days of fuzzing |
| `make campaign-kill` and so on | one of them |

A campaign proves nothing if it cannot fail. Each has a control: the same checks where the promise is broken on purpose.
"""


@click.command()
@click.argument("names", nargs=-1)
@click.option("--cases", type=int, default=0, help="Another number of cases than that of the long form.")
def main(names: tuple[str, ...], cases: int) -> None:
    """Run campaigns by name, or all."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
    campaigns = import_module("campaigns.runs").CAMPAIGNS

    unknown = [name for name in names if name not in campaigns]
    if unknown:
        raise click.UsageError(f"unknown: {', '.join(unknown)}; known: {', '.join(campaigns)}")
    failed, commit = False, _commit()
    for name in names or tuple(campaigns):
        campaign = campaigns[name]
        click.echo(f"{name}: {cases or campaign.cases} cases", err=True)
        began = monotonic()
        found = campaign.run(cases or campaign.cases)
        entry = {
            "title": campaign.title,
            "promise": campaign.promise,
            "counts": found.counts,
            "broken": found.broken[:20],
            "control": found.control,
            "control_found": found.control_found,
            "seconds": round(monotonic() - began),
            "when": datetime.now(UTC).strftime("%Y-%m-%d"),
            "commit": commit,
        }
        click.echo(json.dumps(entry, indent=2))
        failed = failed or bool(found.broken) or not found.control_found
        if not cases:
            _keep(name, entry, list(campaigns))
    sys.exit(1 if failed else 0)


def _keep(name: str, entry: dict[str, Any], order: list[str]) -> None:
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    figures[name] = entry
    figures = {key: figures[key] for key in order if key in figures}
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n")
    PAGE.write_text(page(figures))


def page(figures: dict[str, Any]) -> str:
    """The page for these figures."""
    text = HEAD
    for name, entry in figures.items():
        verdict = "kept" if not entry["broken"] else "BROKEN"
        control = "found" if entry["control_found"] else "NOT FOUND"
        text += f"\n## {entry['title']}\n\n{entry['promise']} **{verdict}**\n\n| | |\n|---|---|\n"
        text += "".join(f"| {key} | {_shown(value)} |\n" for key, value in entry["counts"].items())
        text += f"| control: {entry['control']} | {control} |\n"
        text += f"| `make campaign-{name}`, {entry['seconds']} s | {entry['when']}, {entry['commit']} |\n"
        text += "".join(f"\n- {broken}" for broken in entry["broken"]) + ("\n" if entry["broken"] else "")
    return text


def _shown(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "no repository"


if __name__ == "__main__":
    main()
