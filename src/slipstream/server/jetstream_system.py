"""The JetStream API as the system account sees it: it has no streams, but may clear those of an account.

Also told here, because they concern the server: calls that were dropped because too many waited.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.api.subjects import API_PREFIX, TYPE_PREFIX
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.limits import API_DROPPED_REPORT_NS

if TYPE_CHECKING:
    from slipstream.accounts.member import Member
    from slipstream.jetstream.ports import Cancel
    from slipstream.server.jetstream import JetStreamRunner
    from slipstream.server.jetstream_ports import AccountPorts

__all__ = ["SystemApi"]

_PURGE = "ACCOUNT.PURGE."
_NEEDS_CLUSTER = ("META.LEADER.STEPDOWN", "META.RESCUE", "SERVER.REMOVE", "SERVER.EVACUATE")  # silent without one


class SystemApi:
    """Answers on `$JS.API.>` in the system account."""

    def __init__(self, runner: JetStreamRunner, ports: AccountPorts) -> None:
        """Answer through the system account's ports; nothing is subscribed yet."""
        self._runner = runner
        self._ports = ports
        self._advisories = Advisories(ports, runner.facts)
        self._dropped = [0, 0]  # since the last report: calls that change something, calls that look
        self._report_timer: Cancel | None = None

    def answer(
        self, publisher: Member | None, subject: bytes, reply: bytes | None, _header_size: int, _body: bytes
    ) -> None:
        """A message on `$JS.API.>`."""
        call = subject.decode("utf-8", "replace").removeprefix(API_PREFIX)
        if call.startswith(_PURGE) and "." not in call.removeprefix(_PURGE):
            self._purge(call.removeprefix(_PURGE), reply)
        elif call == "INFO":
            self._refuse(reply, "account_info_response", TableError(table.NOT_ENABLED_FOR_ACCOUNT))
        elif publisher is not None and call not in _NEEDS_CLUSTER and not call.startswith("ACCOUNT."):
            self._refuse(reply, "system_response", TableError(table.NOT_ENABLED_FOR_ACCOUNT))

    def dropped(self, looks: bool) -> None:
        """A call was dropped. Reported at once, then once a second with how many there were."""
        self._dropped[looks] += 1
        if self._report_timer is None:
            self._report_dropped()

    def full(self, stream: str) -> None:
        """A stream finds no space on the disk. Unlike nats-server, JetStream goes on."""
        facts = {
            "server": self._runner.facts.name,
            "server_id": self._runner.server_id,
            "stream": stream,
            "cluster": "",
        }
        self._advisories.publish("SERVER.OUT_OF_STORAGE", "server_out_of_space", facts)

    def stop(self) -> None:
        """No more reports."""
        if self._report_timer is not None:
            self._report_timer()
            self._report_timer = None

    def _report_dropped(self) -> None:
        self._report_timer = None
        counts, self._dropped = self._dropped, [0, 0]
        for name, count in zip(("request", "info"), counts, strict=True):
            if count:
                self._ports.log("WRN", f"JetStream API {name} limit reached, dropping {count} requests")
        if sum(counts):
            fields = {"server": self._runner.facts.name, "dropped": sum(counts)}
            self._advisories.publish("API.LIMIT_REACHED", "api_limit_reached", fields)
            self._report_timer = self._ports.call_later(API_DROPPED_REPORT_NS, self._report_dropped)

    def _purge(self, name: str, reply: bytes | None) -> None:
        """Delete every stream of an account, also of one that may not use JetStream any more."""
        if "/" in name or "\\" in name:
            error = TableError(table.STREAM_GENERAL, err="account name can not contain path separators")
            self._refuse(reply, "account_purge_response", error)
            return
        account = self._runner.accounts.get(name)
        names = sorted(account.streams) if account is not None else []
        self._ports.log("INF", f"Purge request for account {name} (streams: {len(names)})")

        def delete_next(error: ApiError | None = None) -> None:
            if error is not None:
                self._refuse(reply, "account_purge_response", error)
            elif names and account is not None:
                try:
                    account.delete_stream(names.pop(0), delete_next)
                except ApiError:  # it went by itself meanwhile
                    delete_next()
            elif account is not None:
                self._send(reply, "account_purge_response", {"initiated": True})
            else:
                self._remove_files(name, lambda: self._send(reply, "account_purge_response", {"initiated": True}))

        delete_next()

    def _remove_files(self, name: str, done: Callable[[], None]) -> None:
        directory = self._runner.account_path(name)
        self._ports.run_blocking(lambda: shutil.rmtree(directory, ignore_errors=True), done)

    def _refuse(self, reply: bytes | None, response: str, error: ApiError) -> None:
        self._send(reply, response, {"error": error_object(error)})

    def _send(self, reply: bytes | None, response: str, fields: dict[str, object]) -> None:
        if reply:
            self._ports.publish(reply, None, None, encode({"type": TYPE_PREFIX + response, **fields}))
