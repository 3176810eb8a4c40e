"""The other ends of a migration: a running server to read from, and one to write to.

A stream is fetched when it is its turn, by the same request that makes backups, and removed again when it is copied.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slipstream.cli.connection import Failure, Session
from slipstream.cli.jetstream import all_consumers, all_streams
from slipstream.cli.link import ApiRefusal, ClientLink, Reply
from slipstream.cli.settings import resolve
from slipstream.cli.stream.backup import restore_stream, save_stream
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.migrate.blocks import Record
from slipstream.migrate.consumers import SourceConsumer
from slipstream.migrate.copying import copy_stream
from slipstream.migrate.errors import MigrationError
from slipstream.migrate.relay import StagedStream
from slipstream.migrate.run import Failed, Outcome, ShowProgress
from slipstream.migrate.saved import open_saved
from slipstream.migrate.source import Findings, SourceStream
from slipstream.migrate.staging import Done, MigrationStage

__all__ = ["RemoteStream", "connect", "is_address", "remote_streams", "send_streams"]

_DATA = "stream.tar.s2"
_SNAPSHOT = {"jsck": True}  # let the server check the stream first


def is_address(text: str) -> bool:
    """Whether this names a server rather than a directory."""
    return "://" in text


def connect(session: Session, address: str, *, with_flags: bool) -> ClientLink:
    """Connect to a server by its URL, or by the name of a context.

    Args:
        session: this run.
        address: the URL or the name.
        with_flags: the connection flags are meant for this server.
    """
    flags = dict(session.flags) if with_flags else {}
    if is_address(address):
        return ClientLink(resolve({**flags, "server": address}, os.environ if with_flags else {}, {}, ""))
    return ClientLink(resolve(flags, {}, session.contexts.load(address), address))


def remote_streams(link: ClientLink, account: str, work: Path, *, shown: bool, quiet: bool) -> list[RemoteStream]:
    """All streams of the account that a connection belongs to."""
    return [RemoteStream(link, info, account, work, shown=shown, quiet=quiet) for info in all_streams(link)]


class RemoteStream:
    """A stream of a running server. Implements `SourceStream`."""

    def __init__(self, link: ClientLink, info: Reply, account: str, work: Path, *, shown: bool, quiet: bool) -> None:
        """Nothing is fetched yet."""
        self.account = account
        self.name: str = info["config"]["name"]
        self.is_in_memory = info["config"].get("storage") == "memory"
        self._link = link
        self._info = info
        self._directory = work / self.name
        self._shown = shown
        self._quiet = quiet
        self._saved: SourceStream | None = None

    @property
    def size_bytes(self) -> int:
        """See `SourceStream.size_bytes`."""
        return int(self._info["state"]["bytes"])

    @property
    def findings(self) -> Findings:
        """See `SourceStream.findings`."""
        return self._fetched().findings

    @property
    def config(self) -> StreamConfig:
        """See `SourceStream.config`."""
        return self._fetched().config

    @property
    def created_ns(self) -> int:
        """See `SourceStream.created_ns`."""
        return self._fetched().created_ns

    @property
    def last_seq(self) -> int:
        """See `SourceStream.last_seq`."""
        return self._fetched().last_seq

    @property
    def last_ts_ns(self) -> int:
        """See `SourceStream.last_ts_ns`."""
        return self._fetched().last_ts_ns

    @property
    def limits_due(self) -> bool:
        """See `SourceStream.limits_due`."""
        return self._fetched().limits_due

    @property
    def subjects(self) -> dict[bytes, int] | None:
        """See `SourceStream.subjects`."""
        return self._fetched().subjects

    def fingerprint(self) -> str:
        """See `SourceStream.fingerprint`: how it was when this run began."""
        members = {name: self._info.get(name) for name in ("config", "created", "state")}
        return json.dumps(members, sort_keys=True)

    def messages(self) -> Iterator[tuple[list[Record], int]]:
        """See `SourceStream.messages`."""
        return self._fetched().messages()

    def positions(self) -> tuple[int, dict[str, int]]:
        """See `SourceStream.positions`."""
        return self._fetched().positions()

    def consumers(self) -> Iterator[SourceConsumer]:
        """See `SourceStream.consumers`."""
        return self._fetched().consumers()

    def close(self) -> None:
        """See `SourceStream.close`: what was fetched is removed."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _fetched(self) -> SourceStream:
        if self._saved is None:
            created = {info["name"]: info["created"] for info in all_consumers(self._link, self.name)}
            try:
                save_stream(self._link, self.name, self._directory, _SNAPSHOT, shown=self._shown, quiet=self._quiet)
            except (ApiRefusal, Failure) as error:
                raise MigrationError(f"the server does not send it: {error}") from None
            path = str(self._directory / _DATA)
            self._saved = open_saved(path, self._info, self.account, time.time_ns(), created)
        return self._saved


def send_streams(
    streams: Sequence[SourceStream],
    staging: MigrationStage,
    link: ClientLink,
    show: ShowProgress,
    *,
    shown: bool,
    accept_damage: bool,
) -> Outcome:
    """Copy streams into a running server, one after the other; those that are there already are left alone."""
    outcome = Outcome(placed=True)
    staging.begin()
    for stream in streams:
        try:
            outcome.done.append(_send(stream, staging, link, show, shown=shown, accept_damage=accept_damage))
        except (MigrationError, ApiRefusal) as error:
            outcome.failed.append(Failed(stream.account, stream.name, str(error)))
        except Failure as error:
            outcome.failed.append(Failed(stream.account, stream.name, error.message))
        finally:
            stream.close()
    return outcome


def _send(
    stream: SourceStream,
    staging: MigrationStage,
    link: ClientLink,
    show: ShowProgress,
    *,
    shown: bool,
    accept_damage: bool,
) -> Done:
    if stream.name in link.api_pages("STREAM.NAMES", "streams"):
        raise MigrationError("there is a stream of this name in the target already")
    with show(f"{stream.account} > {stream.name}", stream.size_bytes) as advance:
        done = copy_stream(stream, staging, advance, to_server=True)
    if done.damage and not accept_damage:
        staging.discard(done.directory)
        raise MigrationError(f"it is damaged ({'; '.join(done.damage)}): --accept-damage takes what can be read")
    work = Path(staging.path("sent"))
    work.mkdir()
    staged = StagedStream(staging.path(done.directory))
    try:
        state = staged.save(str(work / _DATA))
        restore_stream(link, work, staged.wire_config(), state, shown=shown, quiet=True)
        back = work / "back"
        info = link.api(f"STREAM.INFO.{stream.name}")
        save_stream(link, stream.name, back, {"no_consumers": True}, shown=shown, quiet=True)
        saved = open_saved(str(back / _DATA), info, stream.account, time.time_ns())
        gone = staged.compare(saved)
        there = {consumer["name"] for consumer in all_consumers(link, stream.name)}
        missing = sorted(set(done.consumers) - there)
        if missing:
            raise MigrationError(f"consumers are not in the target: {', '.join(missing)}")
    finally:
        staged.close()
        shutil.rmtree(work)
        staging.discard(done.directory)
    if gone:
        done.notes.append(f"{gone:,} messages went meanwhile, by the limits of the stream")
    return done
