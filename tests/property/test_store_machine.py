"""Both stores against two plain models of an index, what writers see and what readers see, over random histories.

With restarts and power cuts. Readers see the state of the last commit, whatever was appended or removed since.
"""

from __future__ import annotations

import copy
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from models.message_index import MessageIndexModel
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.jetstream.store.values import ALL, StoredMessage, SubjectState
from slipstream.testing.sim_disk import SimDisk
from support.sealing import sealed_disk
from support.stores import commit, new_file_store, new_memory_store, reopen, upkeep

SEGMENT = 6000
SUBJECTS = st.sampled_from([b"a", b"a.b", b"a.c", b"b.c", b"b.c.d"])
FILTERS = st.sampled_from([b"", b"a", b"a.*", b"*.c", b"b.>", b">", b"nothing"])


class StoreMachine(RuleBasedStateMachine):
    """One history, three tellers."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.file: FileStore = new_file_store(self.over(self.disk), segment_bytes=SEGMENT)
        self.memory: Store = new_memory_store()
        self.model = MessageIndexModel()  # as assigned
        self.shown = MessageIndexModel()  # as committed
        self.content: dict[int, StoredMessage] = {}
        self.config = b'{"name":"S"}'
        self.journal: dict[bytes, list[bytes]] = {}
        self.notes: dict[bytes, bytes] = {}
        self.ts = 0

    def over(self, disk: SimDisk) -> Disk:
        """What a process has between the store and its disk."""
        return disk

    @property
    def both(self) -> tuple[Store, Store]:
        return self.file, self.memory

    @rule(
        step=st.integers(1, 3),
        subject=SUBJECTS,
        headers=st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n"]),
        payload=st.binary(max_size=300),
        expires=st.sampled_from([0, 0, 0, 12345]),
        count=st.integers(1, 12),
    )
    def append(self, step: int, subject: bytes, headers: bytes, payload: bytes, expires: int, count: int) -> None:
        for _ in range(count):
            seq = self.model.last_seq + step
            self.ts += 7
            message = StoredMessage(seq, self.ts, subject, headers, payload, expires)
            for store in self.both:
                store.append(seq, self.ts, subject, headers, payload, expires)
            self.content[seq] = message
            self.model.append(seq, subject, self.file.message_bytes(len(subject), len(headers), len(payload)))

    @rule(
        slices=st.lists(st.integers(1, 30), min_size=1, max_size=4),
        subject=SUBJECTS,
        gap=st.sampled_from([0, 0, 0, 5]),
        ends=st.booleans(),
        deleted=st.integers(0, 30),
    )
    def unit(self, slices: list[int], subject: bytes, gap: int, ends: bool, deleted: int) -> None:
        """A unit in several commits, with a message removed in between; it ends or is given up."""
        before, start_ts = self.model.last_seq, self.ts
        earlier = copy.deepcopy(self.model)
        added: list[StoredMessage] = []
        for store in self.both:
            store.begin_atomic()
        for count in slices:
            for _ in range(count):
                self.ts += 7
                seq = (added[-1].seq if added else before + gap) + 1
                added.append(StoredMessage(seq, self.ts, subject, b"", b"%d" % seq, 0))
                for store in self.both:
                    store.append_atomic(seq, self.ts, subject, b"", b"%d" % seq)
            self.agree()
            for store in self.both:
                done = commit(store)
                assert done is None or (done.fault is None and done.last_seq == before)
            self.shown = earlier  # what was decided before the unit
        expected = self.model.delete(before - deleted)
        assert [store.delete(before - deleted) for store in self.both] == [expected, expected]
        if not ends:
            self.ts = start_ts
            for store in self.both:
                store.abort_atomic()
            return
        self.notes[b"unit"] = b"%d" % added[-1].seq
        for store in self.both:
            store.end_atomic({b"unit": self.notes[b"unit"]})
        for message in added:
            self.content[message.seq] = message
            size = self.file.message_bytes(len(subject), 0, len(message.payload))
            self.model.append(message.seq, subject, size)

    @rule(key=st.sampled_from([b"a", b"b"]), value=st.sampled_from([b"", b"1", b"22"]))
    def note(self, key: bytes, value: bytes) -> None:
        self.notes[key] = value
        if not value:
            del self.notes[key]
        for store in self.both:
            store.put_note(key, value)

    @rule(back=st.integers(0, 30))
    def delete(self, back: int) -> None:
        seq = self.model.last_seq - back
        expected = self.model.delete(seq)
        assert [store.delete(seq) for store in self.both] == [expected, expected]

    @rule(back=st.integers(0, 30))
    def erase(self, back: int) -> None:
        seq = self.model.last_seq - back
        expected = self.model.delete(seq)
        assert [store.erase(seq) for store in self.both] == [expected, expected]

    @rule(ahead=st.integers(0, 20))
    def trim(self, ahead: int) -> None:
        first_seq = self.model.first_seq + ahead
        expected = self.model.trim_to(first_seq)
        assert [store.trim_to(first_seq) for store in self.both] == [expected, expected]

    @rule(subject=FILTERS, back=st.integers(0, 20), keep=st.integers(0, 4))
    def purge(self, subject: bytes, back: int, keep: int) -> None:
        up_to = max(self.model.last_seq - back, 0)
        passing = self.model.passing((subject,) if subject else (), 0, up_to - 1 if up_to else 1 << 62)
        doomed = passing[: max(len(passing) - keep, 0)]
        if not subject and not keep:
            self.model.trim_to(up_to or self.model.last_seq + 1)
        for seq in doomed:
            self.model.delete(seq)
        assert [s.purge(subject, up_to_seq=up_to, keep=keep) for s in self.both] == [len(doomed), len(doomed)]

    @rule(ahead=st.integers(1, 100))
    def skip(self, ahead: int) -> None:
        self.model.skip_to(self.model.last_seq + ahead)
        for store in self.both:
            store.skip_to(self.model.last_seq)

    @rule(config=st.binary(min_size=1, max_size=40))
    def set_config(self, config: bytes) -> None:
        self.config = config
        for store in self.both:
            store.set_config(config)

    @rule(
        key=st.sampled_from([b"x", b"y"]), state=st.binary(max_size=20), how=st.sampled_from(["put", "add", "remove"])
    )
    def consumer(self, key: bytes, state: bytes, how: str) -> None:
        if how == "put":
            self.journal[key] = [state]
        elif how == "add" and key in self.journal:
            self.journal[key].append(state)
        elif how == "remove":
            self.journal.pop(key, None)
        else:
            return
        for store in self.both:
            if how == "remove":
                store.journal.remove(key)
            else:
                (store.journal.put if how == "put" else store.journal.add)(key, state)

    @rule(sync=st.booleans())
    def commit(self, sync: bool) -> None:
        for store in self.both:
            done = commit(store, sync=sync)
            assert done is None or (done.fault is None and done.last_seq == self.model.last_seq)
        self.shown = copy.deepcopy(self.model)

    @rule()
    def upkeep(self) -> None:
        for store in self.both:
            upkeep(store)

    @precondition(lambda self: self.model.last_seq > 0)
    @rule(clean=st.booleans(), keep=st.sampled_from([0.0, 1.0]))
    def restart(self, clean: bool, keep: float) -> None:
        self.commit(True)
        if clean:
            self.file.close()
        self.disk = self.disk.crash(random.Random(0), keep=keep, torn=False)
        self.file = reopen(self.over(self.disk), segment_bytes=SEGMENT)
        assert self.file.report.damaged_regions == [] and self.file.lost().seqs == []
        expiring = [(seq, m.expires_ns) for seq, m in sorted(self.content.items()) if m.expires_ns]
        assert list(self.file.expiries()) == [pair for pair in expiring if pair[0] in self.model.subjects]

    @invariant()
    def agree(self) -> None:
        assigned, model = self.model, self.shown
        for store in self.both:
            store.state.index.check()
            assert (store.assigned.first_seq, store.last_seq) == (assigned.first_seq, assigned.last_seq)
            assert store.assigned.messages == assigned.messages
            for subject in (b"a", b"a.b", b"b.c.d"):
                assert store.assigned.subject_state(subject) == SubjectState(*assigned.subject_state(subject))
            assert (store.first_seq, store.committed_seq) == (model.first_seq, model.last_seq)
            assert (store.messages, store.num_subjects) == (model.messages, model.num_subjects)
            last_seq = max(store.committed_seq, 1)
            if not store.committed_seq:
                continue
            everything = store.read_batch(ALL, 0, max_msgs=10**6, max_bytes=1 << 40, up_to_seq=last_seq)
            assert everything == [self.content[seq] for seq in sorted(model.subjects)]
            for start in (0, model.last_seq):
                bounds = {"max_msgs": 10**6, "max_bytes": 1 << 40, "up_to_seq": last_seq}
                batch = store.gather(ALL, start, **bounds)
                assert [batch.message(i) for i in range(len(batch))] == [m for m in everything if m.seq >= start]
            assert store.config == self.config
            assert store.notes() == self.notes
            assert store.journal.entries() == self.journal
            if model.last_seq < 10_000:
                assert store.deleted(40) == model.deleted(40)
            for wanted in (b"a.*", b"a.b", b"*.c"):
                assert store.count_matching((wanted,), 3, last_seq) == len(model.passing((wanted,), 3))
                newest = max(model.passing((wanted,)), default=0)
                assert store.load_last(wanted) == self.content.get(newest)
                assert store.assigned.last_seq_of(wanted) == max(assigned.passing((wanted,)), default=0)
                assert store.assigned.count((wanted,)) == len(assigned.passing((wanted,)))
        assert self.file.size_bytes == model.size_bytes
        assert self.file.assigned.size_bytes == assigned.size_bytes


class SealedStoreMachine(StoreMachine):
    """The same, encrypted."""

    def over(self, disk: SimDisk) -> Disk:
        return sealed_disk(disk)


class PackedStoreMachine(StoreMachine):
    """The same, encrypted, with closed segments that are compressed, or not any more."""

    def over(self, disk: SimDisk) -> Disk:
        return PackedDisk(sealed_disk(disk))

    @rule(codec=st.sampled_from([Codec.NONE, Codec.S2, Codec.ZSTD]))
    def compress(self, codec: Codec) -> None:
        self.file.compress(codec)
        upkeep(self.file)


TestStoreMachine = StoreMachine.TestCase
TestSealedStoreMachine = SealedStoreMachine.TestCase
TestPackedStoreMachine = PackedStoreMachine.TestCase
TestStoreMachine.settings = settings(stateful_step_count=40, deadline=None)
TestSealedStoreMachine.settings = settings(TestStoreMachine.settings, max_examples=20)
TestPackedStoreMachine.settings = settings(TestStoreMachine.settings, max_examples=30)
