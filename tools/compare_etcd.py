"""Puts an etcd load on kine, with its data in nats-server and in this server, and compares what came of every call.

    python tools/compare_etcd.py                     builds kine and the load below build/etcd, and runs them
    python tools/compare_etcd.py --workers 32        more writers at a time
    python tools/compare_etcd.py --programs DIR      `kine` and `load` are there already

kine is what lets Kubernetes keep its state in NATS: an etcd of which every key is a key of a bucket. The load
(`etcd/load.go.txt`) is written with etcd's own client, in the calls that Kubernetes makes: creations, updates and
removals with optimistic locks, reads at old revisions, pages, counts, leases, a watch over all of it, and many writers
at once. Each answer, each event and each revision of the part with one writer has to be the same; of the part with many
writers, what the watch saw of each key and what is there in the end. The program ends with 1 when something differs.
What cannot be built here is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare_exporters import free_ports, running_server

KINE = "github.com/k3s-io/kine@v0.13.5"
LOAD = Path(__file__).resolve().parent / "etcd" / "load.go.txt"
BUILD_SECONDS_MAX = 1800
RUN_SECONDS_MAX = 300
READY_SECONDS_MAX = 60.0
HISTORY = 64  # revisions of a key: a watch that is late by more does not see all of them, with any server
SHARED = "/load/shared/counter"  # has more of them
SHOWN_MAX = 20  # differences
_REVISION = re.compile(r"\+\d+")

Report = dict[str, Any]


class NotAvailable(Exception):
    """It cannot be run here; the text says why."""


def build(programs: Path) -> None:
    """Make kine and the load, with the modules that this version of kine names.

    Raises:
        NotAvailable: there is no go, or a module cannot be had.
    """
    if all((programs / name).exists() for name in ("kine", "load")):
        return
    if shutil.which("go") is None:
        raise NotAvailable("go is not installed")
    found = _go(["mod", "download", "-json", KINE], Path(tempfile.gettempdir()))
    source = programs / "source"
    shutil.rmtree(source, ignore_errors=True)
    # The cache of modules cannot be written to, nor can a copy of its modes.
    shutil.copytree(json.loads(found)["Dir"], source, copy_function=shutil.copyfile)
    for folder in (source, *(each for each in source.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    (source / "load").mkdir()
    shutil.copyfile(LOAD, source / "load" / "main.go")
    for name, package in (("kine", "."), ("load", "./load")):
        _go(["build", "-o", str(programs / name), package], source)


def _go(words: list[str], directory: Path) -> str:
    done = subprocess.run(["go", *words], cwd=directory, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
    if done.returncode:
        raise NotAvailable(f"it cannot be built: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def run(programs: Path, server: Path, workers: int, changes: int) -> tuple[Report, float]:
    """What the load reports of a new server, and how many seconds it took.

    Raises:
        SystemExit: it does not come to its end.
    """
    port, http, own = free_ports(3)
    with tempfile.TemporaryDirectory() as directory, running_server(server, Path(directory), port, http):
        endpoint = f"nats://app:app@127.0.0.1:{port}?noEmbed&bucket=kine&revHistory={HISTORY}"
        command = [str(programs / "kine"), "--endpoint", endpoint, "--listen-address", f"127.0.0.1:{own}"]
        log = Path(directory) / "kine.log"
        with (
            log.open("wb") as written,
            subprocess.Popen([*command, "--metrics-bind-address", "0"], stdout=written, stderr=written) as kine,
        ):
            try:
                _wait_for(log, "Kine available at", kine)
                begun = time.monotonic()
                words = [str(programs / "load"), f"http://127.0.0.1:{own}", str(workers), str(changes)]
                done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
                took = time.monotonic() - begun
            finally:
                kine.kill()
        if done.returncode:
            raise SystemExit(f"the load with {server.name}: {done.stderr[-3000:]}\n{log.read_text()[-2000:]}")
    return json.loads(done.stdout), took


def _wait_for(log: Path, text: str, program: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_SECONDS_MAX
    while text not in log.read_text(errors="replace"):
        if program.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"kine did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def facts(report: Report) -> dict[str, str]:
    """What of a report does not depend on which worker was faster, by where it stands."""
    found = {f"step {number}": step for number, step in enumerate(report["steps"])}
    # Whoever comes last has a revision that depends on how often others were in the way of each other.
    last = f"step {len(report['steps']) - 1}"
    found[last] = _REVISION.sub("+n", found[last])
    for key, events in report["events"].items():
        if key != SHARED:
            found |= {f"event {number} of {key}": event for number, event in enumerate(events)}
    return found | {f"{key} in the end": value for key, value in report["there"].items()}


def main() -> int:
    """Build, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=Path("build/etcd"))
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--changes", type=int, default=100, help="of each worker")
    beside = Path(sys.executable).parent
    parser.add_argument("--ours", type=Path, default=beside / "slipstream-server")
    parser.add_argument("--theirs", type=Path, default=beside / "nats-server")
    options = parser.parse_args()
    programs = options.programs.absolute()
    programs.mkdir(parents=True, exist_ok=True)
    try:
        build(programs)
    except NotAvailable as reason:
        print(f"etcd: left out, {reason}")
        return 0
    reports = []
    for words, binary in (("nats-server", options.theirs), ("ours", options.ours)):
        report, took = run(programs, binary, options.workers, options.changes)
        reports.append(facts(report))
        print(
            f"etcd with {words}: {len(report['steps'])} steps, {sum(map(len, report['events'].values()))} events of "
            f"{len(report['events'])} keys, {len(report['there'])} keys in the end, {took:.1f} s",
            flush=True,
        )
    real, ours = reports
    different = [each for each in sorted(real.keys() | ours.keys()) if real.get(each) != ours.get(each)]
    for each in different[:SHOWN_MAX]:
        print(f"etcd: {each}\n  with nats-server: {real.get(each)}\n  with ours:        {ours.get(each)}")
    print(f"etcd: {len(different)} of {len(real)} differ" if different else f"etcd: {len(real)} facts, all the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
