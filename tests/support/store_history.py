"""What a file store promised so far, and whether a disk keeps those promises.

`Driver` makes changes to a store and keeps the books: what must be there after a crash (committed, never asked to be
removed), what may be there (everything else that was ever appended and whose removal is not committed), and what must
not (removal committed). `check` opens a disk as a new process would and compares.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

from slipstream.jetstream.store.chains import ChainHead
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.chain_check import check_directory
from slipstream.jetstream.store.values import ALL, Committed, Job, StoredMessage, StoreUnavailable
from slipstream.testing.sim_disk import SimDisk

from .sealing import is_sealed, sealed_disk
from .stores import DIRECTORY, new_file_store, reopen, upkeep

Content = tuple[int, bytes, bytes, bytes, int]


class Broken(BaseException):
    """A promise was not kept. Raised inside of disk calls, so no handler of errors may take it for one."""


class Driver:
    """A store, its disk, and what it promised."""

    def __init__(
        self,
        disk: SimDisk,
        *,
        segment_bytes: int = 8192,
        store: FileStore | None = None,
        directory: str = DIRECTORY,
        chained: bool = False,
    ) -> None:
        """Start with a fresh stream; `chained`: with a hash chain, which must hold in every state."""
        self.chained = chained
        self.disk = disk
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.created = False
        self.appended: dict[int, set[Content]] = {}
        self.must: dict[int, Content] = {}
        self.gone: set[int] = set()
        self.committed_last = 0
        self.configs: list[bytes] = [b'{"name":"S"}']
        self.config_committed = 0
        self.states: list[dict[bytes, list[bytes]]] = [{}]
        self.states_committed = 0
        self.units: list[tuple[set[int], bytes]] = []
        self.erased: list[bytes] = []
        self._nonce = 0
        self._pending_appends: dict[int, Content] = {}
        self._pending_gone: set[int] = set()
        self._pending_erased: list[bytes] = []
        self.store = store or new_file_store(disk, directory, segment_bytes=segment_bytes, chained=chained)
        self.created = True

    # --- changes ----------------------------------------------------------------------------------------------------

    def append(self, count: int = 1, *, size: int = 60, subjects: int = 5) -> None:
        for _ in range(count):
            self._append(self.store.append, self.store.last_seq + 1, size, subjects)

    def _append(self, append: Callable[..., None], seq: int, size: int = 60, subjects: int = 5) -> None:
        self._nonce += 1  # so that a sequence used again after a failure carries other bytes
        body = (b"<secret-%d-%d>" % (seq, self._nonce)).ljust(size, b".")
        content = (seq * 10, b"s.%d" % (seq % subjects), b"", body, 0)
        append(seq, *content)
        self.appended.setdefault(seq, set()).add(content)
        self._pending_appends[seq] = content

    def unit(self, *slices: int, aborted: bool = False, between: Callable[[], None] = lambda: None) -> None:
        """A unit whose parts are committed on the way, with a note that is true exactly if the unit is there."""
        first = self.store.last_seq + 1
        before, self._pending_appends = self._pending_appends, {}
        self.store.begin_atomic()
        seq = first
        try:
            for count in slices:
                for _ in range(count):
                    self._append(self.store.append_atomic, seq)
                    seq += 1
                if len(slices) > 1:
                    mine, self._pending_appends = self._pending_appends, before
                    self._slice(between)
                    before, self._pending_appends = {}, mine
            assert self.store.last_seq == first - 1 and self.store.get(first) is None, "an open unit is not to be seen"
            if aborted:
                self.store.abort_atomic()
            else:
                self._nonce += 1
                self.store.end_atomic({b"unit": b"%d" % self._nonce})
        except StoreUnavailable:
            self.store.abort_atomic()
            self._pending_appends = before
            raise
        if aborted:
            self._pending_appends = before
        else:
            self._pending_appends = {**before, **self._pending_appends}
            self.units.append((set(range(first, seq)), b"%d" % self._nonce))

    def _slice(self, between: Callable[[], None]) -> None:
        """Commit a part of a unit. What was removed or set meanwhile is not covered by it."""
        between()
        gone, self._pending_gone = self._pending_gone, set()
        erased, self._pending_erased = self._pending_erased, []
        config = self.config_committed
        self.commit()
        self.config_committed = config
        self._pending_gone |= gone
        self._pending_erased = erased + self._pending_erased

    def delete(self, seq: int) -> None:
        if self.store.delete(seq):
            self._remove({seq})

    def erase(self, seq: int) -> None:
        message = self.store.get(seq)
        if self.store.erase(seq):
            assert isinstance(message, StoredMessage)
            self._remove({seq})
            self._pending_erased.append(message.payload)

    def purge(self, subject: bytes = b"", **bounds: int) -> None:
        before = self.present(self.store)
        self.store.purge(subject, **bounds)
        self._remove(before - self.present(self.store))

    def trim(self, first_seq: int) -> None:
        before = self.present(self.store)
        self.store.trim_to(first_seq)
        self._remove(before - self.present(self.store))

    def set_config(self, config: bytes) -> None:
        self.store.set_config(config)
        self.configs.append(config)

    def journal(self, change: Callable[[FileStore], None]) -> None:
        change(self.store)
        self.states.append(self.store.journal.entries())

    def _remove(self, seqs: set[int]) -> None:
        for seq in seqs:
            self.must.pop(seq, None)
            self._pending_gone.add(seq)

    # --- commit -----------------------------------------------------------------------------------------------------

    def commit(self, *, sync: bool = True) -> Committed | None:
        inline = self.store.last_seq % 2 == 0  # either way is as good
        job = self.store.begin_commit(sync=sync, inline=inline)
        return None if job is None else self._finish(job)

    def _finish(self, job: Job) -> Committed:
        settle = self.in_flight()
        if not job.ended:
            job.run()
        return settle(job)

    def in_flight(self) -> Callable[[Job], Committed]:
        """What was done so far is in a commit that has begun: to be called when that was run."""
        appends, self._pending_appends = self._pending_appends, {}
        gone, self._pending_gone = self._pending_gone, set()
        erased, self._pending_erased = self._pending_erased, []
        config, states = len(self.configs) - 1, len(self.states) - 1
        return lambda job: self._settle(job, appends, gone, erased, config, states)

    def _settle(
        self, job: Job, appends: dict[int, Content], gone: set[int], erased: list[bytes], config: int, states: int
    ) -> Committed:
        done = self.store.finish_commit(job)
        if done.fault is None:
            self.committed_last = done.last_seq
            removed = gone | self._pending_gone
            self.must.update({seq: content for seq, content in appends.items() if seq not in removed})
            self.gone |= gone
            if self.store.erasing:
                self._pending_erased = erased + self._pending_erased
            else:
                self.erased += erased
            self.config_committed, self.states_committed = config, states
        else:
            # None of this happened, and none of it will: an asked removal leaves the message as it was or removed.
            self._pending_appends = {}
            self._pending_gone = set()
            self._pending_erased = []
            self.units = [unit for unit in self.units if max(unit[0]) <= self.committed_last]
        return done

    def upkeep(self, turns: int = 100) -> None:
        for _ in range(turns):
            faulted = self.store.fault is not None
            job = self.store.begin_upkeep() or self.store.begin_upkeep()  # the second one is the next turn
            if job is None:
                return
            job.run()
            self.store.finish_upkeep(job)
            if faulted and self.store.fault is None:
                # Repaired: what the store shows now is what it goes on from.
                self.configs.append(self.store.config)
                self.states.append(self.store.journal.entries())

    def upkeep_around(self, change: Callable[[], None], turns: int = 30) -> None:
        """Upkeep as beside a busy stream: changes are made and committed before and after each piece runs."""
        for _ in range(turns):
            job = self.store.begin_upkeep() or self.store.begin_upkeep()
            if job is None:
                return
            change()
            self.commit()
            job.run()
            change()
            commit = self.store.begin_commit()
            self.store.finish_upkeep(job)
            if commit is not None:
                self._finish(commit)

    # --- checking ---------------------------------------------------------------------------------------------------

    def present(self, store: FileStore) -> set[int]:
        return {read.seq for read in _everything(store) if store.assigned.has(read.seq)}

    @property
    def promises(self) -> tuple[object, ...]:
        """Another value after every change of what `check` holds a disk to."""
        counts = (self.must, self.gone, self._pending_gone, self.units, self.erased, self.configs, self.states)
        marks = (self._nonce, self.created, self.committed_last, self.config_committed, self.states_committed)
        return (*marks, *map(len, counts))

    def check(self, disk: SimDisk) -> None:
        """Open a disk left by a crash and hold the store to its promises, twice, and after going on."""
        if not self.created:
            return
        self._check_chain(disk)
        store = reopen(disk, self.directory, segment_bytes=self.segment_bytes)
        found = self._compare(store, disk)
        again = reopen(disk.copy(), self.directory, segment_bytes=self.segment_bytes)
        if self._compare(again, disk) != found:
            raise Broken("recovery is not repeatable")
        self._goes_on(store, disk, found)

    def check_served(self, disk: SimDisk, rng: random.Random) -> None:
        """Open a disk that a process left which died, and cut the power: what was to be read before is still there.

        The power may go at any call that the opening makes as well, and the opening after that is held to the same.
        """
        if not self.created:
            return
        disk.before_call = lambda now: self._after_power_cut(now, rng, {}, {})
        store = reopen(disk, segment_bytes=self.segment_bytes)
        disk.before_call = None
        served, states = self._compare(store, disk), store.journal.entries()
        self._after_power_cut(disk, rng, served, states)
        upkeep(store)
        self._after_power_cut(disk, rng, served, states)

    def _after_power_cut(
        self, disk: SimDisk, rng: random.Random, served: dict[int, Content], states: dict[bytes, list[bytes]]
    ) -> None:
        for keep in (0.0, rng.random()):
            left = disk.crash(rng, keep=keep, torn=keep > 0)
            store = reopen(left, segment_bytes=self.segment_bytes)
            found = self._compare(store, left)
            if any(found.get(seq) != content for seq, content in served.items()):
                raise Broken("served after a start, and gone or changed after a power cut")
            if served and store.journal.entries() != states:
                raise Broken("consumer state served after a start, and gone or changed after a power cut")

    def _compare(self, store: FileStore, disk: SimDisk) -> dict[int, Content]:
        store.state.index.check()
        found: dict[int, Content] = {}
        for read in _everything(store):
            if not isinstance(read, StoredMessage):
                raise Broken(f"damage where there is none: {read}")
            found[read.seq] = (read.ts_ns, read.subject, read.headers, read.payload, read.expires_ns)
        missing = [seq for seq in self.must if seq not in found]
        if missing:
            raise Broken(f"acknowledged and lost: {missing[:10]} of {len(missing)}; report {store.report}")
        for seq, content in found.items():
            if content not in self.appended.get(seq, ()):
                raise Broken(f"never appended: {seq} {content}")
            if seq in self.must and self.must[seq] != content:
                raise Broken(f"other bytes under an acknowledged sequence: {seq}")
        back = self.gone & set(found)
        if back:
            raise Broken(f"removed and back again: {sorted(back)[:10]}")
        if store.last_seq < self.committed_last:
            raise Broken(f"last sequence went back: {store.last_seq} < {self.committed_last}")
        if store.lost().seqs:
            raise Broken(f"loss reported without loss: {store.lost()}")
        if store.config not in self.configs[self.config_committed :]:
            raise Broken(f"configuration lost: {store.config!r}")
        if store.journal.entries() not in self.states[self.states_committed :]:
            raise Broken(f"consumer state lost: {store.journal.entries()}")
        noted = int(store.notes().get(b"unit", b"0"))
        for unit, note in self.units:
            here = unit & set(found)
            if here and any(seq not in found for seq in unit if seq not in self.gone | self._pending_gone):
                raise Broken(f"half a unit: {sorted(here)} of {sorted(unit)}")
            if bool(here) != (noted >= int(note)) and not unit & (self.gone | self._pending_gone):
                raise Broken(f"a note without its unit, or the other way round: {noted}, {note!r}")
        for secret in self.erased:
            if any(secret in disk.content(path) for path in disk.paths() if path.startswith(self.directory)):
                raise Broken(f"erased bytes are still there: {secret!r}")
        return found

    def _goes_on(self, store: FileStore, disk: SimDisk, found: dict[int, Content]) -> None:
        checkpoint = store.chain_head
        self._check_chain(disk, checkpoint)
        seq = store.last_seq + 1
        store.append(seq, 10**9, b"after", b"", b"the crash")
        job = store.begin_commit()
        assert job is not None
        job.run()
        done = store.finish_commit(job)
        if done.fault is not None or done.last_seq != seq:
            raise Broken("no commit after recovery")
        later = reopen(disk, self.directory, segment_bytes=self.segment_bytes)
        if self.present(later) != {*found, seq}:
            raise Broken("going on after recovery changed the past")
        self._check_chain(disk, checkpoint)
        if later.log.chain is not None and (later.log.chain.committed.last_seq != seq or later.log.chain.unlinked):
            raise Broken("going on after recovery left something out of the chain")

    def _check_chain(self, disk: SimDisk, checkpoint: ChainHead | None = None) -> None:
        """A crash is no tampering: the files as they lie there hold, and nothing is changed by looking."""
        if not self.chained:
            return
        report = check_directory(sealed_disk(disk) if is_sealed() else disk, self.directory, wanted=checkpoint)
        if not report.intact:
            raise Broken(f"a chain that nobody broke: {report.broken}")
        if report.head.last_seq < self.committed_last:
            raise Broken("the chain ends before what was committed")
        if report.unlinked is not None and 0 < report.unlinked[0] <= self.committed_last:
            raise Broken(f"committed and not linked: {report.unlinked}")
        if checkpoint is not None and report.unlinked is not None and 0 < report.unlinked[0] <= checkpoint.last_seq:
            raise Broken(f"a checkpoint at {checkpoint.last_seq}, and not linked: {report.unlinked}")


def _everything(store: FileStore) -> list[object]:
    return list(store.read_batch(ALL, 0, max_msgs=1_000_000, max_bytes=1 << 40, up_to_seq=max(store.last_seq, 1)))


def state_digest(disk: SimDisk) -> bytes:
    """Tells two disks apart."""
    found = hashlib.blake2b(digest_size=16)
    for path in disk.paths():
        content = disk.content(path)
        found.update(b"%s %d\0" % (path.encode(), len(content)))
        found.update(content)
    return found.digest()


def watch(
    driver_of: Callable[[], Driver | None],
    disk: SimDisk,
    *,
    images: int,
    seed: int,
    double_faults: float = 0.1,
    calls: float = 1.0,
) -> list[int]:
    """From now on, check what a crash before each call of the disk could leave. Returns a counter of checked states.

    `calls` is the share of calls that are looked at. At a share of these also what a second fault leaves: the power
    goes while or after a process opened it.
    """
    rng = random.Random(seed)
    checked = [0]
    known: set[tuple[object, ...]] = set()  # states that were checked, with what had been promised by then

    def look(now: SimDisk) -> None:
        driver = driver_of()
        if driver is None or rng.random() >= calls:
            return
        states = [now.crash(rng, keep=0.0, torn=False), now.crash(rng, keep=1.0, torn=False)]
        states += [now.crash(rng, keep=rng.random(), torn=bool(rng.getrandbits(1))) for _ in range(images)]
        for state in states:
            checked[0] += 1
            # A sync changes nothing in what a disk that keeps all has, a write nothing in what one that keeps none has.
            key = (state_digest(state), *driver.promises)
            if key not in known:
                known.add(key)
                driver.check(state)
        if rng.random() < double_faults:
            driver.check_served(now.kill(), rng)
            driver.check_served(now.crash(rng, keep=rng.random(), torn=True), rng)
            checked[0] += 2

    disk.before_call = look
    return checked


__all__ = ["DIRECTORY", "Broken", "Driver", "watch"]
