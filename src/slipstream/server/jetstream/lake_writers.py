"""`lake { … }`: processes beside the server that write streams to tables (ADR 98).

Compression and Parquet take processors and memory, catalogues hang, libraries crash: none of that may reach the server.
So a block is a process, `slipstream.lake.child`, which is a client like any other. A thread here starts it, reads what
it tells, and starts it again when it ends, with growing pauses. What it has committed is in the tables, so it goes on
wherever it was.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from slipstream.monitoring.lake_facts import LakeState, TableState
from slipstream.server.limits import LAKE_PAUSE_MAX_S, LAKE_PAUSE_S, LAKE_STOP_S
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.lake_options import LakeOptions
    from slipstream.server.process.logs import Log
    from slipstream.server.server import Server

__all__ = ["LakeWriter", "LakeWriters", "child_settings"]

_COMMAND: Final = (sys.executable, "-m", "slipstream.lake.child")
_STRAY_LINES_MAX: Final = 20  # of a process: what libraries print before they crash


def child_settings(options: LakeOptions, url: str, domain: str = "") -> dict[str, Any]:
    """What a process is told: see `slipstream.lake.child`."""
    login = {
        "servers": options.url or url,
        "user": options.user,
        "password": options.password,
        "token": options.token,
        "creds_file": options.credentials,
        "nkey_file": options.nkey_file,
        "tls_ca": options.ca_file,
        "tls_cert": options.cert_file,
        "tls_key": options.key_file,
        "domain": domain,
    }
    return {
        "login": {name: value for name, value in login.items() if value},
        "streams": list(options.streams),
        "tables": {
            "location": options.location,
            "format": options.format,
            "catalog": dict(options.catalog),
            "namespace": options.namespace,
            "partition": list(options.partition),
            "columns": options.columns,
            "dead_letters": options.dead_letters,
        },
        "writing": {
            "file_bytes": options.file_size,
            "compact_files": options.compact_files,
            "keep_seconds": options.keep_ns / SECOND_NS,
            "accept_gap": options.accept_gap,
        },
        "every": options.every_ns / SECOND_NS,
    }


class LakeWriter:
    """One process, kept running."""

    def __init__(
        self,
        location: str,
        settings: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        log: Log,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        """Start it.

        Args:
            location: of its tables, for log and metrics.
            settings: what it is told.
            loop: of the server; what the process says is looked at there.
            log: of the server.
            command: the program.
        """
        self._location = location
        self._settings = json.dumps(settings) + "\n"
        self._loop = loop
        self._log = log
        self._command = command
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # between starting a process and ending it
        self._process: subprocess.Popen[str] | None = None
        self._said: dict[str, str] = {}  # what the log knows of failures, by stream; "" for all of them
        self._tables: tuple[TableState, ...] = ()
        self._works = False
        self._restarts = 0
        self._thread = threading.Thread(target=self._run, name="slipstream-lake", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        process = self._process
        return None if process is None else process.pid

    @property
    def state(self) -> LakeState:
        """For monitoring."""
        return LakeState(self._location, self._works, self._restarts, self._tables)

    def stop(self) -> None:
        """End the process and wait for it; not for the loop's thread."""
        self._stopping.set()
        with self._lock:
            process = self._process
            if process is not None and process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()  # it ends after the turn it is in
        self._thread.join(LAKE_STOP_S)
        if self._thread.is_alive() and process is not None:
            process.kill()  # a catalogue that hangs: the table is whole whatever it was about to do
            self._thread.join()

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = LAKE_PAUSE_S
        while not self._stopping.is_set():
            try:
                reports = self._attend()
            except OSError as error:
                reports = 0
                self._tell({"error": f"cannot be started: {error}"})
            if self._stopping.is_set():
                return
            pause_s = LAKE_PAUSE_S if reports else min(pause_s * 2, LAKE_PAUSE_MAX_S)
            self._call(self._ended)
            self._stopping.wait(pause_s)

    def _attend(self) -> int:
        """Start a process and read what it says until it ends; how many turns it has told of."""
        with self._lock:
            if self._stopping.is_set():
                return 0
            process = self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        reports = stray = 0
        try:
            assert process.stdin is not None and process.stdout is not None
            with suppress(OSError, ValueError):  # it has ended, or was stopped, before it was told
                process.stdin.write(self._settings)
                process.stdin.flush()
            for line in process.stdout:
                document = _document(line)
                if document is not None:
                    reports += "streams" in document
                    self._tell(document)
                elif line.strip() and stray < _STRAY_LINES_MAX:
                    stray += 1
                    self._call(self._log, "WRN", f"Lake writer of {self._location} printed: {line.rstrip()}")
        finally:
            process.wait()
            with self._lock:
                self._process = None
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with suppress(OSError):
                            pipe.close()
        return reports

    def _tell(self, document: dict[str, Any]) -> None:
        self._call(self._told, document)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: a server that was not stopped, but left
            self._loop.call_soon_threadsafe(function, *arguments)

    # --- on the loop ------------------------------------------------------------------------------------------------

    def _told(self, document: dict[str, Any]) -> None:
        failures: dict[str, str] = {"": document["error"]} if "error" in document else document["failures"]
        self._works = "error" not in document
        if self._works:
            known = {one["stream"]: one for one in document["streams"]}
            before = {table.stream: table for table in self._tables}
            self._tables = tuple(
                TableState(name, one["lag"], one["upto"], failed=False) for name, one in known.items()
            ) + tuple(
                # One that fails now keeps the figures of its last turn.
                before.get(name, TableState(name, 0, 0, failed=True))._replace(failed=True)
                for name in failures
                if name not in known
            )
        for name, text in failures.items():
            if self._said.get(name) != text:
                what = f"stream {name} to {self._location}" if name else f"tables of {self._location}"
                self._log("WRN", f"Lake: {what} cannot be written: {text}")
        if self._said and not failures:
            self._log("INF", f"Lake: tables of {self._location} are written again")
        self._said = dict(failures)

    def _ended(self) -> None:
        self._restarts += 1
        self._works = False
        if "" not in self._said:  # it has said itself what was wrong
            self._log("WRN", f"Lake writer of {self._location} has ended; it is started again")


class LakeWriters:
    """All blocks of a server."""

    def __init__(self, server: Server) -> None:
        """Start what the options say."""
        self._server = server
        self._running: list[tuple[LakeOptions, LakeWriter]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self.reload()

    @property
    def states(self) -> list[LakeState]:
        """For monitoring."""
        return [writer.state for writer in self.writers]

    @property
    def writers(self) -> list[LakeWriter]:
        """Those that run."""
        return [writer for _, writer in self._running]

    def reload(self) -> None:
        """Start and end processes as the options say now; those whose block is as it was go on."""
        server = self._server
        wanted = server.options.lake if server.options.jetstream.enabled else ()
        running, self._running = self._running, []
        for options, writer in running:
            if options in wanted:
                self._running.append((options, writer))
            else:
                self._end(writer)
        for options in wanted:
            if all(options != known for known, _ in self._running):
                settings = child_settings(options, server.url, server.options.jetstream.domain)
                writer = LakeWriter(options.location, settings, server.turns.loop, server.log)
                self._running.append((options, writer))

    async def stop(self) -> None:
        """End all of them."""
        while self._running:
            self._end(self._running.pop()[1])
        if self._ending:
            await asyncio.wait(self._ending)

    def _end(self, writer: LakeWriter) -> None:
        task = self._server.turns.loop.create_task(asyncio.to_thread(writer.stop))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _document(line: str) -> dict[str, Any] | None:
    """What a process tells; None for a line that is something else."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    is_report = isinstance(found, dict) and ("error" in found or {"streams", "failures"} <= found.keys())
    return found if is_report else None
