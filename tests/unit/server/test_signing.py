"""The server's own key: one, for its owner alone, sealed where files are."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slipstream.auth.nkeys import KeyKind, verify
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.jetstream.store.sealed.rotation import rotate
from slipstream.server.jetstream.signing import KEY_FILE, ServerKey

USER_SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


def test_it_stays_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        key = ServerKey(RealDisk(), str(tmp_path))
        assert list(tmp_path.iterdir()) == [], "not before somebody needs it"
        public = key.public
    finally:
        os.umask(before)
    path = tmp_path / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text().startswith("SN")
    assert [entry.name for entry in tmp_path.iterdir()] == [KEY_FILE]
    again = ServerKey(RealDisk(), str(tmp_path))
    assert again.public == public and public.startswith("N")
    assert verify(public, KeyKind.SERVER, b"text", again.sign(b"text"))
    assert not verify(public, KeyKind.SERVER, b"Text", again.sign(b"text"))


def test_two_first_uses_make_one_key(tmp_path: Path) -> None:
    key = ServerKey(RealDisk(), str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: key.public, range(32)))) == 1


def test_what_is_left_of_a_making_that_was_cut_off_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / f"{KEY_FILE}.tmp").write_text("SN")
    assert ServerKey(RealDisk(), str(tmp_path)).public == ServerKey(RealDisk(), str(tmp_path)).public


@pytest.mark.parametrize("text", ["", "nothing", USER_SEED, "\xff" * 58, "S" * 58])
def test_a_file_that_is_no_such_key_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / KEY_FILE
    path.write_text(text)
    with pytest.raises(StorageFault, match="the server's key cannot be used") as caught:
        ServerKey(RealDisk(), str(tmp_path)).sign(b"x")
    assert path.read_text() == text
    assert len(text) < 10 or text not in str(caught.value), "a secret is not told"


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(StorageFault, match="No such file"):
        _ = ServerKey(RealDisk(), str(tmp_path / "none")).public


def test_it_is_sealed_and_outlives_a_change_of_the_main_key(tmp_path: Path) -> None:
    first, second = MainKey(b"first", AtRestCipher.AES), MainKey(b"second", AtRestCipher.CHACHA)
    disk = SealedDisk(RealDisk(), KeyRing(first, None, os.urandom))
    public = ServerKey(disk, str(tmp_path)).public
    path = tmp_path / KEY_FILE
    assert path.read_bytes().startswith(b"SLIPBOX1") and b"SN" not in path.read_bytes()[200:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(StorageFault, match="cannot be used"):
        _ = ServerKey(RealDisk(), str(tmp_path)).public
    assert rotate(RealDisk(), str(tmp_path), KeyRing(second, first, os.urandom), first, ()) == 1
    sealed = SealedDisk(RealDisk(), KeyRing(second, None, os.urandom))
    assert ServerKey(sealed, str(tmp_path)).public == public
    with pytest.raises(StorageFault, match="cannot be used"):
        _ = ServerKey(SealedDisk(RealDisk(), KeyRing(first, None, os.urandom)), str(tmp_path)).public
