"""Encryption that is turned on or off in place: everything is readable at every moment, and done is done."""

from __future__ import annotations

import random
from typing import Final

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.account.directory import account_directory
from slipstream.jetstream.store.chains import ChainReport
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.jetstream.store.sealed.forms import count_files
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.jetstream.store.sealed.marker import MARKER, MarkState, check_keys, read_mark, write_mark
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.server.jetstream.at_rest import AtRest, KeysAtRest
from slipstream.server.jetstream.conversion import Conversion, convert_stream
from slipstream.testing.sim_disk import SimDisk
from support.stores import commit, new_file_store, reopen, upkeep, write_everything

KEY: Final = MainKey(b"the key that comes or goes", AtRestCipher.AES)
ROOT: Final = "/store"
ACCOUNT: Final = "plain account"
UID: Final = "0123456789abcdef" * 2
TO: Final = pytest.mark.parametrize("state", [MarkState.ENCRYPTING, MarkState.DECRYPTING], ids=["on", "off"])
EXPECTED: Final = dict.fromkeys(range(160, 301), b"plainpayload" * 9)


def other(state: MarkState) -> MarkState:
    return MarkState.DECRYPTING if state is MarkState.ENCRYPTING else MarkState.ENCRYPTING


def stores(disk: SimDisk, state: MarkState) -> tuple[AtRest, PackedDisk]:
    """What a new process has between itself and the disk."""
    at_rest = AtRest(disk, KeysAtRest(KEY, state))
    return at_rest, PackedDisk(at_rest.disk)


def path_of(at_rest: AtRest) -> str:
    return f"{ROOT}/{at_rest.account_directory(ACCOUNT)}/streams/{UID}"


def plain_directory(*, chained: bool = False) -> SimDisk:
    """A storage directory with everything that makes files, not encrypted."""
    disk = SimDisk()
    disk.make_dir(ROOT)
    write_whole_file(disk, f"{ROOT}/SERVER.nk", b"SNPLAINSEED\n")
    directory = f"{ROOT}/{account_directory(ACCOUNT)}/streams/{UID}"
    store = new_file_store(disk, directory, segment_bytes=8192, chained=chained)
    write_everything(store, 300)
    store.close()
    return disk.copy()


def converted(disk: SimDisk, state: MarkState) -> Conversion:
    """Everything that a server does about it, without a server."""
    at_rest, upper = stores(disk, state)
    at_rest.prepare(ROOT, [ACCOUNT])
    conversion = Conversion(disk, upper, ROOT, at_rest, lambda _level, _text: None)
    for _ in range(3):
        if not conversion.is_done:
            conversion.look()
    return conversion


def start(state: MarkState) -> SimDisk:
    """A directory that is to go where `state` says."""
    disk = plain_directory()
    if state is MarkState.DECRYPTING:
        assert converted(disk, MarkState.ENCRYPTING).is_done
    return disk.copy()


def check(disk: SimDisk, state: MarkState) -> None:
    """All that was stored is there for a process that goes into this direction."""
    at_rest, upper = stores(disk, state)
    store = reopen(upper, path_of(at_rest), segment_bytes=8192)
    assert not store.report.damaged_regions and not store.lost().seqs
    reads = store.read_batch(ALL, 0, max_msgs=1000, max_bytes=1 << 30, up_to_seq=1000)
    assert {read.seq: read.payload for read in reads if isinstance(read, StoredMessage)} == EXPECTED
    assert store.journal.entries() == {b"plainconsumer": [b"plainstate"]} and store.notes() == {
        b"plainnote": b"plainvalue"
    }
    assert store.bulk.staging().read("one", 0, 18) == b"plainpart" * 2
    assert upper.read(f"{ROOT}/SERVER.nk", 0, 100) == b"SNPLAINSEED\n"


def readable(disk: SimDisk) -> list[str]:
    """Files in which anybody can read."""
    return [path for path in disk.paths() if b"plain" in bytes(disk.content(path)) or "plain" in path]


@TO
def test_it_is_done_when_nothing_is_left(state: MarkState) -> None:
    disk = start(state)
    found = converted(disk, state)
    sealed = state is MarkState.ENCRYPTING
    assert found.is_done and found.files > 5 and found.progress().left == 0
    assert count_files(disk, ROOT, sealed=sealed)[1] == []
    assert bool(readable(disk)) != sealed
    assert (read_mark(disk, ROOT) is not None) == sealed
    check(disk, MarkState.SEALED if sealed else MarkState.DECRYPTING)
    if not sealed:
        assert MARKER not in disk.list_dir(ROOT)
        reopen(disk, f"{ROOT}/{account_directory(ACCOUNT)}/streams/{UID}")


@TO
def test_it_is_cut_short_at_every_call(state: MarkState) -> None:
    """Whatever a crash leaves is read by a process that goes on, or back; and both come to an end."""
    disk = start(state)
    images: list[SimDisk] = []

    def keep(now: SimDisk) -> None:
        images.append(now.crash(random.Random(now.calls), keep=now.calls % 3 / 2, torn=True))

    disk.before_call = keep
    assert converted(disk, state).is_done
    disk.before_call = None
    assert len(images) > 20
    for number, image in enumerate(images):
        goes = state if number % 4 else other(state)
        at_rest, _ = stores(image, goes)
        at_rest.prepare(ROOT, [ACCOUNT])
        check(image.copy(), goes)
        assert converted(image, goes).is_done, (number, count_files(image, ROOT, sealed=goes is MarkState.ENCRYPTING))
        check(image, MarkState.SEALED if goes is MarkState.ENCRYPTING else goes)
        assert bool(readable(image)) != (goes is MarkState.ENCRYPTING)


def test_messages_come_while_it_goes_on() -> None:
    disk = plain_directory()
    at_rest, upper = stores(disk, MarkState.ENCRYPTING)
    at_rest.prepare(ROOT, [ACCOUNT])
    conversion = Conversion(disk, upper, ROOT, at_rest, lambda _level, _text: None)
    conversion.leave(path_of(at_rest).rsplit("/", 2)[0])
    store = reopen(upper, path_of(at_rest), segment_bytes=8192)
    conversion.look()
    before = conversion.left
    assert before > 3, "the stream is open: its upkeep has to do it"
    for seq in range(301, 400):
        store.append(seq, seq, b"plainsubject.new", b"", b"plainpayload")
        commit(store)
        if seq == 350:
            store.erase(170)
        upkeep(store, turns=2)
    upkeep(store, turns=100)
    commit(store)
    upkeep(store, turns=100)
    conversion.look()
    assert conversion.is_done, conversion.progress()
    assert not readable(disk)
    store.close()
    at_rest, upper = stores(disk, MarkState.SEALED)
    again = reopen(upper, path_of(at_rest), segment_bytes=8192)
    assert again.last_seq == 399 and again.get(170) is None and not again.lost().seqs


def test_damage_stays_as_it_is_and_keeps_it_from_being_done() -> None:
    disk = plain_directory()
    segments = [path for path in disk.paths() if path.endswith(".seg")]
    disk.content(segments[1])[5000] ^= 1
    found = converted(disk, MarkState.ENCRYPTING)
    assert not found.is_done and found.progress().left >= 1
    told: list[str] = []
    at_rest, upper = stores(disk, MarkState.ENCRYPTING)
    again = Conversion(disk, upper, ROOT, at_rest, lambda _level, text: told.append(text))
    for _ in range(40):
        again.look()
        again.tell()
    assert [text for text in told if "are damaged or were set aside" in text and ".seg" in text]
    assert at_rest.disk.read(path_of(at_rest) + segments[1][-20:], 4096, 64), "it can still be looked at"


def test_a_chain_holds_through_both_changes() -> None:
    disk = plain_directory(chained=True)
    for state in (MarkState.ENCRYPTING, MarkState.DECRYPTING):
        assert converted(disk, state).is_done
        at_rest, upper = stores(disk, MarkState.SEALED if state is MarkState.ENCRYPTING else state)
        store = reopen(upper, path_of(at_rest), segment_bytes=8192)
        reports: list[ChainReport | StorageFault] = []
        store.check_chain(None, reports.append)
        upkeep(store)
        assert isinstance(reports[0], ChainReport) and reports[0].intact
        store.close()


def test_nobody_without_the_key_makes_plain_files_be_believed() -> None:
    disk = plain_directory()
    assert converted(disk, MarkState.ENCRYPTING).is_done
    content = disk.content(f"{ROOT}/{MARKER}")
    write_mark(disk, ROOT, KeyRing(MainKey(b"another", AtRestCipher.AES), None, random.Random(1).randbytes))
    with pytest.raises(StorageFault, match="another key"):
        check_keys(disk, ROOT, KEY, has_streams=True)
    from slipstream.kernels.log.record import crc32c

    forged = bytearray(content)
    for at in (0, 512):
        forged[at + 8 : at + 12] = int(MarkState.ENCRYPTING).to_bytes(4, "little")
        forged[at + 84 : at + 88] = crc32c(bytes(forged[at : at + 84])).to_bytes(4, "little")
    disk.content(f"{ROOT}/{MARKER}")[:] = forged
    assert check_keys(disk, ROOT, KEY, has_streams=True).state is MarkState.SEALED


def test_without_the_mark_nothing_is_guessed() -> None:
    disk = plain_directory()
    at_rest, upper = stores(disk, MarkState.ENCRYPTING)
    at_rest.prepare(ROOT, [ACCOUNT])
    store = reopen(upper, path_of(at_rest), segment_bytes=8192)
    commit(store)
    store.close()
    disk.remove(f"{ROOT}/{MARKER}")
    with pytest.raises(StorageFault, match="which says why, is gone"):
        check_keys(disk, ROOT, KEY, has_streams=True)
    assert check_keys(disk, ROOT, KEY, has_streams=True, decrypts=True).state is MarkState.DECRYPTING


def test_the_log_of_a_replica_is_left_alone() -> None:
    disk = plain_directory()
    at_rest, upper = stores(disk, MarkState.ENCRYPTING)
    at_rest.prepare(ROOT, [ACCOUNT])
    disk.create(f"{path_of(at_rest)}/VOTE.0")
    with pytest.raises(StorageFault, match="for its cluster alone"):
        convert_stream(upper, path_of(at_rest))
