"""One target under libFuzzer, guided by coverage: `python worker.py <module> <target> [arguments of libFuzzer]`.

Started by `campaigns.fuzzing`, in an environment where kernels are those with sanitizers and counters. Of the Python
code only what reads the bytes is counted as well. Ends with an error at the first broken promise, and leaves the input
that broke it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
READERS = [
    "slipstream.config",
    "slipstream.jetstream.backup",
    "slipstream.jetstream.gojson",
    "slipstream.protocol.info",
]


def main() -> None:
    """Fuzz until told to stop or something is found."""
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]
    import atheris

    module, name = sys.argv[1:3]
    with atheris.instrument_imports(include=READERS):
        targets = import_module(module).TARGETS
    target = next(target for target in targets if target.name == name)
    atheris.Setup([sys.argv[0], *sys.argv[3:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
