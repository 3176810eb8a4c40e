"""What can be read by who has the files of an encrypted store and not its key: nothing stored, no name, no key.

Names of files count as well. Keys are looked for as they are, in hexadecimal and in base64: the one from outside, what
is made from it, and the data key of every file, which the search itself unwraps.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path

from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.sealed.boxes import BOX_HEAD, BOX_HEAD_BYTES, BOX_MAGIC
from slipstream.jetstream.store.sealed.keys import AtRestCipher, MainKey
from slipstream.testing.sim_disk import SimDisk

WORD_LEAST = 6  # bytes; shorter ones are found among random bytes
_CIPHERS = {int(cipher): cipher for cipher in AtRestCipher}


def of_directory(*roots: Path) -> dict[str, bytes]:
    """Every file below these directories, by its path below them."""
    return {
        str(path.relative_to(root)): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()
    }


def of_disk(disk: SimDisk) -> dict[str, bytes]:
    """Every file of a simulated disk, as a process that is started finds them."""
    return {path: bytes(disk.content(path)) for path in disk.paths()}


def told(files: Mapping[str, bytes], words: Iterable[bytes], secret: bytes, log: Iterable[str] = ()) -> list[str]:
    """Where a word or a key can be read: in the name of a file, in a file, in a line of a log."""
    wanted = {word: f"{word!r}" for word in words}
    assert all(len(word) >= WORD_LEAST for word in wanted)
    keys = {form: f"a key of {where}" for where, key in keys_of(files, secret) for form in _forms(key)}
    found = []
    for sought, what in {**wanted, **keys}.items():
        found += [f"{what} is in {path}" for path, content in files.items() if sought in content]
        found += [f"{what} is in the name {path}" for path in files if sought in path.encode()]
        found += [f"{what} is in the log: {line}" for line in log if sought in line.encode()]
    return found


def keys_of(files: Mapping[str, bytes], secret: bytes) -> list[tuple[str, bytes]]:
    """Every key there is, with the first file that it belongs to."""
    root = hmac.digest(b"slipstream at rest 1", secret, "sha256")
    found = {secret: "the configuration", root: "the server"}
    for word in (b"wrapping", b"names"):
        found[hmac.digest(root, word, "sha256")] = "the server"
    for path, content in files.items():
        for cipher, wrapped in _wrapped(content):
            key = MainKey(secret, cipher).unwrap(cipher, wrapped)
            if key is not None:
                found.setdefault(key, path)
    return [(where, key) for key, where in found.items()]


def _wrapped(content: bytes) -> list[tuple[AtRestCipher, bytes]]:
    """The data keys that the head of a file names."""
    header = decode_header(content[:HEADER_BYTES])
    if header is not None and header.cipher in _CIPHERS:
        return [(_CIPHERS[header.cipher], header.wrapped)]
    if content[: len(BOX_MAGIC)] == BOX_MAGIC and len(content) >= BOX_HEAD_BYTES:
        _, cipher, _, wrapped, _ = BOX_HEAD.unpack_from(content)
        return [(_CIPHERS[cipher], wrapped)] if cipher in _CIPHERS else []
    return []


def _forms(key: bytes) -> tuple[bytes, ...]:
    return key, key.hex().encode(), b64encode(key).rstrip(b"=")
