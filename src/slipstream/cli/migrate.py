"""`slipstream migrate`: the streams of a nats-server, from its directory or from the running server.

Nothing in the source is changed. Into a directory, everything is written beside, read back and compared, and put in
place at the end; into a server, each stream is restored and then read back from there.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_bytes, format_duration, format_number
from slipstream.cli.progress import Advance, progress
from slipstream.cli.render import Table, counted, note, print_json, say
from slipstream.cli.types import json_flag, list_option
from slipstream.config.options import GLOBAL_ACCOUNT

if TYPE_CHECKING:
    from slipstream.migrate.directory import StoreDirectory
    from slipstream.migrate.natsstream import NatsStream
    from slipstream.migrate.run import Outcome
    from slipstream.migrate.source import SourceStream

__all__ = ["migrate"]


@click.command(cls=Command)
@click.argument("source", metavar="[DIRECTORY]", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--from", "address", metavar="SERVER", help="Read from a running server: its URL, or a context.")
@click.option("--to", "target", metavar="TARGET", required=True, help="A new store directory, or the URL of a server.")
@list_option("--account", "accounts", metavar="NAME", help="Only this account; with --from, whose streams they become.")
@click.option("--key", help="The key that encrypts the source. [NATS_JS_KEY]", envvar="NATS_JS_KEY")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False), help="A file with that key.")
@click.option("--prev-key", help="The key before, if it was changed.")
@click.option("--prev-key-file", type=click.Path(exists=True, dir_okay=False), help="A file with that key.")
@click.option("--replica", is_flag=True, help="Take replicated streams from this node's copy.")
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option("--accept-damage", is_flag=True, help="Take what can be read of a damaged source.")
@click.option("--progress/--no-progress", "shown", default=True, help="Show progress bars.")
@json_flag
@click.pass_obj
def migrate(
    session: Session,
    source: str | None,
    address: str | None,
    target: str,
    accounts: list[str],
    key: str | None,
    key_file: str | None,
    prev_key: str | None,
    prev_key_file: str | None,
    replica: bool,
    dry_run: bool,
    accept_damage: bool,
    shown: bool,
    as_json: bool,
) -> None:
    """Take over the streams of a nats-server: messages, consumers, buckets, object stores.

    DIRECTORY is the store directory of a nats-server that is stopped. It is only read. Encrypted stores need their key;
    the cipher is found out. With --from the streams of one account come from a running server, whose version does not
    matter; connection flags are meant for that server.

    Everything is compared with what was read before it counts. A run that was interrupted is continued by the next.
    """
    if (source is None) == (address is None):
        raise click.UsageError("say where to read from: a DIRECTORY, or a server with --from")
    started_ns = time.monotonic_ns()
    with ExitStack() as stack:
        run = _Run(session, stack, target, accounts, shown=shown, quiet=as_json)
        if source is not None:
            secrets = [text for text in (_secret(key, key_file), _secret(prev_key, prev_key_file)) if text]
            run.read_directory(source, secrets, replica=replica)
        else:
            assert address is not None
            run.read_server(address)
        outcome = run.go(dry_run=dry_run, accept_damage=accept_damage)
    _print(outcome, as_json=as_json, elapsed_ns=time.monotonic_ns() - started_ns)
    _conclude(outcome, target, dry_run=dry_run, as_json=as_json)


class _Run:
    """One migration: where from, where to."""

    def __init__(
        self, session: Session, stack: ExitStack, target: str, accounts: list[str], *, shown: bool, quiet: bool
    ) -> None:
        self._session = session
        self._stack = stack
        self._target = target
        self._accounts = accounts
        self._shown = shown
        self._quiet = quiet
        self._is_remote = False
        self._streams: list[SourceStream] = []
        self._source = ""

    def read_directory(self, source: str, secrets: list[str], *, replica: bool) -> None:
        """Read what a stopped server left."""
        from slipstream.migrate.directory import StoreDirectory

        store = StoreDirectory(source, secrets=secrets, now_ns=time.time_ns())
        if Path(self._target).resolve() in (Path(store.root), Path(store.root).parent):
            raise Failure("the target must be another directory than the source: streams of both cannot be in one")
        streams = store.streams(self._accounts)
        _refuse_replicated(store, streams, replica=replica)
        self._streams += streams
        self._source = store.root

    def read_server(self, address: str) -> None:
        """Read from a running server."""
        from slipstream.cli.migrate_wire import connect, is_address, remote_streams

        if len(self._accounts) > 1:
            raise Failure("a server shows one account to a connection: give one --account, or none")
        work = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slipstream-migrate-")))
        link = connect(self._session, address, with_flags=True)
        self._stack.callback(link.close)
        account = self._accounts[0] if self._accounts else GLOBAL_ACCOUNT
        for stream in remote_streams(link, account, work, shown=self._shown, quiet=self._quiet):
            if stream.is_in_memory and not is_address(self._target):
                note(f"{stream.name} is kept in memory and stays behind: it can only go to a running server")
            else:
                self._streams.append(stream)
        self._source = address
        self._is_remote = True

    def go(self, *, dry_run: bool, accept_damage: bool) -> Outcome:
        """Do it."""
        from slipstream.migrate.run import migrate, read_only
        from slipstream.migrate.staging import MigrationStage

        if dry_run:
            return read_only(self._streams, self._show)
        from slipstream.cli.migrate_wire import connect, is_address, send_streams

        if not is_address(self._target):
            with MigrationStage(self._target, self._source) as staging:
                return migrate(self._streams, staging, self._show, accept_damage=accept_damage)
        link = connect(self._session, self._target, with_flags=False)
        self._stack.callback(link.close)
        work = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slipstream-migrate-"))
        with MigrationStage(work, self._source) as staging:
            return send_streams(
                self._streams, staging, link, self._show, shown=self._shown, accept_damage=accept_damage
            )

    def _show(self, name: str, size: int) -> AbstractContextManager[Advance]:
        # What comes from a server has a bar of its own, while it is received.
        return progress(name, size or None, unit="bytes", shown=self._shown and not self._is_remote)


def _secret(text: str | None, file: str | None) -> str:
    return Path(file).read_text().strip("\r\n") if file else text or ""


def _refuse_replicated(store: StoreDirectory, streams: list[NatsStream], *, replica: bool) -> None:
    if not store.is_of_a_cluster:
        return
    note("this is the directory of one node of a cluster: streams that only other nodes hold are not in it")
    from slipstream.migrate.errors import MigrationError

    replicated = []
    for stream in streams:
        try:
            if stream.config.num_replicas > 1:
                replicated.append(stream.name)
        except MigrationError:
            continue  # said when it is its turn
    if replicated and not replica:
        raise Failure(
            f"{counted(len(replicated), 'stream')} of a cluster may be behind on this node ({', '.join(replicated[:5])}"
            f"{', ...' if len(replicated) > 5 else ''}): migrate from the running cluster, or give --replica to take "
            f"this node's copies as they are"
        )


def _print(outcome: Outcome, *, as_json: bool, elapsed_ns: int) -> None:
    if as_json:
        from dataclasses import asdict

        members: dict[str, Any] = asdict(outcome)
        print_json(members)
        return
    table = Table("Streams", "Account", "Stream", "Messages", "Size", "First", "Last", "Consumers")
    for done in outcome.done:
        table.add(
            done.account,
            done.stream,
            format_number(done.messages),
            format_bytes(done.size_bytes),
            format_number(done.first_seq),
            format_number(done.last_seq),
            format_number(len(done.consumers)),
        )
    table.print()
    for done in outcome.done:
        for text in done.notes:
            say(f"{done.account} > {done.stream}: {text}")
        for text in done.damage:
            note(f"{done.account} > {done.stream} is damaged: {text}")
    for failed in outcome.failed:
        note(f"{failed.account} > {failed.stream} cannot be migrated: {failed.reason}")
    if outcome.kept:
        say(f"{counted(outcome.kept, 'stream')} had been completed by an earlier run")
    messages = sum(done.messages for done in outcome.done)
    say(f"\n{counted(len(outcome.done), 'stream')}, {counted(messages, 'message')} in {format_duration(elapsed_ns)}")


def _conclude(outcome: Outcome, target: str, *, dry_run: bool, as_json: bool) -> None:
    bad = len(outcome.failed) + sum(1 for done in outcome.done if done.damage)
    if dry_run:
        if bad:
            raise Failure(f"{counted(bad, 'stream')} would not be complete")
        say("Everything can be migrated; nothing was written", err=as_json)
        return
    if not outcome.placed:
        raise Failure(
            f"{counted(bad, 'stream')} would not be complete, so nothing was put in place: "
            f"run it again with --accept-damage to take what can be read"
        )
    if bad:
        raise Failure(
            f"{counted(bad, 'stream')} {'is' if bad == 1 else 'are'} not there or not complete, as said above"
        )
    if "://" in target:
        say(f"Verified and in place on {target}", err=as_json)
    else:
        say(f"Verified and in place: start with `slipstream-server -js -sd {target}`", err=as_json)
