"""A directory with the tokens of accounts, one file each, as nats-server keeps it: `<public key>.jwt`.

`full` keeps every account and refuses more than its limit; `cache` keeps those that were used last, for a while. The
sum (exclusive or) of the SHA-256 of all tokens tells two servers whether they have the same. A directory can be taken
over from nats-server and given back.

Every call reads or writes files and belongs on a thread; calls come one at a time.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from slipstream.auth.jwt.token import InvalidToken, decode_generic, peek_end
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.errors import SlipstreamError
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slipstream.config.options import ResolverOptions

__all__ = ["DirectoryError", "TokenDirectory"]

CACHE_TOKENS: Final = 1_000  # a cache keeps as many when the configuration does not say, as in nats-server
_SUFFIX: Final = ".jwt"
_NEVER: Final = 2**63 - 1


class DirectoryError(SlipstreamError):
    """A token cannot be kept or removed; the text goes to whoever asked."""


class _Kept:
    __slots__ = ("digest", "expires_ns")

    def __init__(self, digest: int, expires_ns: int) -> None:
        self.digest = digest
        self.expires_ns = expires_ns


class TokenDirectory:
    """Tokens by the public key of their account. Invariant: every key here is one, so it is safe as a file name."""

    def __init__(self, options: ResolverOptions, now_ns: Callable[[], int]) -> None:
        """Read all of the directory, which is made if it is not there.

        Raises:
            OSError: it cannot be used.
        """
        self.path = os.path.abspath(options.dir)
        self._is_cache = options.type == "cache"
        self._limit = options.limit or (CACHE_TOKENS if self._is_cache else _NEVER)
        self._ttl_ns = options.ttl_ns
        self.allows_delete = self._is_cache or options.allow_delete
        self._renames_deleted = not self._is_cache and not options.hard_delete
        self._now_ns = now_ns
        self._kept: dict[str, _Kept] = {}  # a cache: in the order of their last use
        self._sum = 0
        _make_lasting(self.path)
        with os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(_SUFFIX)]
        for name in names:
            key = name.removesuffix(_SUFFIX)
            text = self._read(key) if is_public_key(key, KeyKind.ACCOUNT) else None
            if text:
                self._track(key, text)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def digest(self) -> bytes:
        """The sum over all tokens."""
        return self._sum.to_bytes(32, "big")

    def load(self, key: str) -> str:
        """The token of an account; empty when there is none."""
        if not is_public_key(key, KeyKind.ACCOUNT):
            return ""
        text = self._read(key) or ""
        kept = self._kept.get(key)
        if text and kept is not None and self._is_cache:
            self._kept[key] = self._kept.pop(key)
            if self._ttl_ns:
                kept.expires_ns = self._now_ns() + self._ttl_ns
        return text

    def save(self, key: str, text: str) -> bool:
        """Keep a token; tells whether it is another than before.

        Raises:
            DirectoryError: there are as many as there may be.
            OSError: the file cannot be written.
        """
        if not is_public_key(key, KeyKind.ACCOUNT):
            raise DirectoryError("invalid public key")
        if not text:
            raise DirectoryError("invalid JWT")
        kept = self._kept.get(key)
        if kept is not None and kept.digest == _digest(text):
            return False
        if kept is None and len(self._kept) >= self._limit:
            if not self._is_cache:
                raise DirectoryError("jwt store is full")
            oldest = next(iter(self._kept))
            os.remove(self._file(oldest))
            self._forget(oldest)
        # A token is read whole or not at all, whatever happens meanwhile.
        temporary = f"{self._file(key)}.new"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._file(key))
        _sync(self.path)
        self._track(key, text)
        return True

    def save_if_newer(self, key: str, text: str) -> bool:
        """Keep a token unless the one here was issued later; tells whether it was kept.

        Raises:
            DirectoryError: it is not one for this account, or there are as many as there may be.
            OSError: a file cannot be read or written.
        """
        present = self._read(key) if is_public_key(key, KeyKind.ACCOUNT) else None
        if present:
            try:
                new = decode_generic(text)
            except InvalidToken as error:
                raise DirectoryError(str(error)) from None
            try:
                old = decode_generic(present)
            except InvalidToken:
                return self.save(key, text)
            if old.jti == new.jti or old.iat > new.iat:
                return False
            if new.sub != key:
                raise DirectoryError("jwt subject nkey and provided nkey do not match")
        return self.save(key, text)

    def delete(self, key: str) -> bool:
        """Remove a token; tells whether there was one.

        Raises:
            OSError: the file cannot be removed.
        """
        if not is_public_key(key, KeyKind.ACCOUNT):
            return False
        try:
            if self._renames_deleted:
                os.replace(self._file(key), f"{self._file(key)}.deleted")
            else:
                os.remove(self._file(key))
        except FileNotFoundError:
            return False
        _sync(self.path)
        self._forget(key)
        return True

    def tokens(self) -> Iterator[tuple[str, str]]:
        """Every account and its token, in the order of their keys, without those that have ended."""
        now_s = self._now_ns() // SECOND_NS
        for key in sorted(self._kept):
            text = self._read(key)
            if text and not 0 < peek_end(text) < now_s:
                yield key, text

    def expire(self) -> None:
        """Remove what has come to its end."""
        now_ns = self._now_ns()
        for key in [key for key, kept in self._kept.items() if kept.expires_ns <= now_ns]:
            try:
                os.remove(self._file(key))
            except FileNotFoundError:
                pass
            except OSError:
                continue
            self._forget(key)

    def _file(self, key: str) -> str:
        return os.path.join(self.path, key + _SUFFIX)

    def _read(self, key: str) -> str | None:
        try:
            with open(self._file(key), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _track(self, key: str, text: str) -> None:
        self._forget(key)
        expires_ns = self._now_ns() + self._ttl_ns if self._ttl_ns else peek_end(text) * SECOND_NS or _NEVER
        kept = _Kept(_digest(text), expires_ns)
        self._kept[key] = kept
        self._sum ^= kept.digest

    def _forget(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._sum ^= kept.digest


def _make_lasting(path: str) -> None:
    """Make a directory with those above it; a power cut does not take it back."""
    if not os.path.isdir(path):
        _make_lasting(os.path.dirname(path))
        os.mkdir(path, mode=0o750)
        _sync(os.path.dirname(path))


def _sync(path: str) -> None:
    """What a directory says is on disk: whoever pushed or deleted a token is told so next."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
