"""The JetStream API as the system account sees it: it may clear the streams of an account, and has none of its own.

But for the audit trail (ADR 65), where that is kept: its users may read it as any stream, and nobody may change it.

Also told here, because they concern the server: calls that were dropped because too many waited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.api.actions import action_of
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.load import ApiLoad
from slipstream.jetstream.api.subjects import API_PREFIX, TYPE_PREFIX
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.limits import API_DROPPED_REPORT_NS
from slipstream.links.presence import LinkMember

if TYPE_CHECKING:
    from slipstream.accounts.member import Member
    from slipstream.jetstream.ports import Cancel
    from slipstream.replication.coordinator import Coordinator
    from slipstream.server.jetstream.cluster import JetStreamCluster
    from slipstream.server.jetstream.jetstream import JetStreamRunner
    from slipstream.server.jetstream.ports import AccountPorts

__all__ = ["SystemApi"]

_PURGE = "ACCOUNT.PURGE."
_STEPDOWN = "META.LEADER.STEPDOWN"
_REMOVE = "SERVER.REMOVE"
_MOVES: Final = ("ACCOUNT.STREAM.MOVE.", "ACCOUNT.STREAM.CANCEL_MOVE.")
# Calls that only read, by how they begin: these are answered for the audit trail.
_READS: Final = (
    *("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.", "STREAM.MSG.GET.", "STREAM.VERIFY."),
    *("STREAM.CHECKPOINT.", "STREAM.SNAPSHOT."),
    *(f"CONSUMER.{verb}." for verb in ("CREATE", "DURABLE.CREATE", "DELETE", "PAUSE", "RESET")),
    *(f"CONSUMER.{verb}." for verb in ("NAMES", "LIST", "INFO", "WHY")),
    *(f"BULK.{verb}." for verb in ("INFO", "PLAN", "READ", "CREDIT", "HOLD", "RELEASE")),
)
_ANSWERED_BY_STREAMS: Final = ("DIRECT.GET.", "CONSUMER.MSG.NEXT.")
_NEEDS_CLUSTER = ("META.LEADER.STEPDOWN", "META.RESCUE", "SERVER.REMOVE", "SERVER.EVACUATE")  # silent without one


class _Asked(NamedTuple):
    """A call, as far as its answer and its record need it."""

    subject: str
    reply: bytes | None
    body: bytes
    describe: Callable[[], Mapping[str, object]] | None  # who asks


class SystemApi:
    """Answers on `$JS.API.>` in the system account."""

    def __init__(self, runner: JetStreamRunner, ports: AccountPorts, trail_api: ApiDispatcher | None) -> None:
        """Answer through the system account's ports; nothing is subscribed yet. `trail_api`: of the audit trail."""
        self._trail_api = trail_api
        self._runner = runner
        self._ports = ports
        self._advisories = Advisories(ports, runner.facts)
        self._dropped = [0, 0]  # since the last report: calls that change something, calls that look
        self._report_timer: Cancel | None = None
        self._moves = None if runner.cluster is None else self._serve_moves(runner.cluster, ports)

    def _serve_moves(self, cluster: JetStreamCluster, ports: AccountPorts) -> ApiDispatcher:
        """The calls that move streams of accounts, which the leader of the meta group answers."""
        runner, facts, coordinator = self._runner, self._runner.facts, cluster.coordinator
        load = ApiLoad(request_limit=facts.request_queue_limit, info_limit=facts.info_queue_limit)
        api = ApiDispatcher(
            ports,
            self._advisories,
            load,
            account=runner.system_name,
            strict=facts.strict,
            trail=runner.trail,
            gate=lambda _: coordinator.is_meta_leader,
        )
        cluster.serve_system(api, ports, runner.has_account)
        return api

    def answer(
        self, publisher: Member | None, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> None:
        """A message on `$JS.API.>`."""
        text = subject.decode("utf-8", "replace")
        call = text.removeprefix(API_PREFIX)
        if self._trail_api is not None and call.startswith(_ANSWERED_BY_STREAMS):
            return
        trail = self._runner.trail
        if trail is not None and isinstance(publisher, LinkMember) and call.startswith(_READS):
            return  # each server has a trail of its own: the one that the client is connected to shows its
        describe = None if publisher is None else partial(self._runner.describe_client, publisher)
        if trail is not None and self._trail_api is not None and call.startswith(_READS):
            grants = None if publisher is None else publisher.grants
            header = body[:header_size] or None
            handle = self._trail_api.handle
            trail.when_open(partial(handle, subject, reply, header, body[header_size:], describe, grants))
            return
        if self._moves is not None and call.startswith(_MOVES):
            self._moves.handle(subject, reply, body[:header_size] or None, body[header_size:], describe)
            return
        asked = _Asked(text, reply, body[header_size:], describe)
        cluster = self._runner.cluster
        if cluster is not None and (call in (_STEPDOWN, _REMOVE) or call.startswith(_PURGE)):
            self._ask_cluster(cluster.coordinator, call, asked)
        elif call.startswith(_PURGE) and "." not in call.removeprefix(_PURGE):
            self._purge(call.removeprefix(_PURGE), asked)
        elif call == "INFO":
            self._refuse(asked, "account_info_response", TableError(table.NOT_ENABLED_FOR_ACCOUNT))
        elif publisher is not None and call not in _NEEDS_CLUSTER and not call.startswith("ACCOUNT."):
            self._refuse(asked, "system_response", TableError(table.NOT_ENABLED_FOR_ACCOUNT))

    def _ask_cluster(self, cluster: Coordinator, call: str, asked: _Asked) -> None:
        """What only the leader of the meta group answers."""
        if not cluster.is_meta_leader:
            return
        if call == _REMOVE:
            self._remove_server(cluster, asked)
            return
        if call != _STEPDOWN:
            name = call.removeprefix(_PURGE)
            self._ports.log("INF", f"Purge request for account {name} of the cluster")
            cluster.purge(name)
            self._send(asked, "account_purge_response", {"initiated": True})
            return
        try:
            hand_over = cluster.step_down(asked.body)
        except ApiError as error:
            self._refuse(asked, "meta_leader_stepdown_response", error)
            return
        self._send(asked, "meta_leader_stepdown_response", {"success": True})
        hand_over()

    def _remove_server(self, cluster: Coordinator, asked: _Asked) -> None:
        def answered(error: ApiError | None) -> None:
            if error is not None:
                self._refuse(asked, "meta_server_remove_response", error)
            else:
                self._send(asked, "meta_server_remove_response", {"success": True})

        try:
            cluster.servers.remove(asked.body, answered)
        except ApiError as error:
            answered(error)

    def removed(self, cluster: str) -> None:
        """This server was taken out of its cluster."""
        facts = {"server": self._runner.facts.name, "server_id": self._runner.server_id, "cluster": cluster}
        self._advisories.publish("SERVER.REMOVED", "server_removed", facts)

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
        """No more reports, and no answers to calls that wait."""
        if self._moves is not None:
            self._moves.stop()
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

    def _purge(self, name: str, asked: _Asked) -> None:
        """Delete every stream of an account, also of one that may not use JetStream any more."""
        if "/" in name or "\\" in name:
            error = TableError(table.STREAM_GENERAL, err="account name can not contain path separators")
            self._refuse(asked, "account_purge_response", error)
            return
        if self._trail_api is not None and name == self._trail_api.account:
            # Who could clear the trail could hide what was done.
            self._refuse(asked, "account_purge_response", TableError(table.NOT_ENABLED_FOR_ACCOUNT))
            return
        account = self._runner.accounts.get(name)
        names = sorted(account.streams) if account is not None else []
        self._ports.log("INF", f"Purge request for account {name} (streams: {len(names)})")

        def delete_next(error: ApiError | None = None) -> None:
            if error is not None:
                self._refuse(asked, "account_purge_response", error)
            elif names and account is not None:
                try:
                    account.delete_stream(names.pop(0), delete_next)
                except ApiError:  # it went by itself meanwhile
                    delete_next()
            elif account is not None:
                self._send(asked, "account_purge_response", {"initiated": True})
            else:
                self._remove_files(name, lambda: self._send(asked, "account_purge_response", {"initiated": True}))

        delete_next()

    def _remove_files(self, name: str, done: Callable[[], None]) -> None:
        directory = self._runner.account_path(name)
        import shutil

        self._ports.run_blocking(lambda: shutil.rmtree(directory, ignore_errors=True), done)

    def _refuse(self, asked: _Asked, response: str, error: ApiError) -> None:
        self._send(asked, response, {"error": error_object(error)}, error)

    def _send(self, asked: _Asked, response: str, fields: dict[str, object], error: ApiError | None = None) -> None:
        if asked.reply:
            self._ports.publish(asked.reply, None, None, encode({"type": TYPE_PREFIX + response, **fields}))
        trail, api = self._runner.trail, self._trail_api
        action = None if trail is None else action_of(asked.subject)
        if trail is not None and api is not None and action is not None:
            client = None if asked.describe is None else asked.describe()
            trail.called(action, api.account, asked.subject, asked.body, client, error)
