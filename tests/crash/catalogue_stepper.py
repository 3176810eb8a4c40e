"""A REST catalogue of Iceberg in a child for each line that it reads, until that child dies.

python catalogue_stepper.py DIRECTORY PORT

    reads  a line: fork; prints the child's process id when it listens. Prints its status when it has died
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def main(directory: str, port: str) -> None:
    from support.rest_catalogue import RestCatalogue

    warnings.simplefilter("ignore")
    while sys.stdin.readline():
        listening, said = os.pipe()
        child = os.fork()
        if not child:
            RestCatalogue(Path(directory), int(port))
            os.write(said, b"x")
            threading.Event().wait()
        assert os.read(listening, 1) == b"x"
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
