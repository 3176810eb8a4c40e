"""The server's own key, which signs checkpoints: made at first use, kept in the storage directory for its owner alone.

    <store_dir>/jetstream/SERVER.nk     the seed of an nkey of kind server, as `nk` writes it; mode 0600

With encryption at rest it is sealed like the files of streams. A file that is there and cannot be used is never
replaced: whoever holds checkpoints knows the server by this key.
"""

from __future__ import annotations

import threading
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from slipstream.auth.nkeys import KeyKind, encode_public_key
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.segments.compaction import write_whole_file

if TYPE_CHECKING:
    from nacl.signing import SigningKey

    from slipstream.jetstream.store.file.disk.disk import Disk

__all__ = ["KEY_FILE", "ServerKey"]

KEY_FILE: Final = "SERVER.nk"


class ServerKey:
    """An nkey of kind server. Its methods block, and may be called in any thread."""

    def __init__(self, disk: Disk, root: str) -> None:
        """Nothing is read, and libsodium not imported, before somebody needs it."""
        self._disk = disk
        self._root = root
        self._lock = threading.Lock()  # two first uses at once must not make two keys
        self._key: SigningKey | None = None

    @property
    def public(self) -> str:
        """The public half.

        Raises:
            StorageFault: the file cannot be made, or holds something else.
        """
        return encode_public_key(KeyKind.SERVER, bytes(self._taken().verify_key))

    def sign(self, text: bytes) -> str:
        """A signature in base64url.

        Raises:
            StorageFault: see `public`.
        """
        return urlsafe_b64encode(self._taken().sign(text).signature).decode().rstrip("=")

    def _taken(self) -> SigningKey:
        from nacl.signing import SigningKey

        with self._lock:
            if self._key is None:
                path = f"{self._root}/{KEY_FILE}"
                try:
                    there = KEY_FILE in self._disk.list_dir(self._root)
                    self._key = SigningKey(self._read(path) if there else self._make(path))
                except OSError as error:
                    raise StorageFault(f"the server's key cannot be used: {error.strerror}", path=path) from error
            return self._key

    def _read(self, path: str) -> bytes:
        from slipstream.client.credentials import decode_seed
        from slipstream.client.options import ClientError

        text = self._disk.read(path, 0, self._disk.size(path)).decode("ascii", "replace")
        try:
            kind, seed = decode_seed(text)
        except ClientError as error:
            raise StorageFault(f"the server's key cannot be used: {error}", path=path) from error
        if kind is not KeyKind.SERVER:
            raise StorageFault("the server's key cannot be used: it is one of another kind", path=path)
        return seed

    def _make(self, path: str) -> bytes:
        from nacl.signing import SigningKey

        from slipstream.client.credentials import encode_seed

        seed = bytes(SigningKey.generate())
        write_whole_file(self._disk, path, f"{encode_seed(KeyKind.SERVER, seed)}\n".encode())
        self._disk.sync_dir(self._root)
        return seed
