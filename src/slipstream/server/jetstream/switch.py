"""JetStream of a server: on, off, or behind a door until the server is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.errors import ConfigError, StorageFault
from slipstream.server.errors import StartError

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.routing.operators import OperatorMode
    from slipstream.server.jetstream.at_rest import KeysAtRest
    from slipstream.server.jetstream.declared_streams import DeclaredStreams
    from slipstream.server.jetstream.door import JetStreamDoor
    from slipstream.server.jetstream.jetstream import JetStreamRunner
    from slipstream.server.jetstream.storage import Storage
    from slipstream.server.server import Server

__all__ = ["JetStreamSwitch"]

_NO_ROUTES = "JetStream cluster requires configured routes or solicited leafnode for the system account"


def _knows_others(options: Options) -> bool:
    """As in nats-server: who names nobody would agree with itself alone, and so would each of the others."""
    remotes = options.leafnodes.remotes
    return bool(options.cluster.routes) or any(one.account == options.system_account_name for one in remotes)


class JetStreamSwitch:
    """Starts and stops JetStream as the options say, and shows it to monitoring."""

    def __init__(self, server: Server, *, opens_late: bool) -> None:
        """Off. `opens_late`: it may follow when the server is ready, if it has no streams."""
        self._server = server
        self._opens_late = opens_late
        self.runner: JetStreamRunner | None = None
        self.door: JetStreamDoor | None = None  # where JetStream will be
        self._storage: Storage | None = None
        self._key: KeysAtRest | None = None  # of encryption at rest
        self._rekeys = False  # the options of a reload ask for other keys
        self._declared: DeclaredStreams | None = None  # while it is made what is declared

    def start(self, operators: OperatorMode | None) -> None:
        """Switch it on, if the options say so.

        Raises:
            StartError: its directory cannot be used, or nobody is named whom its cluster could be founded with.
        """
        server = self._server
        options = server.options.jetstream
        if not options.enabled:
            return
        if server.options.replicates and not _knows_others(server.options):
            raise StartError(f"Can't start JetStream: {_NO_ROUTES}")
        from slipstream.server.jetstream.storage import announce, take_storage

        try:
            self._storage = take_storage(options)
        except StorageFault as error:
            raise StartError(f"Can't start JetStream: {error}") from error
        try:
            self._key = self._fitting_key(self._storage)
        except StorageFault as error:
            self._storage.close()
            self._storage = None
            raise StartError(f"Can't start JetStream: {error}") from error
        announce(server.log, options, self._storage.directory)
        if operators is not None:
            from slipstream.server.logins.operators import load_accounts_on_disk

            load_accounts_on_disk(operators, self._accounts_on_disk(self._storage))
        if self._opens_late and not self._storage.has_streams:
            from slipstream.server.jetstream.door import JetStreamDoor, may_open_later

            if may_open_later(server.options):
                self.door = JetStreamDoor(server, self._open_late)
                return
        self._open()

    async def make_declared(self) -> None:
        """Make what is declared, before the first client comes: its streams are there when it looks."""
        self._begin_declared()
        if self._declared is not None:
            await self._declared.wait()

    def _begin_declared(self) -> None:
        server = self._server
        if self._declared is not None:
            self._declared.stop()
            self._declared = None
        if not server.options.declared:
            return
        if self.runner is None:
            server.log("WRN", "JetStream is off: what is declared in the configuration is not there")
            return
        cluster = self.runner.cluster
        if cluster is not None and not cluster.coordinator.is_meta_leader:
            return  # whoever leads the cluster does it
        from slipstream.server.jetstream.declared_streams import DeclaredStreams

        self._declared = DeclaredStreams(server, server.options.declared)

    def finish_start(self) -> None:
        """Open the door now, if there is one."""
        door, self.door = self.door, None
        if door is not None:
            door.open()

    def stop(self) -> None:
        """Switch it off; everything acknowledged is on disk."""
        if self._declared is not None:
            self._declared.stop()
            self._declared = None
        if self.door is not None:
            self.door.close()
            self.door = None
        if self.runner is not None:
            self.runner.stop()
            self.runner = None
        if self._storage is not None:
            self._storage.close()
            self._storage = None
        self._server.hub.jetstream = False

    def prepare(self, options: Options) -> None:
        """Before a reload: whether what is stored can be used with these options.

        Raises:
            ConfigError: it is encrypted with other keys than they have.
        """
        self._rekeys = False
        storage, jetstream = self._storage, options.jetstream
        if storage is None or not jetstream.enabled or not (self._key or jetstream.encrypts or jetstream.decrypt):
            return
        from slipstream.jetstream.store.file.disk.real_disk import RealDisk
        from slipstream.server.jetstream.at_rest import asks_for_other_keys

        try:
            self._rekeys = asks_for_other_keys(
                jetstream, RealDisk(), storage.directory, self._key, has_streams=self.runner is not None
            )
        except StorageFault as error:
            raise ConfigError(f"the encryption key of JetStream stays: {error}") from error

    def reload(self, operators: OperatorMode | None) -> None:
        """Switch it on or off as the options say now, or let it take over what changed.

        Another key of encryption at rest is taken over by closing all streams and opening them again (ADR 66).
        """
        self.finish_start()
        if self.runner is not None and self._server.options.jetstream.enabled and not self._rekeys:
            self.runner.reload()
            self._begin_declared()
            return
        self.stop()
        try:
            self.start(operators)
            self.finish_start()
        except StartError as error:
            self._server.log("WRN", str(error))
            self.stop()
        self._begin_declared()
        self.show()

    def show(self) -> None:
        """Let monitoring see what runs."""
        if self._server.monitoring is None:
            return
        facts = self._server.monitoring.facts
        facts.before_jetstream = None if self.door is None else self.finish_start
        if self.runner is None:
            facts.jetstream = None
        else:
            from slipstream.server.jetstream.facts import RunningJetStream

            facts.jetstream = RunningJetStream(self.runner)

    def _fitting_key(self, storage: Storage) -> KeysAtRest | None:
        """The key of encryption at rest; a plain start of a plain directory does not load what knows about it.

        Raises:
            StorageFault: it does not fit what is there.
        """
        options = self._server.options
        if not (options.jetstream.encrypts or options.jetstream.decrypt or storage.is_encrypted):
            return None
        from slipstream.jetstream.store.file.disk.real_disk import RealDisk
        from slipstream.server.jetstream.at_rest import fitting_key

        return fitting_key(
            options.jetstream,
            RealDisk(),
            storage.directory,
            has_streams=storage.has_streams or storage.is_of_cluster,
            accounts=[GLOBAL_ACCOUNT, *(account.name for account in options.accounts)],
            log=self._server.log,
        )

    def _accounts_on_disk(self, storage: Storage) -> list[str]:
        if self._key is None:
            return storage.directories
        from slipstream.jetstream.store.file.disk.real_disk import RealDisk
        from slipstream.server.jetstream.at_rest import AtRest

        return AtRest(RealDisk(), self._key).accounts(storage.directory)

    def _open(self) -> None:
        from slipstream.server.jetstream.jetstream import JetStreamRunner

        assert self._storage is not None
        self.runner = JetStreamRunner(
            self._server, self._server.turns.loop, self._storage, self._key, self._begin_declared
        )
        try:
            self.runner.start()
        except StorageFault as error:
            raise StartError(f"Can't start JetStream: {error}") from error

    def _open_late(self) -> None:
        """When the server is ready already: what is wrong with it is no reason to end."""
        try:
            self._open()
        except StartError as error:
            self._server.log("ERR", str(error))
            self.stop()
        self.show()
