"""Backups that come into a cluster: taken in by who leads the new stream, or keeps its only copy.

    meta leader: assigned, restoring ──begin──► its leader: chunks ──► all committed ──ended──► meta leader: no longer
                                                      │                                          restoring ──► it opens
                                                      └── failed, abandoned ──ended──► meta leader: removed

A stream is not open to anybody before the meta group has agreed that it is restored: nobody can have published to what
is then removed. A leader that finds a stream restoring and takes in no backup for it, because it took over or was
started again, has it removed: half a stream is worse than none.

What this is not: the call of the API (`api.restore`), or what chunks hold (`jetstream.backup`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.limits import BACKUPS_MAX
from slipstream.jetstream.api.restoring import RestoreSession
from slipstream.jetstream.api.subjects import TYPE_PREFIX
from slipstream.jetstream.backup.commits import OwnCommits, ReplicatedCommits
from slipstream.jetstream.backup.restore import StreamBounds
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.stream import Stream
from slipstream.replication.hosting import Hosting
from slipstream.replication.meta.entries import Assignment, stream_key
from slipstream.replication.meta.group import MetaGroup
from slipstream.replication.peer_calls import Answer

__all__ = ["BEGIN_RESTORE", "RESTORE_ENDED", "BeginRestore", "RestoreBegun", "RestoreEnded", "Restores", "Said", "said"]

BEGIN_RESTORE: Final = "restore"
RESTORE_ENDED: Final = "restored"
_BEGUN: Final = TYPE_PREFIX + "stream_restore_response"
_ORPHAN_TICKS: Final = 50  # a leader takes in no backup for so long: nobody will send one
_TELL_TICKS: Final = 10
_HELD_MAX: Final = 256

Said = tuple[int, int, str]
"""An error: code, number and text."""


def said(error: ApiError) -> Said:
    """An error as servers tell each other."""
    return error.code, error.err_code, error.description


class BeginRestore(msgspec.Struct, array_like=True):
    """To the servers of a new stream: whoever leads it takes in a backup."""

    account: str
    stream: str
    group: int
    seq: int
    """What the meta group had agreed on up to here."""
    bounds: StreamBounds
    client: dict[str, object]
    """Who asks."""
    reply: str
    unrestricted: bool
    """Whether who asks may publish to every subject."""


class RestoreBegun(msgspec.Struct, array_like=True):
    """Where the chunks go, or why nowhere."""

    deliver_subject: str = ""
    error: Said | None = None


class RestoreEnded(msgspec.Struct, array_like=True):
    """To all servers, of which the meta group's leader acts."""

    account: str
    stream: str
    group: int
    created_ns: int = 0
    """When the stream was made, if all of it is there; 0: it is to be removed."""
    error: Said | None = None


class _RemoteCaller:
    """A client that the meta group's leader speaks for. Implements `RestoreCaller`."""

    def __init__(self, asked: BeginRestore, host: JetStreamAccount, answer: Answer) -> None:
        self._asked = asked
        self._host = host
        self._answer = answer
        self.client = asked.client

    def grants(self, _subject: bytes) -> bool:
        return self._asked.unrestricted

    def begun(self, deliver_subject: str) -> None:
        """Answers the client from here: what it sends then finds who listens, whichever server it is connected to."""
        if self._asked.reply:
            body = encode({"type": _BEGUN, "deliver_subject": deliver_subject})
            self._host.ports.publish(self._asked.reply.encode(), None, None, body)
        self._answer(msgspec.msgpack.encode(RestoreBegun(deliver_subject)))

    def refused(self, error: ApiError) -> None:
        self._answer(msgspec.msgpack.encode(RestoreBegun(error=said(error))))

    def concluded(self, error: ApiError | None) -> None:
        """The meta group's leader hears how it ends."""


class _Filling:
    """A stream that this server fills."""

    __slots__ = ("assignment", "created_ns", "error", "opens", "session", "ticks")

    def __init__(self, assignment: Assignment, session: RestoreSession) -> None:
        self.assignment = assignment
        self.session = session
        self.created_ns = 0  # all is committed
        self.error: ApiError | None = None  # it has failed
        self.opens: Callable[[int | ApiError], None] | None = None  # of one with a single copy
        self.ticks = 0

    @property
    def has_ended(self) -> bool:
        return bool(self.created_ns) or self.error is not None


class Restores:
    """Those of one server."""

    def __init__(
        self,
        account: Callable[[str], JetStreamAccount | None],
        hosting: Hosting,
        meta: Callable[[], MetaGroup | None],
        tell_all: Callable[[str, bytes], None],
    ) -> None:
        """None yet; `tell_all` tells all servers something, this one among them."""
        self._account = account
        self._hosting = hosting
        self._meta = meta
        self._tell_all = tell_all
        self._questions: list[tuple[BeginRestore, Answer]] = []
        self._restoring: dict[int, tuple[Assignment, int]] = {}  # by group, for how many ticks nobody fills it
        self._filling: dict[int, _Filling] = {}  # by group
        self._sessions: dict[str, set[RestoreSession]] = {}  # by account
        self._opening: dict[int, tuple[Assignment, RestoreSession]] = {}  # restored, and not open yet
        self.concluding: dict[int, Callable[[ApiError | None], None]] = {}
        """On the meta group's leader: who is told how restores end, by group."""

    # --- what servers say -------------------------------------------------------------------------------------------

    def handle(self, method: str, body: bytes, answer: Answer) -> bool:
        """See `PeerCalls`; whether it is about restores. What makes no sense is not answered."""
        if method not in (BEGIN_RESTORE, RESTORE_ENDED):
            return False
        try:
            if method == RESTORE_ENDED:
                self._ended(msgspec.msgpack.decode(body, type=RestoreEnded))
            elif len(self._questions) < _HELD_MAX:
                self._questions.append((msgspec.msgpack.decode(body, type=BeginRestore), answer))
                self.look()
        except (msgspec.DecodeError, UnicodeError):
            pass
        return True

    def _ended(self, what: RestoreEnded) -> None:
        """On the meta group's leader: open the stream, or remove it."""
        conclude = self.concluding.pop(what.group, None)
        if conclude is not None:
            conclude(ApiError(*what.error) if what.error is not None else None)
        meta = self._meta()
        if meta is None or meta.draft is None:
            return
        found = meta.draft.find(what.account, what.stream)
        if found is None or found.group != what.group or not found.restoring:
            return
        if what.created_ns:
            done = msgspec.structs.replace(found, restoring=False, created_ns=what.created_ns)
            meta.propose([done], lambda _: None)
        else:
            meta.propose([stream_key(what.account, what.stream)], lambda _: None)

    # --- events -----------------------------------------------------------------------------------------------------

    def assigned(self, old: Assignment | None, new: Assignment | None) -> None:
        """The meta group has agreed on something else; `Hosting` knows it already."""
        if new is not None and new.restoring:
            self._restoring[new.group] = new, 0
        if old is None or not old.restoring or (new is not None and new.restoring):
            return
        self._restoring.pop(old.group, None)
        filling = self._filling.pop(old.group, None)
        if new is None or new.group != old.group:
            if filling is not None:
                filling.session.give_up("was removed")
                if filling.opens is not None:
                    filling.opens(filling.error or TableError(table.STREAM_NOT_FOUND))
        elif filling is not None and filling.opens is not None:
            filling.opens(filling.created_ns)
        else:
            if filling is not None:
                self._opening[new.group] = new, filling.session
            self._hosting.open_restored(new)

    def released(self, assignment: Assignment) -> None:
        """Another server leads a stream that was held back here."""
        filling = self._filling.get(assignment.group)
        if filling is not None:
            filling.session.give_up("is led by another server")

    def tick(self) -> None:
        """A tick has passed."""
        for filling in self._filling.values():
            filling.ticks += 1
            if filling.has_ended and filling.ticks % _TELL_TICKS == 0:
                self._tell(filling)
        asked = {question.group for question, _ in self._questions}
        for group, (assignment, ticks) in self._restoring.items():
            mine = group not in self._filling and group not in asked and self._is_mine(assignment)
            self._restoring[group] = assignment, ticks + 1 if mine else 0
            if mine and ticks >= _ORPHAN_TICKS and ticks % _TELL_TICKS == 0:
                what = RestoreEnded(assignment.account, assignment.name, group)
                self._tell_all(RESTORE_ENDED, msgspec.msgpack.encode(what))
        self.look()

    def look(self) -> None:
        """Something may have changed: begin what can begin, and answer for what is open."""
        if self._questions:
            questions, self._questions = self._questions, []
            self._questions += [one for one in questions if not self._try(*one)]
        for group, (assignment, session) in list(self._opening.items()):
            stream = self._hosting.kept.led(assignment.account, assignment.name)
            if stream is not None:
                del self._opening[group]
                stream.after_commit(_opened(stream, session))
            elif not self._hosting.kept.leads(assignment):
                del self._opening[group]  # who leads it now does not know who waits

    # --- inside -----------------------------------------------------------------------------------------------------

    def _is_mine(self, assignment: Assignment) -> bool:
        """Whether this server would take in the backup."""
        if not assignment.is_replicated:
            return self._hosting.kept.keeps(assignment)
        return self._hosting.kept.held(assignment) is not None

    def _try(self, question: BeginRestore, answer: Answer) -> bool:
        meta = self._meta()
        if meta is None or meta.handed_seq < question.seq:
            return False
        assignment = meta.state.find(question.account, question.stream)
        host = self._account(question.account)
        if assignment is None or assignment.group != question.group or not assignment.restoring or host is None:
            return True
        if not self._is_mine(assignment):
            return False
        caller = _RemoteCaller(question, host, answer)
        sessions = self._sessions.setdefault(host.name, set())
        if len(sessions) >= BACKUPS_MAX:
            caller.refused(TableError(table.STREAM_RESTORE, err="too many backups and restores at the same time"))
            return True
        session = RestoreSession(host, caller, assignment.config, question.bounds, sessions)
        filling = self._filling[assignment.group] = _Filling(assignment, session)
        held = self._hosting.kept.held(assignment)
        if held is None:
            self._fill_only_copy(host, filling)
        else:

            def filled(outcome: int | ApiError) -> None:
                self._filled(filling, outcome)
                if isinstance(outcome, ApiError):
                    session.done(outcome)

            session.fill(assignment.config, held.store, ReplicatedCommits(held), filled)
        return True

    def _fill_only_copy(self, host: JetStreamAccount, filling: _Filling) -> None:
        assignment, session = filling.assignment, filling.session

        def fill(config: StreamConfig, store: Store, opens: Callable[[int | ApiError], None]) -> None:
            def filled(outcome: int | ApiError) -> None:
                if isinstance(outcome, ApiError):
                    self._filled(filling, outcome)
                    opens(outcome)
                else:
                    filling.opens = opens
                    self._filled(filling, outcome)

            session.fill(config, store, OwnCommits(store, host.ports), filled)

        def done(outcome: Stream | ApiError) -> None:
            if isinstance(outcome, ApiError) and not filling.has_ended:
                self._filled(filling, outcome)
            session.done(outcome)

        host.place_stream(assignment.config, assignment.created_ns, done, fill)

    def _filled(self, filling: _Filling, outcome: int | ApiError) -> None:
        """All is there, or never will be: the meta group has to know."""
        if isinstance(outcome, ApiError):
            filling.error = outcome
        else:
            filling.created_ns = outcome
        self._tell(filling)

    def _tell(self, filling: _Filling) -> None:
        assignment, error = filling.assignment, filling.error
        what = RestoreEnded(
            assignment.account,
            assignment.name,
            assignment.group,
            filling.created_ns,
            None if error is None else said(error),
        )
        self._tell_all(RESTORE_ENDED, msgspec.msgpack.encode(what))


def _opened(stream: Stream, session: RestoreSession) -> Callable[[ApiError | None], None]:
    return lambda error: session.done(error or stream)
