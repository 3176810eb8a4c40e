"""One target under libFuzzer, guided by coverage: `python worker.py <module> <target> [arguments of libFuzzer]`.

Started by `campaigns.fuzzing`, in an environment where kernels are those with sanitizers and counters. Of the Python
code only what reads the bytes is counted as well. Ends with an error at the first broken promise, and leaves the input
that broke it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

TESTS = Path(__file__).resolve().parents[1]
READERS = (
    *(
        f"slipstream.{name}"
        for name in ("auth.jwt", "auth.oidc", "config", "protocol", "replication", "rest", "schemas")
    ),
    *(
        f"slipstream.jetstream.{name}"
        for name in ("backup", "gojson", "store.file.replica", "store.packed", "store.sealed")
    ),
)


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that are defined in a module."""
    for value in vars(module).values():
        members = vars(value).values() if isinstance(value, type) else [value]
        yield from (one for one in members if isinstance(one, FunctionType) and one.__module__ == module.__name__)


def main() -> None:
    """Fuzz until told to stop or something is found."""
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]
    import atheris

    module, name = sys.argv[1:3]
    target = next(target for target in import_module(module).TARGETS if target.name == name)
    for imported, found in list(sys.modules.items()):
        if imported.startswith(READERS):
            for function in set(functions_of(found)):
                atheris.instrument_func(function)
    atheris.Setup([sys.argv[0], *sys.argv[3:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
