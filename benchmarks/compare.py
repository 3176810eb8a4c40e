"""Measure Slipstream and nats-server in turn and write the table of results.

    python -m benchmarks.compare [--family NAME ...] [--only NAME ...] [--repeat 5] [--quick]

Each run has a server of its own, started for it and warmed up; the two servers take turns, so that a busy moment of
the machine hits both. A run that fails, for example because messages are missing, fails its rows and is listed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import cluster, core, growth, jetstream, js_consumers, replicated
from benchmarks.ceiling import measure_ceiling
from benchmarks.machine import CALM_SHARE, ProcessorWatch, wait_for_calm
from benchmarks.report import Circumstances, Measured, render
from benchmarks.scenario import MessagesMissing, Scale, Scenario
from benchmarks.servers import Server, ServerFailed
from slipstream.client.options import ClientError
from slipstream.version import PRODUCT_VERSION

FAMILIES: dict[str, tuple[Scenario, ...]] = {
    "core": core.SCENARIOS,
    "jetstream": jetstream.SCENARIOS,
    "consumers": js_consumers.SCENARIOS,
    "growth": growth.SCENARIOS,
    "cluster": cluster.SCENARIOS,
    "replicated": replicated.SCENARIOS,
}
SCENARIOS: tuple[Scenario, ...] = tuple(one for family in FAMILIES.values() for one in family)
_HERE = Path(__file__).resolve().parent
RESULTS = {
    "core": _HERE / "RESULTS.md",
    "jetstream": _HERE / "RESULTS-jetstream.md",
    "consumers": _HERE / "RESULTS-consumers.md",
    "growth": _HERE / "RESULTS-growth.md",
    "cluster": _HERE / "RESULTS-cluster.md",
    "replicated": _HERE / "RESULTS-replicated.md",
}
_CALM_TIMEOUT_S = 20.0  # how long a patient comparison waits for a calm machine before a run
PROGRAMS = Path(sys.executable).parent


@click.command()
@click.option("--ours", type=click.Path(path_type=Path), default=PROGRAMS / "slipstream-server", help="Our server.")
@click.option("--theirs", type=click.Path(path_type=Path), default=PROGRAMS / "nats-server", help="The real server.")
@click.option("--only", multiple=True, type=click.Choice([one.name for one in SCENARIOS]), help="Only this scenario.")
@click.option("--family", multiple=True, type=click.Choice(list(FAMILIES)), help="Only these scenarios.")
@click.option("--repeat", default=5, type=click.IntRange(1, 100), show_default=True, help="Runs of each server.")
@click.option(
    "--patience",
    default=0,
    type=click.IntRange(0, 20),
    help="Wait for a calm machine, and try disturbed runs again so often.",
)
@click.option("--quick", is_flag=True, help="A tenth of the work and one run each; prints, writes nothing.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the table here instead.")
def main(
    ours: Path,
    theirs: Path,
    only: Sequence[str],
    family: Sequence[str],
    repeat: int,
    patience: int,
    quick: bool,
    output: Path | None,
) -> None:
    """Compare the two servers, and exit with 1 when a bar is missed.

    The results file of a family is written by a full run of all its scenarios; any other run prints its table.
    """
    ours, theirs = ours.absolute(), theirs.absolute()  # servers run in directories of their own
    scale = Scale.QUICK if quick else Scale.FULL
    repeats = 1 if quick else repeat
    comparison = _Comparison(ours, theirs, scale=scale, repeats=repeats, patience=patience)
    versions = _version(ours), _version(theirs)
    chosen = {one.name for name in family or FAMILIES for one in FAMILIES[name]}
    scenarios = [one for one in SCENARIOS if one.name in (only or chosen)]
    ceiling = measure_ceiling(scale.of(5_000_000))
    measured = {scenario.name: comparison.measure(scenario) for scenario in scenarios}
    where = Circumstances(
        ours=f"{PRODUCT_VERSION} ({versions[0]})",
        theirs=versions[1],
        repeats=repeats,
        scale="a tenth of the work" if quick else "full work",
        foreign_share=comparison.foreign_share,
    )
    rows = [row for found in measured.values() for row in found]
    page = render(rows, where, ceiling)
    click.echo(page)
    if output is not None:
        output.write_text(page)
    elif not quick:
        for name, members in FAMILIES.items():
            if all(one.name in measured for one in members):
                RESULTS[name].write_text(render([row for one in members for row in measured[one.name]], where, ceiling))
    sys.exit(1 if any(row.verdict() == "FAIL" for row in rows) else 0)


class _Comparison:
    """Two servers that take turns."""

    def __init__(self, ours: Path, theirs: Path, *, scale: Scale, repeats: int, patience: int) -> None:
        self._ours = ours
        self._theirs = theirs
        self._scale = scale
        self._patience = patience  # further tries of a disturbed run
        self._repeats = repeats
        self.foreign_share = 0.0  # the most that other processes took of the machine during a run

    def measure(self, scenario: Scenario) -> list[Measured]:
        """All runs of one scenario. A failure of our server is a result; one of theirs ends the comparison."""
        measured = [Measured(row) for row in scenario.rows]
        for _ in range(self._repeats):
            try:
                values = self._run(scenario, self._ours)
            except (ClientError, ServerFailed, MessagesMissing) as error:
                click.echo(f"{scenario.name}: {self._ours.name}: {error}", err=True)
                for one in measured:
                    one.failures.append(_first_and_last(str(error)))
            else:
                for one, value in zip(measured, values, strict=True):
                    one.ours.append(value)
            for one, value in zip(measured, self._run(scenario, self._theirs), strict=True):
                one.theirs.append(value)
        return measured

    def _run(self, scenario: Scenario, binary: Path) -> Sequence[float]:
        """One run; when other processes disturb it, again, and the calmest counts."""
        values, foreign = self._try(scenario, binary)
        for _ in range(self._patience):
            if foreign <= CALM_SHARE:
                break
            again, foreign_again = self._try(scenario, binary)
            if foreign_again < foreign:
                values, foreign = again, foreign_again
        self.foreign_share = max(self.foreign_share, foreign)
        return values

    def _try(self, scenario: Scenario, binary: Path) -> tuple[Sequence[float], float]:
        """Measure on a server of its own; also tell which share of the machine other processes took."""
        if self._patience:
            wait_for_calm(_CALM_TIMEOUT_S)
        with tempfile.TemporaryDirectory(prefix="benchmark-") as home:
            watch = ProcessorWatch()
            with Server(binary, Path(home), scenario.flags) as server:
                values = scenario.run(server, self._scale)
                server_s, load_s = server.cpu_ns() / 1e9, watch.load_s()
                foreign = watch.foreign_share(server_s)
        numbers = ", ".join(f"{value:.4g} {row.unit}" for row, value in zip(scenario.rows, values, strict=True))
        cpu = f"processor: server {server_s:.2f} s, load {load_s:.2f} s, others {foreign:.0%}"
        click.echo(f"{scenario.name}: {binary.name}: {numbers} ({cpu})", err=True)
        return values, foreign


def _first_and_last(text: str) -> str:
    """What happened, and the last line of the log behind it."""
    lines = text.strip().splitlines() or ["failed"]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


def _version(binary: Path) -> str:
    """What the program says about itself."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20)
    except OSError as error:
        raise click.ClickException(f"cannot run {binary}: {error}") from error
    if done.returncode:
        raise click.ClickException(f"{binary} --version failed: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
