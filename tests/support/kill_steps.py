"""Processes that are killed before a step of our choice; `kill_steps.c` says what a step is."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("kill_steps.c")
HAS_COMPILER = shutil.which("cc") is not None


class KillSteps:
    """Whom it is about, and when it dies."""

    def __init__(self, directory: Path) -> None:
        library, plan = directory / "kill_steps.so", directory / "kill_steps.plan"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
        plan.write_bytes(bytes(32))
        self.environment = {"LD_PRELOAD": str(library), "KILL_STEPS": str(plan)}
        with plan.open("r+b") as file:
            self._plan = mmap.mmap(file.fileno(), 32)

    def arm(self, pid: int, step: int, *, torn: bool = False) -> None:
        """Let a process die before its next step of this number; 0: only count."""
        self._plan[:] = struct.pack("=4Q", 0, 0, step, torn)
        self._plan[:8] = struct.pack("=Q", pid)

    @property
    def steps(self) -> int:
        """Of the process since then."""
        return int(struct.unpack("=4Q", self._plan[:])[1])
