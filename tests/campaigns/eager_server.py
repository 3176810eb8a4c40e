"""The server program with a promise broken on purpose: readers see what is not committed, or not what was received.

Usage: EAGER=removals|reads eager_server.py <flags>
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def main() -> int:
    from slipstream.server.main import main as serve

    if os.environ["EAGER"] == "removals":
        _remove_at_once()
    else:
        _read_at_once()
    return serve()


def _remove_at_once() -> None:
    """Removals are seen when they are decided, before the message that caused them."""
    import slipstream.jetstream.store.assigned as assigned
    from slipstream.kernels.index.pendingremovals import PendingRemovals

    class Eager:
        def __init__(self, index: object) -> None:
            self._removals = PendingRemovals(index)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(self._removals, name)

        def __bool__(self) -> bool:
            return False

        def log(self) -> None:
            """Done already."""

        take = settle = log

        def _done(self, outcome: object) -> object:
            self._removals.log()
            self._removals.take()
            self._removals.settle()
            return outcome

        def remove(self, seq: int) -> object:
            return self._done(self._removals.remove(seq))

        def remove_many(self, seqs: bytes) -> object:
            return self._done(self._removals.remove_many(seqs))

        def remove_below(self, first_seq: int) -> object:
            return self._done(self._removals.remove_below(first_seq))

    vars(assigned)["PendingRemovals"] = Eager


def _read_at_once() -> None:
    """Readers do not wait for what was received before them."""
    from slipstream.jetstream.stream.stream import Stream

    Stream.after_received = lambda _self, callback, **_: callback()  # type: ignore[method-assign]


def eager_program(directory: Path, what: str) -> Path:
    """A program that runs this file."""
    program = directory / "eager-server"
    program.write_text(f'#!/bin/sh\nEAGER="{what}" exec "{sys.executable}" "{Path(__file__).absolute()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


if __name__ == "__main__":
    sys.exit(main())
