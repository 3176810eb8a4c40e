"""What a measurement was made on, and how much of the machine others took meanwhile. Reads /proc, asks git."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import sysconfig
from pathlib import Path
from time import monotonic, sleep

__all__ = ["CALM_SHARE", "ProcessorWatch", "commit", "description", "how_built", "wait_for_calm"]

CALM_SHARE = 0.05  # what other processes may take of the machine before a run counts as disturbed


class ProcessorWatch:
    """Processor time from its creation on."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._began_s = monotonic()
        self._busy_before_s = _busy_s()
        self._children_before_s = _own_s(resource.RUSAGE_CHILDREN)
        self._self_before_s = _own_s(resource.RUSAGE_SELF)

    def load_s(self) -> float:
        """Taken by this process and by children that have ended: the load, while the server still runs."""
        children_s = _own_s(resource.RUSAGE_CHILDREN) - self._children_before_s
        return children_s + _own_s(resource.RUSAGE_SELF) - self._self_before_s

    def foreign_share(self, server_s: float) -> float:
        """Which part of the machine neither load nor server took but somebody else, from 0 to 1.

        Half a second is the least that the kernel's clock of 10 ms can tell anything about; before, the answer is 0.
        """
        elapsed_s = monotonic() - self._began_s
        if elapsed_s < 0.5:
            return 0.0
        foreign_s = _busy_s() - self._busy_before_s - self.load_s() - server_s
        return min(max(foreign_s / elapsed_s / (os.cpu_count() or 1), 0.0), 1.0)


def wait_for_calm(timeout_s: float) -> None:
    """Return when nobody has used the machine for half a second, or when it took too long."""
    deadline_s = monotonic() + timeout_s
    while monotonic() < deadline_s:
        watch = ProcessorWatch()
        sleep(0.5)
        if watch.foreign_share(server_s=0.0) <= CALM_SHARE:
            return


def how_built() -> str:
    """What is to be said of an interpreter that is slower than it could be; nothing of others.

    Debian optimizes its interpreter with a profile as well, by its own rules and not by this switch.
    """
    args = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimized = "--enable-optimizations" in args or (sys.base_prefix == "/usr" and Path("/etc/debian_version").exists())
    return "" if optimized else " (built without optimisations)"


def description() -> str:
    """Processor, memory and operating system in one line."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{_processor()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {system}"


def commit() -> str:
    """Short commit id of this checkout, with a mark when the source differs from it."""
    here = Path(__file__).resolve().parent

    def git(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=here, capture_output=True, text=True, timeout=20)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with local changes" if changed else "")


def _processor() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.machine()


def _busy_s() -> float:
    """Of all processors in user and kernel mode; interrupts belong to nobody and are left out."""
    user, nice, system = Path("/proc/stat").read_text().split(maxsplit=4)[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def _own_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
