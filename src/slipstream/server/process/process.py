"""A server that is a whole process: log, signals, reload, exit code.

    INT, TERM  stop          HUP   read the configuration again
    USR1       reopen log    USR2  lame duck mode

What this is not: the server itself, which knows nothing of signals and files it was configured from.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slipstream.errors import ConfigError, SlipstreamError
from slipstream.server.process.configure import Configured, reconfigure
from slipstream.server.process.logs import Log, open_log
from slipstream.server.server import Server

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.server.process.watchdog import Watchdog

__all__ = ["Process"]


class Process:
    """Runs one server from a command line.

    Args:
        configured: what the command line and the configuration say.
        watchdog: finds slow events on the loop; None: nobody looks for them.
    """

    def __init__(self, configured: Configured, watchdog: Watchdog | None = None) -> None:
        self._flags = configured.flags
        self._options = configured.options
        self._watchdog = watchdog
        self._server: Server | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._stop_asked = False  # perhaps while the server was still starting

    async def run(self) -> int:
        """Serve until stopped; returns the exit code."""
        try:
            log = _log(self._options)
        except ConfigError as error:
            os.write(2, f"nats-server: {error}\n".encode())
            return 1
        try:
            self._server = server = Server(self._options, log=log, opens_late=True, on_reload_request=self._reload)
            asyncio.get_running_loop().set_exception_handler(self._on_exception)
            # Before the server says that it is ready: whoever waits for that may send a signal at once.
            self._listen_for_signals()
            await server.start()
        except SlipstreamError as error:
            log("FTL", str(error))
            return 1
        self._watch(server)
        if self._stop_asked:
            await server.stop()
        await server.wait_stopped()
        log.close()
        return 0

    def _watch(self, server: Server) -> None:
        """Warn of events that hold up everybody, if that was asked for; the start and the end do, and may."""

        def warn(text: str) -> None:
            if server.running:
                server.log("WRN", text)

        if self._watchdog is not None:
            # Later: the start itself is an event, and ends only now.
            asyncio.get_running_loop().call_soon(self._watchdog.begin, warn)

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number, (name, act) in {
            signal.SIGINT: ("interrupt", self._stop),
            signal.SIGTERM: ("terminated", self._stop),
            signal.SIGHUP: ("hangup", self._on_hangup),
            signal.SIGUSR1: ("user defined signal 1", self._reopen_log),
            signal.SIGUSR2: ("user defined signal 2", self._leave),
        }.items():
            loop.add_signal_handler(number, self._on_signal, name, act)

    def _on_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something on the loop raised what nobody expected: said in the server's own log."""
        assert self._server is not None
        self._server.turns.report(str(context.get("message")), context.get("exception") or RuntimeError("no exception"))

    def _on_signal(self, name: str, act: Callable[[], None]) -> None:
        assert self._server is not None
        self._server.log("INF", f'Trapped "{name}" signal')
        act()

    def _stop(self) -> None:
        assert self._server is not None
        self._stop_asked = True
        self._leaving = asyncio.ensure_future(self._server.stop())

    def _leave(self) -> None:
        assert self._server is not None
        if self._leaving is None:
            self._server.enter_lame_duck_mode()

    def _reopen_log(self) -> None:
        assert self._server is not None
        self._server.log.reopen()
        self._server.log("INF", "File log re-opened")

    def _on_hangup(self) -> None:
        from slipstream.jetstream.api.actions import Action

        assert self._server is not None
        try:
            self._reload()
        except ConfigError as error:
            self._server.log("ERR", f"Failed to reload server configuration: {error}")
            self._server.record_action(Action("server.reload", target="hangup"), error=str(error))
        else:
            self._server.record_action(Action("server.reload", target="hangup"))

    def _reload(self) -> None:
        """Read the file again and use what may change while the server runs.

        Raises:
            ConfigError: the file is wrong, or asks for something that needs a restart; nothing has changed then.
        """
        from slipstream.config.reload import diff

        assert self._server is not None
        server = self._server
        loaded = reconfigure(self._flags, os.environ)
        plan = diff(self._options, loaded.options)
        if plan.refusals:
            raise plan.refusals[0]
        # Before anything changes: a log that cannot be had refuses the reload.
        logs_anew = any(action.kind in ("logging", "trace") for action in plan.actions)
        log = _log(loaded.options) if logs_anew else server.log
        try:
            server.reload(loaded.options)
        except ConfigError:
            if logs_anew:
                log.close()
            raise
        self._options = loaded.options
        if logs_anew:
            old, server.log = server.log, log
            old.close()
        for field in sorted(plan.changed):
            server.log("INF", f"Reloaded: {field}")
        server.log("INF", "Reloaded server configuration")


def _log(options: Options) -> Log:
    """The log that the options ask for.

    Raises:
        ConfigError: it cannot be had.
    """
    try:
        return _opened_log(options)
    except (OSError, ValueError) as error:
        what = "error connecting to syslog" if options.syslog or options.remote_syslog else "error opening log file"
        raise ConfigError(f"{what}: {error}") from error


def _opened_log(options: Options) -> Log:
    return open_log(
        path=options.logfile,
        debug=options.debug,
        trace=options.trace,
        timestamps=options.logtime,
        utc=options.logtime_utc,
        size_limit=options.logfile_size_limit,
        max_files=options.logfile_max_num,
        syslog=options.syslog,
        remote_syslog=options.remote_syslog,
    )
