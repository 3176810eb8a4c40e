"""`--signal name[=pid]`: tell another server on this machine to stop, reload, reopen its log or leave.

    stop=4711    a process        stop=/run/nats.pid    the process a file names
    stop         the only one     stop=47*              those whose id begins so; `*` is all

What this is not: what a server does when a signal comes; that is `process`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from slipstream.errors import ConfigError

__all__ = ["running_servers", "send_signal"]

_PROGRAM: Final = "nats-server"  # in messages, which scripts look for
_PID_MAX: Final = 2**31 - 1
_PID_FILE_BYTES_MAX: Final = 64
_COMMAND_BYTES_MAX: Final = 4096

_SIGNALS: Final = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}
# How a server was started, behind the interpreter: the program or a link to it, or the module.
_PROGRAMS: Final = frozenset({b"slipstream-server", b"nats-server"})
_MODULE: Final = [b"-m", b"slipstream.server"]
_COMMAND: Final = [b"server", b"run"]  # of `slipstream`


def send_signal(asked: str, processes: str = "/proc") -> None:
    """Send a signal to one server, or to several.

    Args:
        asked: what the flag says.
        processes: where the system shows its processes.

    Raises:
        ConfigError: the signal is unknown, or there is no such process.
    """
    name, _, target = asked.partition("=")
    if "=" in target:
        raise ConfigError(f"invalid signal parameters: [{' '.join(target.split('=')[1:])}]")
    problems = ""
    for pid in _targets(target, processes):
        if name not in _SIGNALS:
            raise ConfigError(f'unknown signal "{name}"')
        try:
            os.kill(pid, _SIGNALS[name])
        except OSError as error:
            problems += f'\nsignal "{name}" {pid}: {(error.strerror or "").lower()}'
    if problems:
        raise ConfigError(problems)


def _targets(target: str, processes: str) -> list[int]:
    if target and not target.endswith("*"):
        with suppress(OSError), open(target, "rb") as file:  # not a file: it is the number itself
            target = file.read(_PID_FILE_BYTES_MAX).decode("ascii", "replace").strip()
    prefix = target.removesuffix("*")
    # 0 would be every process of our own group.
    if prefix and (not prefix.isdecimal() or not 0 < int(prefix[:11]) <= _PID_MAX):
        raise ConfigError(f"invalid pid: {prefix}")
    if prefix and prefix == target:
        return [int(prefix)]
    found = sorted(running_servers(processes))
    if target.endswith("*"):
        found = [pid for pid in found if str(pid).startswith(prefix)]
    elif len(found) > 1:
        listed = "".join(f"\n{pid}" for pid in found)
        raise ConfigError(f"multiple {_PROGRAM} processes running:{listed}")
    if not found:
        raise ConfigError(f"no {_PROGRAM} processes running")
    return found


def running_servers(processes: str = "/proc") -> Iterator[int]:
    """Ids of the servers of this program that run on this machine, without the process itself."""
    try:
        names = os.listdir(processes)
    except OSError:
        raise ConfigError("unable to resolve pid, try providing one") from None
    for name in names:
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(os.path.join(processes, name, "cmdline"), "rb") as file:
                words = file.read(_COMMAND_BYTES_MAX).split(b"\0")
        except OSError:  # it ended meanwhile, or is none of our business
            continue
        if _is_server(words):
            yield int(name)


def _is_server(words: list[bytes]) -> bool:
    if not os.path.basename(words[0]).startswith(b"python"):
        return False
    program, *arguments = words[1:] or [b""]
    if os.path.basename(program) in _PROGRAMS or words[1:3] == _MODULE:
        return not _asks_for_signal(words[2:])
    return os.path.basename(program) == b"slipstream" and arguments[:2] == _COMMAND


def _asks_for_signal(words: list[bytes]) -> bool:
    """Whether it is one that sends a signal itself, or only prints something."""
    flags = {word.lstrip(b"-").partition(b"=")[0] for word in words if word.startswith(b"-")}
    return bool(flags & {b"sl", b"signal", b"t", b"v", b"version", b"h", b"help"})
