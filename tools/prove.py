"""Run the proof campaigns and write down what they found.

    python tools/prove.py                   all campaigns in their long form; writes docs/proofs.md
    python tools/prove.py kill power        some of them; the figures of the others stay
    python tools/prove.py --cases 3 kill    another number of cases; prints, writes nothing
    python tools/prove.py --part 500 raft   the next 500 cases; figures are added to those of the cases before
    python tools/prove.py --part 500 --jobs 2 raft   ... in two processes

Cases of parts are added up as long as nothing has changed in what the campaign names as its sources, and begin anew
when something has; they are refused while what is there is not what was committed. The page names every commit.

The figures are kept in docs/proofs.json; docs/proofs.md is made from them and from nothing else. Exits with 1 when a
promise was broken, or when a control did not find what it must.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from multiprocessing import get_context
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
@click.option("--part", type=int, default=0, help="So many cases more than there are figures of.")
@click.option("--jobs", type=int, default=1, help="In so many processes; only with --part.")
def main(names: tuple[str, ...], cases: int, part: int, jobs: int) -> None:
    """Run campaigns by name, or all."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
    campaigns = import_module("campaigns.runs").CAMPAIGNS

    unknown = [name for name in names if name not in campaigns]
    if unknown:
        raise click.UsageError(f"unknown: {', '.join(unknown)}; known: {', '.join(campaigns)}")
    failed = False
    for name in names or tuple(campaigns):
        campaign = campaigns[name]
        if part:
            entry = _next_part(name, campaign, part, jobs)
        else:
            click.echo(f"{name}: {cases or campaign.cases} cases", err=True)
            began = monotonic()
            found = campaign.run(cases or campaign.cases)
            entry = _entry(campaign, found, round(monotonic() - began), _git("rev-parse", "--short", "HEAD"))
        click.echo(json.dumps(entry, indent=2))
        failed = failed or bool(entry["broken"]) or not entry["control_found"]
        if not cases:
            _keep(name, entry, list(campaigns))
    sys.exit(1 if failed else 0)


def _entry(campaign: Any, found: Any, seconds: int, commit: str, **more: Any) -> dict[str, Any]:
    return {
        "title": campaign.title,
        "promise": campaign.promise,
        "counts": found.counts,
        "broken": found.broken[:20],
        "control": found.control,
        "control_found": found.control_found,
        "seconds": seconds,
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit or "no repository",
        **more,
    }


def _next_part(name: str, campaign: Any, count: int, jobs: int) -> dict[str, Any]:
    """The figures so far with those of so many more cases."""
    if campaign.parts is None:
        raise click.UsageError(f"{name} has no parts")
    if changed := _git("status", "--porcelain", "--", *campaign.parts.sources):
        raise click.ClickException(f"not committed, so nobody could run it again:\n{changed}")
    figures, added = import_module("campaigns.figures").Figures, import_module("campaigns.figures").added
    state, commit = _state(campaign.parts.sources), _git("rev-parse", "--short", "HEAD")
    before = json.loads(FIGURES.read_text()).get(name, {}) if FIGURES.exists() else {}
    if before.get("sources") != state:
        before = {}
    first = before.get("cases", 0)
    click.echo(f"{name}: cases {first} to {first + count - 1}", err=True)
    began = monotonic()
    found = (
        figures(before["counts"], before["broken"], before["control"], before["control_found"])
        if before
        else campaign.parts.control()
    )
    if jobs == 1:
        found = added(found, campaign.parts.run(range(first, first + count)))
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_find_campaigns) as pool:
            for more in pool.map(_run_cases, [(name, first + job, first + count, jobs) for job in range(jobs)]):
                found = added(found, more)
    commits = [*before.get("commits", []), *([commit] if commit not in before.get("commits", []) else [])]
    seconds = before.get("seconds", 0) + round(monotonic() - began)
    return _entry(campaign, found, seconds, ", ".join(commits), commits=commits, cases=first + count, sources=state)


def _find_campaigns() -> None:
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]


def _run_cases(which: tuple[str, int, int, int]) -> Any:
    name, *numbers = which
    return import_module("campaigns.runs").CAMPAIGNS[name].parts.run(range(*numbers))


def _state(sources: tuple[str, ...]) -> str:
    """A name of what is committed of these."""
    return sha256(_git("ls-tree", "-r", "HEAD", *sources).encode()).hexdigest()[:16]


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


def _shown(value: float | str) -> str:
    return f"{value:,}" if isinstance(value, int | float) else value


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
