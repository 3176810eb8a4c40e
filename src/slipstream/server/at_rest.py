"""Encryption at rest in a running server: where the main key comes from, and the disk that uses it.

    key: text | key_file: path | key_command: program with arguments     one of them, in `jetstream`

A file or the output of a command counts without the line break at its end. The command is run once, before anything is
opened; it is for key management services and TPM tools.

What this is not: the encryption (`slipstream.jetstream.store.sealed`).
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from slipstream.errors import StorageFault
from slipstream.jetstream.account.directory import ACCOUNT_FILE
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.jetstream.store.sealed.marker import MARKER, check_keys, write_mark
from slipstream.jetstream.store.sealed.rotation import rotate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slipstream.config.jetstream_options import JetStreamOptions
    from slipstream.jetstream.store.file.disk import Disk

__all__ = ["AtRest", "fitting_key", "main_key"]

KEY_COMMAND_TIMEOUT_S: Final = 60
KEY_BYTES_MAX: Final = 65536
"""Of a key: what is longer is not one."""


class AtRest:
    """How the files of this server are kept."""

    def __init__(self, disk: Disk, key: MainKey) -> None:
        """On this disk, under this key."""
        self.disk = SealedDisk(disk, KeyRing(key, None, secrets.token_bytes))
        """What stores are to use."""
        self._key = key

    def account_directory(self, account: str) -> str:
        """Name of the directory of an account: it does not tell whose it is."""
        return self._key.directory_name(account)

    def accounts(self, root: str) -> list[str]:
        """Accounts that have a directory."""
        found = []
        for name in self.disk.list_dir(root):
            path = f"{root}/{name}/{ACCOUNT_FILE}"
            with suppress(OSError, UnicodeDecodeError):
                found.append(self.disk.read(path, 0, self.disk.size(path)).decode())
        return sorted(found)


def fitting_key(
    options: JetStreamOptions,
    disk: Disk,
    root: str,
    *,
    has_streams: bool,
    accounts: Iterable[str],
    log: Callable[[str, str], None],
) -> MainKey | None:
    """The configured key, if it is that of the directory; or made that, if the directory has the previous one.

    Raises:
        StorageFault: it is not, or cannot be had; nothing was changed.
    """
    key = main_key(options)
    previous = MainKey(options.prev_key.encode(), AtRestCipher.AES) if options.prev_key else None
    try:
        if check_keys(disk, root, key, previous, has_streams=has_streams):
            assert key is not None and previous is not None
            log("INF", "Changing the encryption key of the streams")
            changed = rotate(disk, root, KeyRing(key, previous, secrets.token_bytes), previous, accounts)
            log("INF", f"Changed the encryption key of {changed} files; prev_key is not needed any more")
        if key is not None and MARKER not in disk.list_dir(root):
            write_mark(disk, root, KeyRing(key, None, secrets.token_bytes))
    except OSError as error:
        raise StorageFault(str(error), path=root) from error
    return key


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
