"""Encryption at rest in a running server: where the main key comes from, and the disk that uses it.

    key: text | key_file: path | key_command: program with arguments     one of them, in `jetstream`

A file or the output of a command counts without the line break at its end. The command is run once, before anything is
opened; it is for key management services and TPM tools. With `decrypt: true` files are plain from then on.

What this is not: the encryption (`slipstream.jetstream.store.sealed`).
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slipstream.errors import StorageFault
from slipstream.jetstream.account.directory import ACCOUNT_FILE, account_directory, account_of
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.forms import is_sealed_file, walk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.jetstream.store.sealed.marker import (
    MARKER,
    KeyPlan,
    MarkState,
    check_keys,
    remove_mark,
    write_mark,
)
from slipstream.jetstream.store.sealed.rotation import rotate
from slipstream.server.jetstream.storage import CLUSTER_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slipstream.config.jetstream_options import JetStreamOptions
    from slipstream.jetstream.store.file.disk.disk import Disk

__all__ = ["AtRest", "KeysAtRest", "asks_for_other_keys", "fitting_key", "main_key"]

SERVER_KEY_FILE: Final = "SERVER.nk"
_DEPTH_OF_PARTS: Final = 3  # root, account, staging, stream

KEY_COMMAND_TIMEOUT_S: Final = 60
KEY_BYTES_MAX: Final = 65536
"""Of a key: what is longer is not one."""


class AtRest:
    """How the files of this server are kept."""

    def __init__(self, disk: Disk, keys: KeysAtRest) -> None:
        """On this disk, under these keys."""
        current = keys.key if keys.state is not MarkState.DECRYPTING else None
        previous = keys.key if current is None else None
        accepts_plain = keys.state is not MarkState.SEALED
        self._ring = KeyRing(current, previous, secrets.token_bytes, accepts_plain=accepts_plain)
        self.disk = SealedDisk(disk, self._ring)
        """What stores are to use."""
        self.hides_names = current is not None
        """Whether the directory of an account does not tell whose it is."""
        self._state = keys.state
        self._raw = disk
        self._keys = keys

    @property
    def is_converting(self) -> bool:
        """Whether files are being written anew."""
        return self._state is not MarkState.SEALED

    def account_directory(self, account: str) -> str:
        """Name of the directory of an account."""
        return self._keys.key.directory_name(account) if self.hides_names else account_directory(account)

    def accounts(self, root: str) -> list[str]:
        """Accounts that have a directory."""
        found = []
        for name in self.disk.list_dir(root):
            path = f"{root}/{name}/{ACCOUNT_FILE}"
            if not self.hides_names:
                if self.disk.is_dir(f"{root}/{name}"):
                    found.append(account_of(name))
                continue
            with suppress(OSError, UnicodeDecodeError):
                found.append(self.disk.read(path, 0, self.disk.size(path)).decode())
        return sorted(found)

    def prepare(self, root: str, accounts: Iterable[str]) -> None:
        """Before anything is opened: small files and the names of directories as they are to be. Blocks.

        What was done of it before a crash is not done again; and whatever is done, both forms can be read.

        Raises:
            OSError: the disk refused.
            StorageFault: two directories are of the same account, or this is a server of a cluster, whose logs are
                encrypted from their beginning or not at all.
        """
        if self._raw.is_dir(f"{root}/{CLUSTER_DIRECTORY}"):
            raise StorageFault(
                "a server of a cluster is encrypted from its first start on, or never: "
                "move streams with one copy off it, give it an empty directory, and it gets its copies from the others",
                path=root,
            )
        write_mark(self._raw, root, KeyRing(self._keys.key, None, secrets.token_bytes), self._state)
        hidden = {self._keys.key.directory_name(name): name for name in accounts}
        for directory, names in walk(self._raw, root, _DEPTH_OF_PARTS):
            for name in sorted(names, key=lambda name: not name.endswith(".tmp")):
                if name.endswith(".tmp"):  # it was never finished
                    self._raw.remove(f"{directory}/{name}")
                elif name in (SERVER_KEY_FILE, ACCOUNT_FILE) or name.endswith((".part", ".open")):
                    self._rewrite(f"{directory}/{name}")
                elif name.endswith(".sdx"):
                    self._drop_index(f"{directory}/{name}")
        for name in self._raw.list_dir(root):
            if self._raw.is_dir(f"{root}/{name}"):
                self._rename(root, name, hidden)

    def finish(self, root: str) -> None:
        """All files are as they are to be."""
        if self.hides_names:
            self._ring.refuse_plain()
            write_mark(self._raw, root, self._ring)
        else:
            remove_mark(self._raw, root)
        self._state = MarkState.SEALED

    def _rewrite(self, path: str) -> None:
        if is_sealed_file(self._raw, path) in (None, self.hides_names):
            return
        if path.endswith(".open"):  # of no use after a restart
            self._raw.remove(path)
            return
        content = self.disk.read(path, 0, self.disk.size(path))
        write_whole_file(self.disk, path, content)
        self.disk.sync_dir(path.rsplit("/", 1)[0])

    def _drop_index(self, path: str) -> None:
        """Remove an index file that is of the other form than its segment, which stays: it is made anew."""
        segment = path.removesuffix(".sdx") + ".seg"
        if is_sealed_file(self._raw, path) not in (None, self.hides_names):
            try:
                is_old = is_sealed_file(self._raw, segment) != self.hides_names
            except FileNotFoundError:
                is_old = False
            if not is_old:
                self._raw.remove(path)

    def _rename(self, root: str, directory: str, hidden: dict[str, str]) -> None:
        label, path = f"{root}/{directory}/{ACCOUNT_FILE}", f"{root}/{directory}"
        has_label = ACCOUNT_FILE in self._raw.list_dir(path)
        if has_label:
            account = self.disk.read(label, 0, self.disk.size(label)).decode(errors="replace") or hidden.get(directory)
        else:
            account = hidden.get(directory) or account_of(directory)
        if account is None:
            return  # nobody can say whose it is: it stays, for an operator
        if self.hides_names and not has_label:
            write_whole_file(self.disk, label, account.encode())
            self.disk.sync_dir(path)
        target = f"{root}/{self.account_directory(account)}"
        if target != path:
            if self._raw.is_dir(target):
                raise StorageFault(f"account {account} has two directories: {path} and {target}", path=root)
            self._raw.rename(path, target)
            self._raw.sync_dir(root)
        if not self.hides_names and has_label:
            self._raw.remove(f"{target}/{ACCOUNT_FILE}")
            self._raw.sync_dir(target)


@dataclass(frozen=True, slots=True)
class KeysAtRest:
    """The key of a directory, and where it goes."""

    key: MainKey
    state: MarkState = MarkState.SEALED


def fitting_key(
    options: JetStreamOptions,
    disk: Disk,
    root: str,
    *,
    has_streams: bool,
    accounts: Iterable[str],
    log: Callable[[str, str], None],
) -> KeysAtRest | None:
    """The configured key, if it is that of the directory; or made that, if the directory has the previous one.

    If the directory is plain and is to be encrypted, or the other way round, that begins here (`AtRest.prepare`) and
    ends in the background (`conversion`).

    Raises:
        StorageFault: it is not, or cannot be had; nothing was changed.
    """
    accounts = list(accounts)
    try:
        key, previous, plan = _planned(options, disk, root, has_streams=has_streams)
        if plan.rotates:
            assert key is not None and previous is not None
            log("INF", "Changing the encryption key of the streams")
            ring = KeyRing(key, previous, secrets.token_bytes)
            changed = rotate(disk, root, ring, previous, accounts, plan.state)
            log("INF", f"Changed the encryption key of {changed} files; prev_key is not needed any more")
        if options.decrypt and plan.opener is None:
            log("INF", "Nothing stored is encrypted: decrypt is not needed any more, nor is a key")
            return None
        found = plan.opener if options.decrypt else key
        if found is None:
            return None
        keys = KeysAtRest(found, plan.state)
        if plan.state is not MarkState.SEALED:
            verb = "decrypted" if options.decrypt else "encrypted"
            log("WRN", f"The streams in {root} are being {verb} in the background")
            AtRest(disk, keys).prepare(root, accounts)
        elif MARKER not in disk.list_dir(root):
            write_mark(disk, root, KeyRing(found, None, secrets.token_bytes))
    except OSError as error:
        raise StorageFault(str(error), path=root) from error
    return keys


def asks_for_other_keys(
    options: JetStreamOptions, disk: Disk, root: str, now: KeysAtRest | None, *, has_streams: bool
) -> bool:
    """Whether a directory that is used with the keys of `now` is to have others, or none. Changes nothing.

    Raises:
        StorageFault: it cannot be used with those of the options.
    """
    try:
        key, _, plan = _planned(options, disk, root, has_streams=has_streams)
    except OSError as error:
        raise StorageFault(str(error), path=root) from error
    wanted = plan.opener if options.decrypt else key
    if wanted is None or now is None:
        return (wanted is None) != (now is None)
    turns = options.decrypt != (now.state is MarkState.DECRYPTING)
    return plan.rotates or turns or (wanted.id, wanted.cipher) != (now.key.id, now.key.cipher)


def _planned(
    options: JetStreamOptions, disk: Disk, root: str, *, has_streams: bool
) -> tuple[MainKey | None, MainKey | None, KeyPlan]:
    """The key, the one before, and what is to be done with a directory, given these."""
    key = main_key(options)
    previous = MainKey(options.prev_key.encode(), AtRestCipher.AES) if options.prev_key else None
    return key, previous, check_keys(disk, root, key, previous, has_streams=has_streams, decrypts=options.decrypt)


def main_key(options: JetStreamOptions) -> MainKey | None:
    """The key that the configuration names; None if there is none.

    Raises:
        StorageFault: it cannot be had.
    """
    secret = _secret(options.key, options.key_file, options.key_command)
    if secret is None:
        return None
    return MainKey(secret, AtRestCipher.AES if options.cipher == "aes" else AtRestCipher.CHACHA)


def _secret(text: str, file: str, command: str) -> bytes | None:
    if text:
        return text.encode()
    if file:
        try:
            with open(file, "rb") as opened:
                found = opened.read(KEY_BYTES_MAX + 1)
        except OSError as error:
            raise StorageFault(f"the encryption key cannot be read: {error}") from error
        return _one_line(found, f"the file {file}")
    if command:
        return _one_line(_output(command), "the key command")
    return None


def _output(command: str) -> bytes:
    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=KEY_COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise StorageFault(f"the key command cannot be run: {type(error).__name__}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise StorageFault(f"the key command ended with status {done.returncode}: {said}")
    return done.stdout


def _one_line(found: bytes, source: str) -> bytes:
    found = found.removesuffix(b"\n").removesuffix(b"\r")
    if not found or len(found) > KEY_BYTES_MAX:
        raise StorageFault(f"{source} gives no encryption key")
    return found
