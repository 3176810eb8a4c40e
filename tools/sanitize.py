"""Kernels with AddressSanitizer and UndefinedBehaviorSanitizer, built beside the ordinary ones.

    python tools/sanitize.py                    build with gcc, then run the tests of kernels against them
    python tools/sanitize.py --short            not optimised, and only tests that feed bad bytes: two minutes
    python tools/sanitize.py -- tests/unit/x    other tests, or any other argument of pytest
    python tools/sanitize.py --fuzzing          build with clang and coverage counters, for `make campaign-fuzz`

Python's own allocator is left aside and the runtime of the sanitizers is loaded first, so that buffers which Python
owns are watched as well. Sources with the sanitized kernels among them are kept under `build`; nothing else is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
SANITIZED = ROOT / "build" / "sanitized"
SHORT = ROOT / "build" / "sanitized-short"
FUZZING = ROOT / "build" / "fuzzing"
ATHERIS = FUZZING / "atheris"  # the fuzzer, for these processes alone
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
CHECKS = [*SANITIZERS, "-g", "-O1"]
SHORT_CHECKS = [*SANITIZERS, "-g1", "-O0"]  # builds in a third of the time
TESTS = ("tests/unit/kernels", "tests/differential", "tests/fuzz", "tests/property/test_store_machine.py")
# For every change: what reads bytes of others, and what hands bytes from one kernel to the next.
SHORT_TESTS = (
    "-n2",
    "tests/fuzz",
    *(
        f"tests/differential/test_{name}.py"
        for name in ("wire", "wsframes", "record", "hostile_files", "natsblock", "s2block", "staged_rows", "bulkscan")
    ),
)
# The build that setuptools makes of pyproject.toml, with other flags: those of a kernel itself would come last and win.
BUILD = """
from setuptools import setup
from setuptools.command.build_ext import build_ext

FLAGS = {flags!r}

class Sanitized(build_ext):
    def build_extensions(self):
        for extension in self.extensions:
            extension.extra_compile_args = FLAGS
            extension.extra_link_args = FLAGS
        super().build_extensions()

setup(cmdclass={{"build_ext": Sanitized}})
"""


def build(tree: Path, compiler: str, flags: list[str]) -> None:
    """A tree of sources with kernels built by this compiler with these flags; what has not changed is kept."""
    kernels = tree / "temp" / "lib"
    places = ["--build-temp", str(tree / "temp"), "--build-lib", str(kernels), "--parallel", "2"]
    subprocess.run(
        [sys.executable, "-c", BUILD.format(flags=flags), "-q", "build_ext", *places],
        cwd=ROOT,
        env={**os.environ, "CC": compiler, "LDSHARED": f"{compiler} -shared", "CFLAGS": "-w"},
        check=True,
    )
    package = tree / "src"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info"))
    shutil.copytree(kernels, package, dirs_exist_ok=True)


def environment(tree: Path, runtime: str) -> dict[str, str]:
    """What a Python process needs to use the kernels of a tree."""
    return {
        **os.environ,
        "LD_PRELOAD": runtime,
        "PYTHONPATH": f"{tree / 'src'}",
        "PYTHONMALLOC": "malloc",
        # Python leaves memory to the end of the process. Requests that cannot be met are an error of Python's own.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def runtime_of_gcc() -> str:
    """The library that the sanitizers of gcc need before all others."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return str(Path(found.stdout.strip()).resolve())


def build_sanitized(*, short: bool = False) -> dict[str, str]:
    """Kernels by gcc; the environment to use them in."""
    tree, flags = (SHORT, SHORT_CHECKS) if short else (SANITIZED, CHECKS)
    build(tree, "gcc", flags)
    return environment(tree, runtime_of_gcc())


def fuzzing_environment() -> dict[str, str]:
    """Kernels by clang with counters that a fuzzer is guided by, and the environment to use them in.

    Raises:
        click.ClickException: clang is missing, or atheris cannot be had.
    """
    if shutil.which("clang") is None:
        raise click.ClickException("fuzzing needs clang; please install it as root: apt-get install clang")
    if not (ATHERIS / "atheris").exists():
        wanted = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(ATHERIS), "atheris>=3"]
        if subprocess.run(wanted).returncode:
            raise click.ClickException("fuzzing needs atheris, which pip could not install")
    # What Cython makes of a call without arguments adds 0 to NULL, which clang objects to.
    build(FUZZING, "clang", ["-fsanitize=fuzzer-no-link", *CHECKS, "-fno-sanitize=pointer-overflow"])
    made = environment(FUZZING, str(ATHERIS / "asan_with_fuzzer.so"))
    made["PYTHONPATH"] += f":{ATHERIS}"
    return made


@click.command()
@click.option("--short", is_flag=True, help="Build without optimisation and run the tests of SHORT_TESTS.")
@click.option("--fuzzing", is_flag=True, help="Only build, with clang and coverage counters.")
@click.argument("arguments", nargs=-1)
def main(short: bool, fuzzing: bool, arguments: tuple[str, ...]) -> None:
    """Build the kernels with sanitizers and run tests against them."""
    if fuzzing:
        fuzzing_environment()
        return
    sanitized = build_sanitized(short=short)
    tests = arguments or (SHORT_TESTS if short else TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    sys.exit(subprocess.run(command, cwd=ROOT, env=sanitized).returncode)


if __name__ == "__main__":
    main()
